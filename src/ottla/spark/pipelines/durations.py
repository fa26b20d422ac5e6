"""Lengths of time as people write them in a pipeline: `500ms`, `2s`, `5 minutes`, `1h`."""

import re
from typing import Final

_UNIT_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_WORDS: Final = {"millisecond": "ms", "second": "s", "minute": "m", "hour": "h", "day": "d"}
_DURATION: Final = re.compile(r"(\d+)\s*([a-z]+)")


def duration_ms(text: str) -> int:
    match = _DURATION.fullmatch(text.strip().lower())
    if match is not None:
        unit = _WORDS.get(match[2].removesuffix("s"), match[2])
        if unit in _UNIT_MS:
            return int(match[1]) * _UNIT_MS[unit]
    raise ValueError(f"{text!r} is no duration such as 500ms, 2s, 5m or 1h")
