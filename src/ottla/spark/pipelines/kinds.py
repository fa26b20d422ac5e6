"""Which sources and sinks there are: `type: parquet` names a class, imported when a pipeline first names it.

Modules of kinds import Spark and their stores' libraries inside functions, so that a pipeline is checked without them.
`type: my_package.my_module:MySink` names a class of your own.
"""

import difflib
import importlib
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from ottla.spark.pipelines.contract import Sink, Source

SOURCES: Final = {
    "topic": "ottla.spark.pipelines.sources.topic:TopicSource",
    "files": "ottla.spark.pipelines.sources.files:FilesSource",
    "jdbc": "ottla.spark.pipelines.sources.jdbc:JdbcSource",
}

SINKS: Final = {
    "topic": "ottla.spark.pipelines.sinks.topic:TopicSink",
    "parquet": "ottla.spark.pipelines.sinks.parquet:ParquetSink",
    "console": "ottla.spark.pipelines.sinks.console:ConsoleSink",
    "delta": "ottla.spark.pipelines.sinks.delta:DeltaSink",
    "iceberg": "ottla.spark.pipelines.sinks.iceberg:IcebergSink",
    "jdbc": "ottla.spark.pipelines.sinks.jdbc:JdbcSink",
    "elasticsearch": "ottla.spark.pipelines.sinks.elasticsearch:ElasticsearchSink",
}


class UnknownKind(ValueError):
    """A `type:` that names no source or sink."""


def source_kind(name: str) -> type[Source]:
    kind = _named(name, SOURCES)
    if not (isinstance(kind, type) and issubclass(kind, Source)):
        raise UnknownKind(f"{name} is no source: a class derived from {Source.__module__}.Source is needed")
    return kind


def sink_kind(name: str) -> type[Sink]:
    kind = _named(name, SINKS)
    if not (isinstance(kind, type) and issubclass(kind, Sink)):
        raise UnknownKind(f"{name} is no sink: a class derived from {Sink.__module__}.Sink is needed")
    return kind


def _named(name: str, shipped: dict[str, str]) -> object:
    where = shipped.get(name, name)
    module, colon, attribute = where.partition(":")
    if not colon:
        raise UnknownKind(
            f"there is no type {name}{did_you_mean(name, shipped)}: {', '.join(shipped)}, or a class as package.module:Class"
        )
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise UnknownKind(f"{name} cannot be imported: {error}") from error


def did_you_mean(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(known), n=1)
    return f" (did you mean {close[0]}?)" if close else ""


def make_importable(directory: Path) -> None:
    """Python looks for modules beside the pipeline's file as well, last of all."""
    beside = str(directory.absolute())
    if beside not in sys.path:
        sys.path.append(beside)
