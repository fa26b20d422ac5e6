"""One broker: the constructor connects, asks what it can do and says who is there; then a request and its answer at a time.

What passes by itself is `NO_CONNECTION`, a certificate that is not trusted is `NOT_TRUSTED`, and what brokers think of
our credentials has Kafka's names: those two are not tried again, or an account would be locked by patience.
"""

import re
import socket
import ssl
import struct
import time
from typing import Final, Self, TypeVar, cast

import ottla
from ottla.base.errors import ErrorCode, ProtocolError
from ottla.client.errors import ClientError
from ottla.client.raw.address import Address
from ottla.client.raw.sasl import authenticate
from ottla.client.raw.security import PLAINTEXT, Security
from ottla.wire import api
from ottla.wire.apis import API_INFO, ApiKey
from ottla.wire.frame import decode_response, encode_request
from ottla.wire.message import Message

R = TypeVar("R", bound=Message)

NO_CONNECTION: Final = "_TRANSPORT"  # librdkafka's name, and so the SDK's
NOT_TRUSTED: Final = "_SSL"
RESPONSE_BYTES_MAX: Final = 256 * 1024 * 1024
# Version 3 leaves out features whose lowest version is 0, version 0 all of them; any broker knows version 0.
API_VERSIONS_TRIED: Final = (4, 3, 0)
SESSION_PART_USED: Final = 0.85  # Of a session's life, before it is begun anew; Java's clients do it at 85 to 95 %.
_HOST_MISMATCHES: Final = (62, 64)  # OpenSSL's codes for a name and for an address.
TLS_ALERT: Final = b"\x15\x03"  # What a TLS listener says to one who does not speak it.

_SIZE: Final = struct.Struct(">i")
_CORRELATION_ID_AND_ERROR: Final = struct.Struct(">ih")


