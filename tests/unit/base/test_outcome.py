"""base/outcome.py: known once, told to all at once."""

import logging

import pytest

from ottla.base.errors import ApiError, ErrorCode, InvariantViolation
from ottla.base.outcome import Outcome


def test_all_are_told_in_their_order() -> None:
    told: list[tuple[str, ApiError | None]] = []
    outcome = Outcome()
    outcome.listen(lambda error: told.append(("first", error)))
    outcome.listen(lambda error: told.append(("second", error)))
    assert not told
    outcome.tell(None)
    assert told == [("first", None), ("second", None)]


def test_who_comes_late_is_told_at_once() -> None:
    told: list[ApiError | None] = []
    outcome = Outcome()
    error = ApiError(ErrorCode.NOT_COORDINATOR, "gone")
    outcome.tell(error)
    outcome.listen(told.append)
    assert told == [error]


def test_it_is_known_once() -> None:
    outcome = Outcome()
    outcome.tell(None)
    with pytest.raises(InvariantViolation):
        outcome.tell(None)


def test_one_that_fails_keeps_nobody_from_hearing_of_it(caplog: pytest.LogCaptureFixture) -> None:
    told: list[ApiError | None] = []
    outcome = Outcome()
    outcome.listen(lambda _: (_ for _ in ()).throw(ZeroDivisionError()))
    outcome.listen(told.append)
    with caplog.at_level(logging.ERROR):
        outcome.tell(None)
    assert told == [None]
    assert "ZeroDivisionError" in caplog.text


def test_who_listens_while_others_are_told_is_told_too() -> None:
    told: list[str] = []
    outcome = Outcome()
    outcome.listen(lambda _: outcome.listen(lambda _: told.append("inner")))
    outcome.tell(None)
    assert told == ["inner"]
