"""Why a query failed, and whether to start it again."""

from ottla.spark.pipelines.failures import BackOff, failure_of, reason_of


def test_waiting_doubles_up_to_a_bound() -> None:
    back_off = BackOff(first_s=1, longest_s=10)
    assert [back_off.delay_s(restart) for restart in range(1, 7)] == [1, 2, 4, 8, 10, 10]


def test_of_a_traceback_the_last_line_matters() -> None:
    text = (
        "[PYTHON_ERROR] failed\nTraceback (most recent call last):\n  File x\nValueError: no\n\nJVM stacktrace:\n\tat a"
    )
    assert reason_of(text) == "ValueError: no"


def test_of_anything_else_the_first_line_matters() -> None:
    assert reason_of("[TABLE_NOT_FOUND] orders; line 1\n'Project\n+- x\n") == "[TABLE_NOT_FOUND] orders; line 1"
    assert reason_of("") == "no reason was given"


def test_a_python_error_is_a_mistake_and_a_network_error_is_not() -> None:
    try:
        try:
            raise KeyError("amount")
        except KeyError as cause:
            raise RuntimeError("the step failed") from cause
    except RuntimeError as error:
        failure = failure_of(error)
    assert (failure.reason, failure.is_mistake) == ("'amount'", True)
    assert "the step failed" in failure.details
    assert not failure_of(ConnectionRefusedError("nobody there")).is_mistake