class Connection:
    """`abilities` is what the broker said of itself. Whatever goes wrong is a `ClientError`."""

    def __init__(self, address: Address, *, client_id: str, timeout_s: float, security: Security = PLAINTEXT) -> None:
        self._address = address
        self._client_id = client_id
        self._security = security
        self._correlation_id = 0
        self._session_ends: float | None = None
        self._is_welcome = False  # Until a request was answered that is not about the connection itself.
        self._socket = self._opened(timeout_s)
        self._answers = self._socket.makefile("rb")
        try:
            self.abilities = self._ask_abilities()
            self._offered = {each.api_key: (each.min_version, each.max_version) for each in self.abilities.api_keys}
            self._authenticate()
        except BaseException:
            self.close()
            raise

    def _opened(self, timeout_s: float) -> socket.socket:
        try:
            opened = socket.create_connection(self._address, timeout=timeout_s)
        except OSError as error:
            raise self._failed(error) from None
        try:
            # The end of a request is not to wait until the broker has acknowledged its beginning.
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return opened if self._security.tls is None else self._encrypted(opened)
        except BaseException:
            opened.close()
            raise

    def _encrypted(self, opened: socket.socket) -> ssl.SSLSocket:
        assert self._security.tls is not None
        try:
            context = self._security.tls.context()
        except OSError as error:
            raise ClientError(NOT_TRUSTED, f"the certificates or the key given for TLS: {error}") from None
        try:
            return context.wrap_socket(opened, server_hostname=self._address.host)
        except OSError as error:
            raise self._failed(error) from None

    def _authenticate(self) -> None:
        if self._security.sasl is None:
            return
        self._session_ends = None  # The requests of the exchange itself do not begin another.
        began = time.monotonic()
        lifetime_ms = authenticate(self, self._security.sasl)
        self._session_ends = began + lifetime_ms / 1000 * SESSION_PART_USED if lifetime_ms else None

    def close(self) -> None:
        self._answers.close()
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(self, key: ApiKey, request: Message, response_class: type[R]) -> R:
        version = self.send(key, request)
        return self.receive(key, version, response_class)

    def send(self, key: ApiKey, request: Message) -> int:
        """Without waiting for the answer, which is to be `receive`d before anything else; the version that it will have."""
        if self._session_ends is not None and time.monotonic() >= self._session_ends:
            self._authenticate()
        lowest, highest = API_INFO[key].versions
        their_lowest, their_highest = self._offered.get(key, (0, -1))
        version = min(highest, their_highest)
        if version < max(lowest, their_lowest):
            raise ClientError(
                ErrorCode.UNSUPPORTED_VERSION.name,
                f"{self._address} does not offer {API_INFO[key].name} in a version known here",
            )
        self._send(key, version, request)
        return version

    def receive(self, key: ApiKey, version: int, response_class: type[R]) -> R:
        answer = self._decoded(key, version, self._receive_frame())
        self._is_welcome = True
        return cast(R, answer)

    def _ask_abilities(self) -> api.ApiVersionsResponse:
        request = api.ApiVersionsRequest(client_software_name="ottla", client_software_version=ottla.__version__)
        for version in API_VERSIONS_TRIED:
            self._send(ApiKey.API_VERSIONS, version, request)
            frame = self._receive_frame()
            if len(frame) >= _CORRELATION_ID_AND_ERROR.size:
                _, error_code = _CORRELATION_ID_AND_ERROR.unpack_from(frame)
                if error_code != ErrorCode.UNSUPPORTED_VERSION:
                    break
        return cast(api.ApiVersionsResponse, self._decoded(ApiKey.API_VERSIONS, version, frame))

    def _send(self, key: ApiKey, version: int, request: Message) -> None:
        self._correlation_id += 1
        try:
            self._socket.sendall(encode_request(key, version, self._correlation_id, self._client_id, request))
        except OSError as error:
            raise self._failed(error) from None

    def _receive_frame(self) -> memoryview:
        try:
            prefix = self._receive(_SIZE.size)
            (size_bytes,) = _SIZE.unpack(prefix)
            if prefix.startswith(TLS_ALERT) and self._security.tls is None:
                raise ConnectionError("it speaks TLS: security.protocol=SSL or SASL_SSL")
            if not 0 <= size_bytes <= RESPONSE_BYTES_MAX:
                raise ConnectionError(f"{size_bytes} bytes are no answer")
            return memoryview(self._receive(size_bytes))
        except OSError as error:
            raise self._failed(error) from None

    def _receive(self, size_bytes: int) -> bytes:
        received = self._answers.read(size_bytes)
        if len(received) < size_bytes:
            raise ConnectionResetError("it closed the connection")
        return received

    def _decoded(self, key: ApiKey, version: int, frame: memoryview) -> Message:
        try:
            return decode_response(key, version, frame)[1]
        except ProtocolError as error:
            raise self._failed(error) from None

    def _failed(self, error: Exception) -> ClientError:
        if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError):
            return ClientError(NOT_TRUSTED, f"{self._address}: {_tls_problem(error)}")
        is_closed = isinstance(error, ConnectionResetError | BrokenPipeError | ssl.SSLEOFError)
        hint = f" ({self._likely_reason})" if is_closed and not self._is_welcome else ""
        return ClientError(NO_CONNECTION, f"{self._address}: {error}{hint}", retriable=True)

    @property
    def _likely_reason(self) -> str:
        """Why a broker would close a connection before it has answered anything."""
        tls = self._security.tls
        certificate = ", or want a certificate: ssl.certificate.location" if tls and not tls.certificate else ""
        return f"it may be a listener for something else than security.protocol={self._security.protocol}{certificate}"


def _tls_problem(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        if error.verify_code in _HOST_MISMATCHES:
            return (
                f"the certificate is another host's: {error.verify_message}. Use the name that is in it, or "
                "ssl.endpoint.identification.algorithm=none"
            )
        return f"its certificate is not trusted: {error.verify_message}. Who signed it is for ssl.ca.location to say"
    if "ALERT" in (error.reason or "") and re.search("CERTIFICATE|UNKNOWN_CA|HANDSHAKE", error.reason):
        return (
            f"it wants a certificate of ours that it can trust ({error.reason}): ssl.certificate.location and "
            "ssl.key.location name it"
        )
    return f"TLS failed: {error}"
