"""Filters of a batch query that say what need not be read: on topic, partition, offset and timestamp.

What a pruned range obeys to the letter is taken from Spark; the rest prunes and stays with it. A lower bound of the
timestamp only says where to begin, because later records may be older; an upper bound says nothing at all.
"""

import math
import operator
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from ottla.base.types import Offset, TimestampMs, TopicPartition

_COMPARISONS: Final[Mapping[type[Filter], Callable[[Any, Any], bool]]] = {
    EqualTo: operator.eq,
    GreaterThan: operator.gt,
    GreaterThanOrEqual: operator.ge,
    LessThan: operator.lt,
    LessThanOrEqual: operator.le,
    In: lambda value, choices: value in choices,
}
_NEVER_NULL: Final = frozenset({"topic", "partition", "offset", "timestamp"})


class Pruning:
    """Nothing is pruned until a filter is pushed."""

    def __init__(self) -> None:
        self._tests: list[Callable[[TopicPartition], bool]] = []
        self._first_offset: Offset = 0
        self._end_offset: Offset | None = None
        self.first_timestamp_ms: TimestampMs | None = None

    def push(self, one: Filter) -> bool:
        """Whether nothing of the filter is left for Spark to do."""
        path: tuple[str, ...] = getattr(one, "attribute", ())
        value = getattr(one, "value", None)
        if len(path) != 1 or path[0] not in _NEVER_NULL:
            return False
        if isinstance(one, IsNotNull):
            return True
        if type(one) not in _COMPARISONS or value is None:
            return False
        match path[0]:
            case "offset":
                return self._push_offset(one, value)
            case "timestamp":
                self._push_timestamp(one, value)
                return False
            case name:
                holds = _COMPARISONS[type(one)]
                self._tests.append(lambda partition: holds(getattr(partition, name), value))
                return True

    def _push_offset(self, one: Filter, value: Any) -> bool:
        match one:
            case EqualTo():
                self._narrow(value, value + 1)
            case GreaterThan():
                self._narrow(value + 1, None)
            case GreaterThanOrEqual():
                self._narrow(value, None)
            case LessThan():
                self._narrow(0, value)
            case LessThanOrEqual():
                self._narrow(0, value + 1)
            case _:  # One of several: what is between them is Spark's to leave out.
                choices = [choice for choice in value if choice is not None]
                self._narrow(min(choices, default=0), max(choices, default=-1) + 1)
                return False
        return True

    def _narrow(self, first: Offset, end: Offset | None) -> None:
        self._first_offset = max(self._first_offset, first)
        if end is not None:
            self._end_offset = end if self._end_offset is None else min(self._end_offset, end)

    def _push_timestamp(self, one: Filter, value: Any) -> None:
        match one:
            case EqualTo() | GreaterThan() | GreaterThanOrEqual():
                times = [value]
            case In():
                times = [choice for choice in value if choice is not None]
            case _:
                return
        if times and all(isinstance(time, datetime) for time in times):
            earliest_ms = math.floor(min(time.timestamp() for time in times) * 1000)
            self.first_timestamp_ms = max(earliest_ms, self.first_timestamp_ms or earliest_ms)

    def keeps(self, partition: TopicPartition) -> bool:
        return all(test(partition) for test in self._tests)

    def narrowed(self, start: Offset, end: Offset) -> tuple[Offset, Offset]:
        """The part of a range that can hold rows; empty where none can."""
        end = end if self._end_offset is None else min(end, self._end_offset)
        return min(max(start, self._first_offset), end), end
