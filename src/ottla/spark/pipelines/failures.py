"""Why a query failed, in one line, and whether starting it again could help."""

import traceback
from dataclasses import dataclass
from typing import Final

REASON_CHARACTERS_MAX: Final = 500

_STACK_BEGINS: Final = ("JVM stacktrace:", "=== Streaming Query ===", "\tat ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    reason: str
    details: str
    """All that is known, for a file."""
    is_mistake: bool
    """Wrong in the pipeline itself: the next attempt would fail in the same way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackOff:
    """How long to wait before a restart: twice as long each time, and not for ever."""

    first_s: float = 1.0
    longest_s: float = 60.0
    restarts_max: int = 10
    """In a row; a micro-batch that is done starts the count anew."""

    def delay_s(self, restart: int) -> float:
        return min(self.first_s * 2.0 ** (restart - 1), self.longest_s)


def failure_of(error: BaseException) -> Failure:
    causes = _causes(error)
    return Failure(
        reason=reason_of(str(causes[-1]) or type(causes[-1]).__name__),
        details="".join(traceback.format_exception(error)),
        is_mistake=any(_is_mistake(cause) for cause in causes),
    )


def _causes(error: BaseException) -> list[BaseException]:
    """From the error to where it began. PySpark keeps the JVM's causes beside Python's own."""
    causes = [error]
    while (cause := getattr(causes[-1], "_cause", None) or causes[-1].__cause__) is not None:
        causes.append(cause)
    return causes


def _is_mistake(error: BaseException) -> bool:
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
    from pyspark.errors import AnalysisException, IllegalArgumentException, PySparkException

    if isinstance(error, PySparkException):
        return isinstance(error, AnalysisException | IllegalArgumentException)
    # Otherwise it is a Python step's own. What a network, a file system or the JVM says may be gone the next time.
    return not isinstance(error, OSError | Py4JJavaError)


def reason_of(text: str) -> str:
    """The line that matters: of a Python traceback its last, of anything else its first."""
    for begin in _STACK_BEGINS:
        text = text.partition(begin)[0]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        return "no reason was given"
    has_traceback = "Traceback (most recent call last)" in text
    return (lines[-1] if has_traceback else lines[0])[:REASON_CHARACTERS_MAX]
