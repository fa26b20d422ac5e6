"""The exactly-once sink with a driver that dies between two of its steps, as far as the broker can see."""

from collections.abc import Sequence
from enum import StrEnum

from pyspark.sql.types import StructType

from ottla.client.raw.transactions import TransactionHandle
from ottla.spark.decisions import Decision
from ottla.spark.exactly_once import ExactlyOnceStreamWriter, Prepared
from ottla.spark.sink_options import SinkOptions
from pyspark_ottla import DefaultSource


class Crash(Exception):
    """Where the driver died."""


class CrashPoint(StrEnum):
    BEFORE_DECISION = "before"
    AFTER_DECISION = "after"
    BETWEEN_COMMITS = "between"
    AFTER_ALL = "all"


class CrashingWriter(ExactlyOnceStreamWriter):
    def __init__(self, options: SinkOptions, point: CrashPoint | None) -> None:
        super().__init__(options)
        self._point = point

    def decide(self, prepared: Sequence[Prepared], batch_id: int) -> Decision | None:
        self._crash_if(CrashPoint.BEFORE_DECISION)
        decision = super().decide(prepared, batch_id)
        self._crash_if(CrashPoint.AFTER_DECISION)
        return decision

    def commit_one(self, handle: TransactionHandle) -> bool:
        is_committed = super().commit_one(handle)
        self._crash_if(CrashPoint.BETWEEN_COMMITS)
        return is_committed

    def apply(self, decision: Decision) -> None:
        super().apply(decision)
        self._crash_if(CrashPoint.AFTER_ALL)

    def _crash_if(self, point: CrashPoint) -> None:
        if self._point == point:
            self.crash()

    def crash(self) -> None:
        raise Crash(self._point)


class CrashingSource(DefaultSource):
    """`format("ottla-crashing")`, with the option `crashPoint`."""

    @classmethod
    def name(cls) -> str:
        return "ottla-crashing"

    def streamWriter(self, schema: StructType, overwrite: bool) -> CrashingWriter:
        options = {name: value for name, value in self.options.items() if name != "crashpoint"}
        point = self.options.get("crashpoint")
        return CrashingWriter(SinkOptions.parse(options), CrashPoint(point) if point else None)
