"""How far a query is, from the reports that Spark makes after each micro-batch."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Of one run of a pipeline; what is not known yet is None."""

    batch: int | None = None
    rows_per_second: float = 0.0
    rows_total: int = 0
    """Since this run began. Spark keeps only the newest reports, so rows are counted as they come."""
    lag: int | None = None
    """Records of all topics that were there, but not in the micro-batch, when it was planned."""
    batch_ms: int | None = None
    batches_done: int = 0
    reported: str = ""
    """When the newest report was made, as Spark writes it: such times can be compared as texts."""

    def with_reports(self, reports: Iterable[Mapping[str, Any]]) -> "Progress":
        """Reports come oldest first, and again each time: those that were seen before are passed over."""
        progress = self
        for report in reports:
            if report["timestamp"] > progress.reported:
                progress = progress._with_report(report)
        return progress

    def _with_report(self, report: Mapping[str, Any]) -> "Progress":
        # Spark reports an idle query as well, under the number of the micro-batch to come; only a real one adds one.
        is_batch = "addBatch" in report["durationMs"]
        return replace(
            self,
            batch=report["batchId"] if is_batch else self.batch,
            rows_per_second=report["processedRowsPerSecond"] or 0.0,
            rows_total=self.rows_total + (report["numInputRows"] or 0),
            lag=lag_of(report["sources"]),
            batch_ms=report["batchDuration"] if is_batch else self.batch_ms,
            batches_done=self.batches_done + is_batch,
            reported=report["timestamp"],
        )


def lag_of(sources: Iterable[Mapping[str, Any]]) -> int | None:
    """Of the sources that are topics; None where none is."""
    lags = [_topic_lag(_offsets(source["latestOffset"]), _offsets(source["endOffset"])) for source in sources]
    known = [lag for lag in lags if lag is not None]
    return sum(known) if known else None


def _offsets(text: str | None) -> Mapping[str, Mapping[str, int]] | None:
    """Topic -> partition -> offset, as `stream_reader` writes them; None for another source's."""
    try:
        offsets = json.loads(text or "null")
    except ValueError:
        return None
    return offsets.get("topics") if isinstance(offsets, dict) else None


def _topic_lag(
    latest: Mapping[str, Mapping[str, int]] | None, end: Mapping[str, Mapping[str, int]] | None
) -> int | None:
    if latest is None or end is None:
        return None
    return sum(
        max(0, offset - end.get(topic, {}).get(partition, 0))
        for topic, partitions in latest.items()
        for partition, offset in partitions.items()
    )
