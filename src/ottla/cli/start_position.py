"""Where reading starts, as a person says it: `beginning`, `end`, an offset, a moment, or a while ago."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, TypeAlias

from ottla.cli.limits import INT64_MAX

UNIT_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
DURATION_PART: Final = re.compile(r"(\d+)\s*(ms|s|m|h|d|w)")
DURATION: Final = re.compile(rf"((?:{DURATION_PART.pattern}\s*)+)(?:ago)?")
FORMS: Final = "beginning, end, an offset (42), a time (2026-11-15T09:30, @1763199000000) or a while ago ('5m ago')"


@dataclass(frozen=True, slots=True)
class Beginning:
    pass


@dataclass(frozen=True, slots=True)
class End:
    pass


@dataclass(frozen=True, slots=True)
class AtOffset:
    offset: int


@dataclass(frozen=True, slots=True)
class AtTime:
    """The first record with this timestamp or a later one."""

    timestamp_ms: int


StartPosition: TypeAlias = Beginning | End | AtOffset | AtTime


def parse_start(text: str, *, now: datetime) -> StartPosition:
    """A time without a zone is in `now`'s. ValueError for what cannot be read."""
    said = text.strip().lower()
    if said in ("beginning", "earliest", "start"):
        return Beginning()
    if said in ("end", "latest"):
        return End()
    if offset := re.fullmatch(r"(?:offset\s+)?(\d+)", said):
        return AtOffset(within_int64(int(offset[1])))
    if moment := re.fullmatch(r"(?:timestamp\s+|@)(\d+)", said):
        return AtTime(timestamp_ms_of(int(moment[1])))
    if said == "now":
        return AtTime(milliseconds(now))
    if DURATION.fullmatch(said):
        return AtTime(timestamp_ms_of(milliseconds(now) - parse_duration_ms(said)))
    return AtTime(timestamp_ms_of(parse_moment(said.removeprefix("timestamp").strip(), now)))


def timestamp_ms_of(moment_ms: int) -> int:
    """As a broker takes it: below 0 it would mean something else, and no record is older."""
    return max(0, within_int64(moment_ms))


def within_int64(number: int) -> int:
    if number > INT64_MAX:
        raise ValueError(f"{number} is too large: at most {INT64_MAX}")
    return number


def parse_duration_ms(text: str) -> int:
    """`30m`, `1h30m`, `2d`, with or without "ago"."""
    said = text.strip().lower()
    if not DURATION.fullmatch(said):
        raise ValueError(f"{text!r} is no duration such as 30m, 2h or 1d12h")
    return sum(int(amount) * UNIT_MS[unit] for amount, unit in DURATION_PART.findall(said))


def parse_moment(said: str, now: datetime) -> int:
    try:
        moment = datetime.fromisoformat(said.upper())
        return milliseconds(moment if moment.tzinfo else moment.replace(tzinfo=now.tzinfo))
    except (ValueError, OverflowError):
        raise ValueError(f"{said!r} is none of: {FORMS}") from None


def milliseconds(moment: datetime) -> int:
    return round(moment.astimezone(UTC).timestamp() * 1000)
