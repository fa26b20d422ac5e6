"""How values lie on the wire: the number that each value of variable length starts with, and smallest sizes.

Formats are those of `struct`. "B" stands for the first byte of an unsigned varint: compact lengths and counts
(KIP-482) are one more than what they count, and zero is null.
"""

import struct
from typing import Final

from ottla.wire.schema import FIXED_FORMATS, FieldSchema

NULL_MARKER_FORMAT: Final = "b"  # Before a nullable struct (KIP-893).
NOT_NULL: Final = 1


def null_marker(field: FieldSchema) -> int:
    """What stands for null before a nullable struct: Kafka writes another number where the field is tagged."""
    return 0 if field.tag is not None else -1


def count_format(flexible: bool) -> str:
    """Of the number of elements in an array."""
    return "B" if flexible else "i"


def length_format(type_name: str, flexible: bool) -> str:
    """Of the length of a string, bytes or records."""
    if type_name == "legacy_string":
        return "h"
    if flexible:
        return "B"
    return "h" if type_name == "string" else "i"


def is_fixed(field: FieldSchema) -> bool:
    """Whether one value of the field's type always takes the same number of bytes."""
    return field.type in FIXED_FORMATS


def smallest_value_size(field: FieldSchema, version: int, flexible: bool) -> int:
    """Bytes that one value of the field (of an array: one element) takes at least; never zero."""
    if field.struct is not None:
        plain_fields = field.struct.plain_fields(version)
        size = sum(_smallest_field_size(inner, version, flexible) for inner in plain_fields) + int(flexible)
        return max(size, 1)
    if is_fixed(field):
        return struct.calcsize(">" + FIXED_FORMATS[field.type])
    return struct.calcsize(">" + length_format(field.type, flexible))


def _smallest_field_size(field: FieldSchema, version: int, flexible: bool) -> int:
    if field.is_array:
        return struct.calcsize(">" + count_format(flexible))
    if field.struct is not None and field.nullable_in(version):
        return 1
    return smallest_value_size(field, version, flexible)
