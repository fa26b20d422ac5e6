"""Zigzag varints of records: small magnitudes of either sign take one byte.

Only the writing side is here; the record reader decodes in line, because a call per field would double its cost.
"""

from typing import Final


def zigzag_varint(value: int) -> bytes:
    """`value` as a zigzag varint, the form of every length and delta inside a record."""
    if _SMALLEST <= value <= _LARGEST:
        return _SMALL[value - _SMALLEST]
    return _encode(value)


def _encode(value: int) -> bytes:
    rest = value << 1 if value >= 0 else (~value << 1) | 1
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


_SMALLEST: Final = -64
_LARGEST: Final = 1023  # Most keys, values, deltas and headers: a table look-up instead of a loop.
_SMALL: Final = tuple(_encode(value) for value in range(_SMALLEST, _LARGEST + 1))
