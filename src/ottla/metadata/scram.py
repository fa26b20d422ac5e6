"""SCRAM credentials (RFC 5802, KIP-554): what the cluster keeps of a user's password.

A client derives a salted password and sends that; the controller makes two keys of it, which are recorded. With them a
listener can check who knows the password, and whoever reads them cannot log in. Neither salt nor keys are ever told or
logged: they do not even show in a representation.
"""

import hmac
from dataclasses import dataclass, field
from enum import IntEnum
from hashlib import new as new_hash
from typing import Final, NamedTuple

ITERATIONS_MIN: Final = 4096  # RFC 7677 asks for at least so many.
ITERATIONS_MAX: Final = 16_384  # As in Kafka: whoever logs in makes both sides count them.


class ScramMechanism(IntEnum):
    """By Kafka's numbers, in requests and in records."""

    SHA_256 = 1
    SHA_512 = 2

    @property
    def hash_name(self) -> str:
        return _HASH_NAMES[self]


_HASH_NAMES: Final = {ScramMechanism.SHA_256: "sha256", ScramMechanism.SHA_512: "sha512"}


class ScramIdentity(NamedTuple):
    """A user may have a password for each mechanism."""

    user: str
    mechanism: ScramMechanism


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramCredential:
    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int


def credential_of(
    mechanism: ScramMechanism, *, salt: bytes, salted_password: bytes, iterations: int
) -> ScramCredential:
    """The keys of RFC 5802, section 3."""
    client_key = hmac.digest(salted_password, b"Client Key", mechanism.hash_name)
    return ScramCredential(
        salt=salt,
        stored_key=new_hash(mechanism.hash_name, client_key).digest(),
        server_key=hmac.digest(salted_password, b"Server Key", mechanism.hash_name),
        iterations=iterations,
    )
