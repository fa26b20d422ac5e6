"""What a source and a sink of a pipeline are, each one file in `sources/` and `sinks/`.

A kind says which settings it takes, so that a pipeline is checked before Spark starts; it says what it guarantees, so
that `explain` can; and it turns checked settings into a streaming DataFrame, or a DataFrame into a query ready to be
started. The runner adds what all queries share: trigger, checkpoint, name, restarts.

Not shipped with Ottla: `type: my_package.my_module:MySink` names a class of your own.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

Settings = Mapping[str, Any]
"""A `source:` or `sink:` section without its `type`, checked, defaults filled in."""


class Guarantee(StrEnum):
    EXACTLY_ONCE = "exactly-once"
    AT_LEAST_ONCE = "at-least-once"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One key of a section."""

    name: str
    kind: type  # str, int, float, bool, list or dict
    doc: str
    """What it means, in a few words: `ottla pipeline explain` and the errors show it."""
    is_required: bool = False
    default: Any = None
    choices: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrong:
    """What is wrong with a setting; the checker knows its line."""

    setting: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """What a sink gives, and the reason in one sentence."""

    guarantee: Guarantee
    because: str


class Tolerance(StrEnum):
    NONE = "none"
    ALL = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class Errors:
    """What becomes of a record that cannot be read: the pipeline fails, or goes on and the record goes elsewhere."""

    tolerance: Tolerance = Tolerance.NONE
    dead_letter_topic: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineContext:
    """What a source or sink may need to know of the pipeline around it."""

    name: str
    bootstrap_servers: str
    checkpoint: Path
    """A directory of this pipeline alone; the runner keeps Spark's own in `checkpoint / "spark"`."""
    client_options: Mapping[str, str] = field(default_factory=dict)
    """`kafka.*` options for every connection to brokers."""
    errors: Errors = field(default_factory=Errors)


class Source(ABC):
    name: ClassVar[str]
    settings: ClassVar[Sequence[Setting]]

    @classmethod
    def check(cls, settings: Settings) -> Iterator[Wrong]:
        """What types and choices cannot say. Nothing is connected to."""
        yield from ()

    @abstractmethod
    def frame(self, spark: "SparkSession", settings: Settings, context: PipelineContext) -> "DataFrame":
        """A streaming DataFrame."""


class Sink(ABC):
    name: ClassVar[str]
    settings: ClassVar[Sequence[Setting]]
    output_modes: ClassVar[Sequence[str]] = ("append", "update", "complete")

    @classmethod
    def check(cls, settings: Settings) -> Iterator[Wrong]:
        yield from ()

    @classmethod
    @abstractmethod
    def strongest(cls, settings: Settings) -> Promise:
        """The most that this sink can give with these settings. A pipeline that asks for more is refused."""

    @abstractmethod
    def writer(self, frame: "DataFrame", settings: Settings, context: PipelineContext) -> "DataStreamWriter":
        """The query but for its trigger, checkpoint and name. `settings["guarantee"]` is what the pipeline asked for."""
