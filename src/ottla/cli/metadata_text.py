"""Records of the metadata log as text: their type, version and the fields that differ from the defaults.

A value is three unsigned varints (frame version 1, the record type's number, its version) and the message itself.
"""

from functools import cache
from typing import Final

from ottla.base.errors import ProtocolError
from ottla.wire import api, definitions
from ottla.wire.codec import codec_for
from ottla.wire.message import Message
from ottla.wire.notation import parse_heading

FRAME_VERSION: Final = 1


@cache
def record_types() -> dict[int, type[Message]]:
    """The message classes of metadata records, by the number on disk."""
    headings = map(parse_heading, definitions.headings())
    return {
        heading.number: getattr(api, heading.name)
        for heading in headings
        if heading.kind == "metadata" and heading.number is not None
    }


def metadata_text(value: bytes) -> str:
    try:
        frame_version, position = unsigned_varint(value, 0)
        number, position = unsigned_varint(value, position)
        version, position = unsigned_varint(value, position)
        record_type = record_types().get(number)
        if frame_version != FRAME_VERSION or record_type is None:
            return f"unknown record type {number}"
        message, _ = codec_for(record_type, version).decode(memoryview(value), position)
    except (ProtocolError, IndexError) as error:
        return f"unreadable: {error}"
    return f"{record_type.__name__} v{version}: {fields_text(message)}"


def fields_text(message: Message) -> str:
    default = type(message)()
    told = [(field.name, getattr(message, field.name)) for field in message.STRUCT.fields]
    return " ".join(f"{name}={value}" for name, value in told if value != getattr(default, name))


def unsigned_varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
