"""SCRAM (RFC 5802, RFC 7677), the client's side: a password is proved, not sent, and the server proves that it knows it.

Names and passwords are taken as UTF-8, as Kafka takes them: neither side applies SASLprep.
"""

import base64
import hashlib
import hmac
import secrets
from typing import Final

ITERATIONS_MIN: Final = 4096  # RFC 7677; fewer would let a server that was put in between ask for a cheap proof.
ITERATIONS_MAX: Final = 1_000_000  # A second or so: more would be a way to keep clients busy.
NONCE_BYTES: Final = 24

_NO_CHANNEL_BINDING: Final = "n,,"


class ScramError(Exception):
    """The server does not know the password, or does not speak SCRAM."""


class ScramExchange:
    """`first`, then `answer` to each challenge; None is the end, and both sides have proved themselves."""

    def __init__(self, hash_name: str, username: str, password: str, *, nonce: str | None = None) -> None:
        """`hash_name` as hashlib knows it; `nonce` only for tests."""
        self._hash_name = hash_name
        self._username = username.replace("=", "=3D").replace(",", "=2C")
        self._password = password.encode()
        self._nonce = nonce or base64.b64encode(secrets.token_bytes(NONCE_BYTES)).decode()
        self._server_signature: bytes | None = None

    def first(self) -> bytes:
        return f"{_NO_CHANNEL_BINDING}{self._first_bare}".encode()

    def answer(self, challenge: bytes) -> bytes | None:
        said = _attributes(challenge)
        if "e" in said:
            raise ScramError(f"the broker says {said['e']}")
        if self._server_signature is None:
            return self._final(challenge.decode(), said)
        if not hmac.compare_digest(_decoded(said, "v"), self._server_signature):
            raise ScramError("the broker does not know the password either: is it the right one?")
        return None

    @property
    def _first_bare(self) -> str:
        return f"n={self._username},r={self._nonce}"

    def _final(self, server_first: str, said: dict[str, str]) -> bytes:
        nonce, iterations = said.get("r", ""), said.get("i", "")
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise ScramError("the broker answers to somebody else's nonce")
        if not iterations.isdecimal() or not ITERATIONS_MIN <= int(iterations) <= ITERATIONS_MAX:
            raise ScramError(f"i={iterations} of the broker is not within {ITERATIONS_MIN} to {ITERATIONS_MAX}")
        salted = hashlib.pbkdf2_hmac(self._hash_name, self._password, _decoded(said, "s"), int(iterations))
        binding = base64.b64encode(_NO_CHANNEL_BINDING.encode()).decode()
        without_proof = f"c={binding},r={nonce}"
        signed = f"{self._first_bare},{server_first},{without_proof}".encode()
        client_key = self._hmac(salted, b"Client Key")
        client_signature = self._hmac(hashlib.new(self._hash_name, client_key).digest(), signed)
        proof = bytes(a ^ b for a, b in zip(client_key, client_signature, strict=True))
        self._server_signature = self._hmac(self._hmac(salted, b"Server Key"), signed)
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def _hmac(self, key: bytes, text: bytes) -> bytes:
        return hmac.digest(key, text, self._hash_name)


def _attributes(message: bytes) -> dict[str, str]:
    try:
        return dict(part.split("=", 1) for part in message.decode().split(","))
    except ValueError:
        raise ScramError("the broker's answer is not SCRAM") from None


def _decoded(said: dict[str, str], name: str) -> bytes:
    try:
        return base64.b64decode(said[name], validate=True)
    except (KeyError, ValueError):
        raise ScramError(f"the broker's answer has no {name}=") from None
