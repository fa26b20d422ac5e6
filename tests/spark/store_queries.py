"""Streaming queries into stores: rows from files, one file a micro-batch, and what a crash leaves behind."""

import json
from pathlib import Path
from typing import Any

from ottla.spark.pipelines.contract import Errors, Guarantee, PipelineContext, Sink

SCHEMA = "id bigint, city string, at timestamp"
ROWS_PER_FILE = 50


def add_files(directory: Path, count: int) -> None:
    """Each with rows of ids that no other file has."""
    directory.mkdir(exist_ok=True)
    first = len(list(directory.glob("*.json")))
    for number in range(first, first + count):
        ids = range(number * ROWS_PER_FILE, (number + 1) * ROWS_PER_FILE)
        rows = [{"id": one, "city": f"city {one % 3}", "at": f"2026-01-01T00:{one % 60:02}:00Z"} for one in ids]
        partial = directory / f".{number:03}"
        partial.write_text("\n".join(map(json.dumps, rows)))
        partial.rename(directory / f"{number:03}.json")


def orders(spark: Any, directory: Path) -> Any:
    return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(directory))


def filled(kind: type[Sink], **settings: object) -> dict[str, Any]:
    """As a pipeline gives them to a sink."""
    return {one.name: one.default for one in kind.settings} | {"guarantee": Guarantee.EXACTLY_ONCE} | settings


def run(
    kind: type[Sink],
    frame: Any,
    settings: dict[str, Any],
    checkpoint: str,
    *,
    output_mode: str = "append",
    bootstrap_servers: str = "",
    errors: Errors | None = None,
) -> None:
    """Until all there is has been written; what fails the query is raised."""
    context = PipelineContext(
        name="test", bootstrap_servers=bootstrap_servers, checkpoint=Path(checkpoint), errors=errors or Errors()
    )
    writer = kind().writer(frame, settings, context).outputMode(output_mode)
    query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    query.awaitTermination()


def forget_last_commit(checkpoint: str) -> None:
    """As after a driver's death between a sink's commit and Spark's own: the last micro-batch comes again."""
    commits = Path(checkpoint) / "commits"
    last = max(int(one.name) for one in commits.iterdir() if one.name.isdecimal())
    (commits / str(last)).unlink()
    (commits / f".{last}.crc").unlink(missing_ok=True)
