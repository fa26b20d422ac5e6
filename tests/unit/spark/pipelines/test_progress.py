"""Spark's reports to what a table shows."""

import json
from typing import Any

from ottla.spark.pipelines.progress import Progress, lag_of


def offsets(**partitions: int) -> str:
    return json.dumps({"version": 1, "topics": {"orders": partitions}})


def report(second: int, *, batch: int, rows: int, is_idle: bool = False, end: str = "null") -> dict[str, Any]:
    return {
        "timestamp": f"2026-11-15T09:00:{second:02}.000Z",
        "batchId": batch,
        "batchDuration": 400,
        "durationMs": {"latestOffset": 3} if is_idle else {"addBatch": 300},
        "numInputRows": rows,
        "processedRowsPerSecond": rows / 0.4,
        "sources": [{"latestOffset": offsets(**{"0": 50}), "endOffset": end}],
    }


def test_rows_are_counted_once_however_often_a_report_is_seen() -> None:
    reports = [report(1, batch=0, rows=10), report(2, batch=1, rows=20, end=offsets(**{"0": 30}))]
    progress = Progress().with_reports(reports[:1]).with_reports(reports).with_reports(reports)
    assert (progress.rows_total, progress.batch, progress.batches_done) == (30, 1, 2)
    assert (progress.lag, progress.batch_ms, progress.rows_per_second) == (20, 400, 50.0)


def test_an_idle_query_is_between_two_batches() -> None:
    reports = [report(1, batch=0, rows=10), report(11, batch=1, rows=0, is_idle=True), report(12, batch=1, rows=5)]
    idle = Progress().with_reports(reports[:2])
    assert (idle.batch, idle.batches_done, idle.rows_per_second) == (0, 1, 0.0)
    later = idle.with_reports(reports)
    assert (later.batch, later.batches_done, later.rows_total) == (1, 2, 15)


def test_lag_is_of_topics_only() -> None:
    topic = {"latestOffset": offsets(**{"0": 50, "1": 7}), "endOffset": offsets(**{"0": 20})}
    files = {"latestOffset": '{"logOffset": 3}', "endOffset": '{"logOffset": 3}'}
    assert lag_of([topic, files]) == 37
    assert lag_of([files, {"latestOffset": None, "endOffset": "not JSON"}]) is None
