"""What a person may write after `--from`."""

from datetime import datetime, timedelta, timezone

import pytest

from ottla.cli.start_position import AtOffset, AtTime, Beginning, End, StartPosition, parse_start

NOON_MS = 1_763_204_400_000
NOON = datetime.fromtimestamp(NOON_MS / 1000, tz=timezone(timedelta(hours=1)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("beginning", Beginning()),
        ("Earliest", Beginning()),
        ("end", End()),
        ("latest", End()),
        ("0", AtOffset(0)),
        ("42", AtOffset(42)),
        ("offset 42", AtOffset(42)),
        ("@1763199000000", AtTime(1_763_199_000_000)),
        ("timestamp 1763199000000", AtTime(1_763_199_000_000)),
        ("now", AtTime(NOON_MS)),
        ("5m ago", AtTime(NOON_MS - 300_000)),
        ("5m", AtTime(NOON_MS - 300_000)),
        ("1h30m ago", AtTime(NOON_MS - 5_400_000)),
        ("2 d 250 ms ago", AtTime(NOON_MS - 172_800_250)),
        ("1w ago", AtTime(NOON_MS - 604_800_000)),
        ("2025-11-15T11:00:00Z", AtTime(NOON_MS)),
        ("2025-11-15T11:00:00+00:00", AtTime(NOON_MS)),
        ("timestamp 2025-11-15T11:00:00Z", AtTime(NOON_MS)),
        ("9999w ago", AtTime(0)),
        ("1900-01-01", AtTime(0)),
    ],
)
def test_every_form_is_read(text: str, expected: StartPosition) -> None:
    assert parse_start(text, now=NOON) == expected


def test_a_time_without_a_zone_is_in_the_zone_of_now() -> None:
    assert parse_start("2025-11-15T12:00", now=NOON) == AtTime(NOON_MS)
    assert parse_start("2025-11-15 12:00:00.250", now=NOON) == AtTime(NOON_MS + 250)
    assert parse_start("2025-11-15", now=NOON) == AtTime(NOON_MS - 12 * 3_600_000)


@pytest.mark.parametrize("text", ["", "soon", "-1", "5 fortnights ago", "ago", "offset", "@x", "2025-13-40"])
def test_anything_else_is_refused_with_the_forms(text: str) -> None:
    with pytest.raises(ValueError, match="beginning, end, an offset"):
        parse_start(text, now=NOON)


@pytest.mark.parametrize("text", ["99999999999999999999", "offset 99999999999999999999", "@99999999999999999999"])
def test_a_number_beyond_every_offset_and_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="99999999999999999999 is too large"):
        parse_start(text, now=NOON)


def test_a_day_that_no_zone_can_show_is_refused() -> None:
    with pytest.raises(ValueError, match="beginning, end, an offset"):
        parse_start("0001-01-01", now=NOON)
