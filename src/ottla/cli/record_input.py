"""Lines of text into records: a value a line, key and value with a separator between, or a JSON object a line.

The JSON form is what `ottla consume --json` prints, so that one command's output is the other's input:
`{"key": …, "value": …, "headers": {…}, "partition": …, "timestamp": …}`, all optional. `topic` and `offset`, which are
printed too, say nothing here; any other member is refused, or a misspelt one would be lost in silence. A string
stands for its UTF-8 bytes, null for null, `key_base64`, `value_base64` and a header's `{"base64": …}` for bytes that
are not text, and any other JSON value for its own compact JSON. A `timestamp` of null or -1, as a record without one
shows it, is now.
"""

import base64
import binascii
import json
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, Never, TypeAlias

from ottla.cli.limits import INT32_MAX, INT64_MAX
from ottla.client.text import c_text

NO_TIMESTAMP: Final = -1

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
        document = json.loads(line, object_pairs_hook=members_once, parse_constant=refuse_constant)
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"not JSON: {error}") from error
    except RecursionError:
        raise ValueError("not JSON: too deeply nested") from None
    if not isinstance(document, dict):
        raise ValueError('not a JSON object such as {"key": "a", "value": "b"}')
    unknown = sorted(document.keys() - MEMBERS)
    if unknown:
        raise ValueError(f"unknown member {unknown[0]!r}: known are {', '.join(sorted(MEMBERS))}")
    return OutgoingRecord(
        key=json_bytes(document, "key"),
        value=json_bytes(document, "value"),
        headers=json_headers(document.get("headers")),
        partition=json_int(document, "partition", at_most=INT32_MAX),
        timestamp_ms=json_timestamp(document),
    )


def members_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Of a member given twice JSON would keep the last, in silence."""
    document = dict(pairs)
    if len(document) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"member {twice!r} is given twice")
    return document


def refuse_constant(name: str) -> Never:
    raise ValueError(f"{name} is no JSON")


def json_bytes(document: dict[str, Any], member: str) -> bytes | None:
    in_base64 = f"{member}_base64"
    if member in document and in_base64 in document:
        raise ValueError(f"{member} and {in_base64} are both given")
    if document.get(in_base64) is not None:
        return base64_bytes(document[in_base64], in_base64)
    return text_bytes(document.get(member), member)


def base64_bytes(encoded: Any, member: str) -> bytes:
    try:
        return base64.b64decode(encoded, validate=True)
    except (binascii.Error, TypeError, ValueError) as error:
        raise ValueError(f"{member} is not base64") from error


def text_bytes(value: Any, member: str) -> bytes | None:
    if value is None:
        return None
    try:
        text = value if isinstance(value, str) else compact_json(value)
        return text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{member} is no UTF-8 text: it has a lone surrogate") from None


def compact_json(value: Any) -> str:
    try:
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    except ValueError:  # 1e999 is read as infinity.
        raise ValueError("a number too large for JSON") from None


def json_headers(headers: Any) -> list[Header]:
    """An object, or a list of [name, value] pairs where a name repeats."""
    match headers:
        case None:
            return []
        case dict():
            return [(header_name(name), header_bytes(value)) for name, value in headers.items()]
        case list() if all(isinstance(pair, list) and len(pair) == 2 for pair in headers):
            return [(header_name(name), header_bytes(value)) for name, value in headers]
        case _:
            raise ValueError("headers are neither an object nor a list of [name, value] pairs")


def header_name(name: Any) -> str:
    return c_text(str(name), "the header name")


def header_bytes(value: Any) -> bytes | None:
    match value:
        case {"base64": encoded, **others} if not others:
            return base64_bytes(encoded, "a header")
        case _:
            return text_bytes(value, "a header")


def json_timestamp(document: dict[str, Any]) -> int | None:
    return None if document.get("timestamp") == NO_TIMESTAMP else json_int(document, "timestamp", at_most=INT64_MAX)


def json_int(document: dict[str, Any], member: str, *, at_most: int) -> int | None:
    value = document.get(member)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{member} is not a whole number")
    if not 0 <= value <= at_most:
        raise ValueError(f"{member} {value} is not within 0 and {at_most}")
    return value
