"""Saying who is there: SaslHandshake and SaslAuthenticate, with PLAIN, SCRAM or OAUTHBEARER.

`authenticate` is called when a connection opens and, where the broker ends sessions (KIP-368), before one ends.
"""

from typing import Final, Protocol, TypeVar

from ottla.base.errors import ErrorCode
from ottla.client.errors import ClientError
from ottla.client.raw.scram import ScramError, ScramExchange
from ottla.client.raw.security import Credentials, Mechanism
from ottla.wire import api
from ottla.wire.apis import ApiKey
from ottla.wire.message import Message

R = TypeVar("R", bound=Message)

REFUSED: Final = ErrorCode.SASL_AUTHENTICATION_FAILED.name
_HASHES: Final = {Mechanism.SCRAM_SHA_256: "sha256", Mechanism.SCRAM_SHA_512: "sha512"}


class Asks(Protocol):
    def ask(self, key: ApiKey, request: Message, response_class: type[R]) -> R: ...


class Exchange(Protocol):
    def first(self) -> bytes: ...

    def answer(self, challenge: bytes) -> bytes | None:
        """None when there is nothing left to say."""


class PlainExchange:
    def __init__(self, username: str, password: str) -> None:
        self._message = f"\0{username}\0{password}".encode()

    def first(self) -> bytes:
        return self._message

    def answer(self, challenge: bytes) -> bytes | None:
        return None


class TokenExchange:
    """RFC 7628."""

    def __init__(self, token: str) -> None:
        self._message = f"n,,\x01auth=Bearer {token}\x01\x01".encode()

    def first(self) -> bytes:
        return self._message

    def answer(self, challenge: bytes) -> bytes | None:
        """A challenge is the reason of a refusal, and is answered before the refusal comes."""
        return b"\x01" if challenge else None


def exchange_of(credentials: Credentials) -> Exchange:
    match credentials.mechanism:
        case Mechanism.PLAIN:
            return PlainExchange(credentials.username, credentials.password)
        case Mechanism.SCRAM_SHA_256 | Mechanism.SCRAM_SHA_512:
            hash_name = _HASHES[credentials.mechanism]
            return ScramExchange(hash_name, credentials.username, credentials.password)
        case Mechanism.OAUTHBEARER:
            assert credentials.token is not None
            return TokenExchange(credentials.token())


def authenticate(connection: Asks, credentials: Credentials) -> int:
    """Milliseconds until the broker wants to hear it again; 0 for never. `ClientError` if it does not know us."""
    _agree(connection, credentials.mechanism)
    exchange = exchange_of(credentials)
    said: bytes | None = exchange.first()
    while said is not None:
        request = api.SaslAuthenticateRequest(auth_bytes=said)
        answer = connection.ask(ApiKey.SASL_AUTHENTICATE, request, api.SaslAuthenticateResponse)
        if answer.error_code != ErrorCode.NONE:
            raise _refused(credentials, answer.error_message or "it refuses")
        try:
            said = exchange.answer(bytes(answer.auth_bytes))
        except ScramError as error:
            raise _refused(credentials, str(error)) from None
    return answer.session_lifetime_ms


def _agree(connection: Asks, mechanism: Mechanism) -> None:
    request = api.SaslHandshakeRequest(mechanism=mechanism)
    try:
        answer = connection.ask(ApiKey.SASL_HANDSHAKE, request, api.SaslHandshakeResponse)
    except ClientError as error:
        if error.code != ErrorCode.UNSUPPORTED_VERSION.name:
            raise
        answer = api.SaslHandshakeResponse(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM)
    if answer.error_code != ErrorCode.NONE:
        offered = ", ".join(answer.mechanisms) or "no mechanism at all: is this listener one for SASL?"
        raise ClientError(
            ErrorCode.UNSUPPORTED_SASL_MECHANISM.name, f"sasl.mechanism={mechanism}: the broker offers {offered}"
        )


def _refused(credentials: Credentials, reason: str) -> ClientError:
    who = f"{credentials.username!r} by " if credentials.username else ""
    return ClientError(REFUSED, f"{who}{credentials.mechanism}: {reason}")
