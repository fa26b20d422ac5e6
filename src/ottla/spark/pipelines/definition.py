"""A pipeline as its file describes it, checked: what `checking` makes and everything else works from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from ottla.spark.pipelines.contract import Errors, Guarantee, Promise, Settings, Sink, Source

INPUT: Final = "input"
"""The view that a step reads: the only source, or the result of the step before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watermark:
    """How long an event may be late: state for older ones is let go, and they are dropped."""

    column: str
    delay_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceDefinition:
    view: str
    """By which SQL knows it: `input`, or its name in `sources:`."""
    type_name: str
    kind: type[Source]
    settings: Settings
    watermark: Watermark | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlStep:
    sql: str
    view: str | None
    """A name for the result, so that later steps can use it again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonStep:
    module: str
    function: str
    view: str | None


Step = SqlStep | PythonStep


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkDefinition:
    type_name: str
    kind: type[Sink]
    settings: Settings
    strongest: Promise


class TriggerKind(StrEnum):
    INTERVAL = "interval"
    AVAILABLE_NOW = "availableNow"
    ONCE = "once"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    kind: TriggerKind
    interval_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    name: str
    file: Path
    bootstrap_servers: str
    client_options: Mapping[str, str]
    sources: Sequence[SourceDefinition]
    is_multi_source: bool
    """Declared with `sources:`: its Python steps get all views, not one frame."""
    steps: Sequence[Step]
    sink: SinkDefinition
    guarantee: Guarantee
    output_mode: str
    errors: Errors
    trigger: Trigger
    checkpoint: Path | None
    """None: in the state directory."""
    spark_conf: Mapping[str, str]
