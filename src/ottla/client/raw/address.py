"""Where a broker listens, as people write it."""

from typing import Final, NamedTuple

DEFAULT_PORT: Final = 9092


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def parse_address(text: str) -> Address:
    """`host`, `host:port`, `[::1]:port`, with or without a `PROTOCOL://` before it. ValueError for anything else."""
    bare = text.strip().rpartition("://")[2]
    host, colon, port = bare.rpartition(":")
    if not colon or bare.endswith("]"):
        host, port = bare, str(DEFAULT_PORT)
    if not host or not port.isdigit():
        raise ValueError(f"{text!r} is not host:port")
    return Address(host.strip("[]"), int(port))
