"""Positions in PostgreSQL's write-ahead log: a number here, `16/B374D848` in PostgreSQL's texts."""

import re
from typing import Final

_TEXT: Final = re.compile(r"([0-9A-Fa-f]{1,8})/([0-9A-Fa-f]{1,8})")


def lsn_text(lsn: int) -> str:
    return f"{lsn >> 32:X}/{lsn & 0xFFFF_FFFF:X}"


def parse_lsn(text: str) -> int:
    parts = _TEXT.fullmatch(text)
    if parts is None:
        raise ValueError(f"{text!r} is not a log position such as 16/B374D848")
    return int(parts[1], 16) << 32 | int(parts[2], 16)
