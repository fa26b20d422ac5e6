"""A rate held on a clock that only sleeping moves."""

import pytest

from ottla.cli.pace import Pace, parse_rate


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.now_s += seconds


@pytest.mark.parametrize(
    ("text", "per_second"), [("500", 500), ("500/s", 500), ("30/m", 0.5), ("7200/h", 2), ("0.5", 0.5)]
)
def test_a_rate_is_read(text: str, per_second: float) -> None:
    assert parse_rate(text) == per_second


@pytest.mark.parametrize("text", ["", "0", "-1", "fast", "5/d", "1/s/s"])
def test_anything_else_is_no_rate(text: str) -> None:
    with pytest.raises(ValueError, match="is not a rate"):
        parse_rate(text)


def test_steps_are_evenly_spaced_and_the_first_is_at_once() -> None:
    clock = Clock()
    pace = Pace(4, monotonic=clock.monotonic, sleep=clock.sleep)
    times = []
    for _ in range(5):
        pace.wait()
        times.append(clock.now_s)
    assert times == [100.0, 100.25, 100.5, 100.75, 101.0]


def test_a_late_step_is_caught_up() -> None:
    clock = Clock()
    pace = Pace(10, monotonic=clock.monotonic, sleep=clock.sleep)
    pace.wait()
    clock.now_s += 0.35
    for _ in range(4):
        pace.wait()
    assert clock.now_s == pytest.approx(100.4)
