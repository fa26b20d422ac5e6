"""From what a program has to bytes, and back. A serializer is any callable; these are the ones used most."""

import json
from collections.abc import Callable
from typing import Any, TypeAlias

Serializer: TypeAlias = Callable[[Any], bytes | None]
Deserializer: TypeAlias = Callable[[bytes], Any]


def to_bytes(value: object) -> bytes | None:
    """The default: bytes as they are, text as UTF-8, None as null (a tombstone in a compacted topic)."""
    match value:
        case None | bytes():
            return value
        case str():
            return value.encode()
        case bytearray() | memoryview():
            return bytes(value)
    raise TypeError(
        f"a key or value is str, bytes or None, not {type(value).__name__}: give the producer a value_serializer "
        "(or key_serializer), such as ottla.client.serializers.to_json"
    )


def to_json(value: object) -> bytes | None:
    return None if value is None else json.dumps(value, separators=(",", ":")).encode()


def from_json(data: bytes) -> Any:
    return json.loads(data)


def from_utf8(data: bytes) -> str:
    return data.decode()
