"""Records on the way out: for people, for pipes, for scripts, as a hex dump, or by a template of the user's own.

A formatter turns one record into the bytes of its line or lines. Keys and values are bytes and need not be text: the
`text` format and templates pass them through as they are, the others show what is not UTF-8 in base64 or hex.
"""

import base64
import json
import re
from collections.abc import Callable
from datetime import datetime
from typing import Any, Final, NamedTuple, TypeAlias, cast

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Message
from rich.text import Text

from ottla.cli.options import unescaped
from ottla.cli.record_input import Header

HEX_BYTES_PER_ROW: Final = 16


class ConsumedRecord(NamedTuple):
    topic: str
    partition: int
    offset: int
    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None
    headers: list[Header]


Formatter: TypeAlias = Callable[[ConsumedRecord], bytes]


def consumed_record(message: Message) -> ConsumedRecord:
    kind, timestamp_ms = message.timestamp()
    return ConsumedRecord(
        message.topic() or "",
        message.partition() or 0,
        message.offset() or 0,
        None if kind == TIMESTAMP_NOT_AVAILABLE else timestamp_ms,
        message.key(),
        message.value(),
        cast(list[Header], message.headers() or []),
    )


def formatter_of(name: str) -> Formatter:
    """`text`, `json`, `hex`, or a template with `%` fields. ValueError for anything else."""
    match name:
        case "text":
            return format_text
        case "json":
            return format_json
        case "hex":
            return format_hex
        case template if "%" in template:
            return template_formatter(template)
        case _:
            raise ValueError(f"{name!r} is neither text, json, hex nor a template such as '%k %v'")


def format_text(record: ConsumedRecord) -> bytes:
    """The value alone: what `ottla produce` read comes out again."""
    return (record.value or b"") + b"\n"


def format_json(record: ConsumedRecord) -> bytes:
    document: dict[str, Any] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        **json_member("key", record.key),
        **json_member("value", record.value),
    }
    if record.headers:
        document["headers"] = json_headers(record.headers)
    return json.dumps(document, ensure_ascii=False).encode() + b"\n"


def json_member(name: str, data: bytes | None) -> dict[str, str | None]:
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode()}


def json_headers(headers: list[Header]) -> dict[str, Any] | list[list[Any]]:
    """An object, or pairs where a name repeats."""
    pairs = [(name, json_header_value(value)) for name, value in headers]
    if len({name for name, _ in pairs}) == len(pairs):
        return dict(pairs)
    return [[name, value] for name, value in pairs]


def json_header_value(data: bytes | None) -> str | dict[str, str] | None:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def format_hex(record: ConsumedRecord) -> bytes:
    lines = [f"── {record.topic}-{record.partition} @ {record.offset}  {moment(record.timestamp_ms)}"]
    parts = [("key", record.key), ("value", record.value), *((f"header {name}", data) for name, data in record.headers)]
    for name, data in parts:
        lines.append(f"{name}: null" if data is None else f"{name}: {len(data):,} bytes")
        lines.extend(hex_rows(data or b""))
    return "\n".join(lines).encode() + b"\n"


def hex_rows(data: bytes) -> list[str]:
    rows = []
    for start in range(0, len(data), HEX_BYTES_PER_ROW):
        row = data[start : start + HEX_BYTES_PER_ROW]
        shown = "".join(chr(byte) if 32 <= byte < 127 else "·" for byte in row)
        rows.append(f"  {start:08x}  {row.hex(' ', 1):<{3 * HEX_BYTES_PER_ROW - 1}}  {shown}")
    return rows


TEMPLATE_FIELDS: Final[dict[str, Callable[[ConsumedRecord], bytes]]] = {
    "k": lambda record: record.key or b"",
    "v": lambda record: record.value or b"",
    "o": lambda record: str(record.offset).encode(),
    "p": lambda record: str(record.partition).encode(),
    "t": lambda record: str(-1 if record.timestamp_ms is None else record.timestamp_ms).encode(),
    "T": lambda record: moment(record.timestamp_ms).encode(),
    "h": lambda record: b",".join(name.encode() + b"=" + (data or b"") for name, data in record.headers),
    "n": lambda record: record.topic.encode(),
    "s": lambda record: str(len(record.value or b"")).encode(),
    "%": lambda record: b"%",
}


def template_formatter(template: str) -> Formatter:
    """`%k %v …` with backslash escapes; a line ends after each record unless the template ends one itself."""
    fields = re.split(r"%(.)", unescaped(template), flags=re.DOTALL)
    unknown = [name for name in fields[1::2] if name not in TEMPLATE_FIELDS]
    if unknown or fields[-1].endswith("%"):
        known = " ".join(f"%{name}" for name in TEMPLATE_FIELDS)
        raise ValueError(f"unknown field %{''.join(unknown[:1])} in the template; there are {known}")
    texts = [text.encode() for text in fields[0::2]]
    values = [TEMPLATE_FIELDS[name] for name in fields[1::2]]
    end = b"" if texts[-1].endswith(b"\n") else b"\n"

    def render(record: ConsumedRecord) -> bytes:
        parts = [texts[0]]
        for value, text in zip(values, texts[1:], strict=True):
            parts += (value(record), text)
        return b"".join(parts) + end

    return render


def moment(timestamp_ms: int | None) -> str:
    """Local time with milliseconds and zone."""
    if timestamp_ms is None or timestamp_ms < 0:
        return "–"
    try:
        return datetime.fromtimestamp(timestamp_ms / 1000).astimezone().isoformat(sep=" ", timespec="milliseconds")
    except (ValueError, OverflowError, OSError):  # A timestamp is whatever the producer wrote.
        return str(timestamp_ms)


def line_for_people(record: ConsumedRecord) -> Text:
    """Where, when, key, value, headers; what is not text in hex. For a terminal, so control characters are shown."""
    line = Text.assemble(
        (f"{record.partition}:{record.offset}", "cyan"), "  ", (moment(record.timestamp_ms)[:23], "dim"), "  "
    )
    if record.key is not None:
        line.append_text(Text.assemble((visible(record.key), "yellow"), (" → ", "dim")))
    line.append_text(Text("null", style="dim") if record.value is None else Text(visible(record.value)))
    for name, data in record.headers:
        line.append(f"  {name}={'null' if data is None else visible(data)}", style="dim green")
    return line


def visible(data: bytes) -> str:
    """Text with control characters escaped: a record must not be able to drive the reader's terminal."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return "0x" + data.hex()
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
