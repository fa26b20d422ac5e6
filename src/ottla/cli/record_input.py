"""Lines of text into records: a value a line, key and value with a separator between, or a JSON object a line.

The JSON form is what `ottla consume --json` prints, so that one command's output is the other's input:
`{"key": …, "value": …, "headers": {…}, "partition": …, "timestamp": …}`, all optional. `topic` and `offset`, which are
printed too, say nothing here; any other member is refused, or a misspelt one would be lost in silence. A string
stands for its UTF-8 bytes, null for null, `key_base64`, `value_base64` and a header's `{"base64": …}` for bytes that
are not text, and any other JSON value for its own compact JSON.
"""

import base64
import binascii
import json
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

Header: TypeAlias = tuple[str, bytes | None]


class OutgoingRecord(NamedTuple):
    key: bytes | None = None
    value: bytes | None = None
    headers: Sequence[Header] = ()
    partition: int | None = None
    timestamp_ms: int | None = None


MEMBERS: Final = frozenset(
    {"key", "key_base64", "value", "value_base64", "headers", "partition", "timestamp", "topic", "offset"}
)

LineParser: TypeAlias = Callable[[bytes], OutgoingRecord]


def parse_value_line(line: bytes) -> OutgoingRecord:
    return OutgoingRecord(value=line)


def key_value_parser(separator: str) -> LineParser:
    """Splits at the first separator. A line without one is an error: a record with the wrong key is worse than none."""
    divider = separator.encode()

    def parse(line: bytes) -> OutgoingRecord:
        key, found, value = line.partition(divider)
        if not found:
            raise ValueError(f"no key separator {separator!r}")
        return OutgoingRecord(key=key, value=value)

    return parse


def parse_json_line(line: bytes) -> OutgoingRecord:
    try:
        document = json.loads(line)
    except ValueError as error:
        raise ValueError(f"not JSON: {error}") from error
    if not isinstance(document, dict):
        raise ValueError('not a JSON object such as {"key": "a", "value": "b"}')
    unknown = sorted(document.keys() - MEMBERS)
    if unknown:
        raise ValueError(f"unknown member {unknown[0]!r}: known are {', '.join(sorted(MEMBERS))}")
    return OutgoingRecord(
        key=json_bytes(document, "key"),
        value=json_bytes(document, "value"),
        headers=json_headers(document.get("headers")),
        partition=json_int(document, "partition"),
        timestamp_ms=json_int(document, "timestamp"),
    )


def json_bytes(document: dict[str, Any], member: str) -> bytes | None:
    encoded = document.get(f"{member}_base64")
    return text_bytes(document.get(member)) if encoded is None else base64_bytes(encoded, f"{member}_base64")


def base64_bytes(encoded: Any, member: str) -> bytes:
    try:
        return base64.b64decode(encoded, validate=True)
    except (binascii.Error, TypeError, ValueError) as error:
        raise ValueError(f"{member} is not base64") from error


def text_bytes(value: Any) -> bytes | None:
    match value:
        case None:
            return None
        case str():
            return value.encode()
        case _:
            return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def json_headers(headers: Any) -> list[Header]:
    """An object, or a list of [name, value] pairs where a name repeats."""
    match headers:
        case None:
            return []
        case dict():
            return [(name, header_bytes(value)) for name, value in headers.items()]
        case list() if all(isinstance(pair, list) and len(pair) == 2 for pair in headers):
            return [(str(name), header_bytes(value)) for name, value in headers]
        case _:
            raise ValueError("headers are neither an object nor a list of [name, value] pairs")


def header_bytes(value: Any) -> bytes | None:
    match value:
        case {"base64": encoded, **others} if not others:
            return base64_bytes(encoded, "a header")
        case _:
            return text_bytes(value)


def json_int(document: dict[str, Any], member: str) -> int | None:
    value = document.get(member)
    if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
        raise ValueError(f"{member} is not a whole number")
    return value
