"""From files to pipelines: what is wrong with them is found before Spark starts, all of it at once.

Neither Spark nor a store is imported or connected to; SQL, the names of columns and the types in a schema are left to
Spark, which tells its own errors when the query is made. `sections` has the rules for keys and types, this module what a
pipeline's parts have to do with each other.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from ottla.client.raw.address import parse_address
from ottla.client.raw.security_options import is_security_option, parse_security
from ottla.spark.pipelines.contract import Errors, Guarantee, Promise, Setting, Sink, Source, Tolerance
from ottla.spark.pipelines.definition import (
    INPUT,
    Pipeline,
    PythonStep,
    SinkDefinition,
    SourceDefinition,
    SqlStep,
    Step,
    Trigger,
    TriggerKind,
    Watermark,
)
from ottla.spark.pipelines.document import Document, Place, Problem, read_document
from ottla.spark.pipelines.durations import duration_ms
from ottla.spark.pipelines.kinds import UnknownKind, make_importable, sink_kind, source_kind
from ottla.spark.pipelines.sections import read_section
from ottla.spark.pipelines.step_functions import wrong_with

SERVERS_DEFAULT: Final = "localhost:9092"
SERVERS_VARIABLE: Final = "OTTLA_BOOTSTRAP_SERVERS"
INTERVAL_DEFAULT: Final = "1s"  # A source is asked for news this often, so none at all would keep a core busy.

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")  # It becomes the name of files.
_VIEW: Final = re.compile(r"[A-Za-z_]\w*")

TOP: Final = (
    Setting(name="name", kind=str, is_required=True, doc="the pipeline's name: letters, digits, '.', '_' and '-'"),
    Setting(name="bootstrapServers", kind=str, doc="brokers to find the cluster by, host:port,…"),
    Setting(
        name="kafka", kind=dict, default={}, doc="client settings by Kafka's names, for every connection to brokers"
    ),
    Setting(name="source", kind=dict, doc="where records come from"),
    Setting(name="sources", kind=dict, doc="several sources, each under the name of its view"),
    Setting(name="transform", kind=list, default=[], doc="steps: SQL texts, {sql, view} or {python, view}"),
    Setting(name="sink", kind=dict, is_required=True, doc="where rows go to"),
    Setting(name="guarantee", kind=str, choices=[*Guarantee], doc="without it, the most that the sink can give"),
    Setting(name="outputMode", kind=str, default="append", choices=["append", "update", "complete"], doc="Spark's"),
    Setting(name="errors", kind=dict, default={}, doc="what becomes of records that cannot be read"),
    Setting(name="trigger", kind=dict, default={"interval": INTERVAL_DEFAULT}, doc="when a micro-batch begins"),
    Setting(name="checkpoint", kind=str, doc="a directory for offsets and state; without it, in the state directory"),
    Setting(name="spark", kind=dict, default={}, doc="Spark's configuration by its names"),
)
TYPE: Final = Setting(name="type", kind=str, default="topic", doc="the kind, or a class as package.module:Class")
WATERMARK: Final = Setting(name="watermark", kind=dict, doc="how late events may be: {column, delay}")
WATERMARK_KEYS: Final = (
    Setting(name="column", kind=str, is_required=True, doc="the column with the time of the event"),
    Setting(name="delay", kind=str, is_required=True, doc="how late an event may be, such as 10m"),
)
STEP_KEYS: Final = (
    Setting(name="sql", kind=str, doc="a SELECT"),
    Setting(name="python", kind=str, doc="module:function"),
    Setting(name="view", kind=str, doc="a name for the result, for later steps"),
)
ERRORS_KEYS: Final = (
    Setting(name="tolerance", kind=str, default="none", choices=[*Tolerance], doc="none stops, all goes on"),
    Setting(name="deadLetterTopic", kind=str, doc="the topic that gets records which cannot be read"),
)
TRIGGER_KEYS: Final = (
    Setting(name="interval", kind=str, doc="how often, such as 2s"),
    Setting(name="availableNow", kind=bool, doc="true: all there is, in as many micro-batches as it takes, then end"),
    Setting(name="once", kind=bool, doc="true: one micro-batch, then end"),
)

Kind = TypeVar("Kind", bound=type[Source] | type[Sink])


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    pipelines: Sequence[Pipeline]
    problems: Sequence[Problem]


def check_files(files: Iterable[Path], environment: Mapping[str, str]) -> Checked:
    """Pipelines are only given where nothing is wrong with any."""
    pipelines: list[Pipeline] = []
    problems: list[Problem] = []
    for file in files:
        document = read_document(file, environment)
        pipeline = _Checker(document, environment).pipeline()
        if pipeline is not None:
            if pipeline.name in {other.name for other in pipelines}:
                document.add_problem(("name",), f"another file has the name {pipeline.name}, too")
            pipelines.append(pipeline)
        problems += sorted(document.problems)
    return Checked(pipelines=[] if problems else pipelines, problems=problems)


class _Checker:
    def __init__(self, document: Document, environment: Mapping[str, str]) -> None:
        self._document = document
        self._environment = environment
        self._top: dict[str, Any] = {}

    def pipeline(self) -> Pipeline | None:
        """None where there are problems."""
        if self._document.data is None and self._document.problems:
            return None  # It could not be read at all.
        top = self._top = read_section(self._document, (), self._document.data, TOP)
        if not isinstance(self._document.data, dict):
            return None
        self._name()
        sources, steps, sink = self._sources(), self._steps(), self._sink()
        servers, trigger, errors = self._bootstrap_servers(), self._trigger(), self._errors()
        checkpoint, client_options, spark_conf = self._checkpoint(), self._client_options(), self._spark_conf()
        if self._document.problems or sink is None:
            return None
        return Pipeline(
            name=top["name"],
            file=self._document.file,
            bootstrap_servers=servers,
            client_options=client_options,
            sources=sources,
            is_multi_source=top["sources"] is not None,
            steps=steps,
            sink=sink,
            guarantee=Guarantee(top["guarantee"] or sink.strongest.guarantee),
            output_mode=top["outputMode"],
            errors=errors,
            trigger=trigger,
            checkpoint=checkpoint,
            spark_conf=spark_conf,
        )

    def _wrong(self, place: Place, message: str) -> None:
        self._document.add_problem(place, message)

    # -- the top -----------------------------------------------------------------------------------------------------

    def _name(self) -> None:
        name = self._top["name"]
        if name is not None and not _NAME.fullmatch(name):
            self._wrong(("name",), f"name: {name!r} has other characters than letters, digits, '.', '_' and '-'")

    def _bootstrap_servers(self) -> str:
        servers: str = self._top["bootstrapServers"] or self._environment.get(SERVERS_VARIABLE) or SERVERS_DEFAULT
        try:
            for server in servers.split(","):
                parse_address(server)
        except ValueError as error:
            self._wrong(("bootstrapServers",), f"bootstrapServers: {error}")
        return servers

    def _client_options(self) -> dict[str, str]:
        options = {name: _spark_text(value) for name, value in self._top["kafka"].items()}
        try:
            parse_security({name: text for name, text in options.items() if is_security_option(name)})
        except ValueError as error:
            named = [name for name in options if name in str(error)]
            self._wrong(("kafka", *named[:1]), f"kafka: {error}")
        return {f"kafka.{name}": text for name, text in options.items()}

    def _spark_conf(self) -> dict[str, str]:
        for name in self._top["spark"]:
            if not name.startswith("spark."):
                self._wrong(("spark", name), f"spark: {name} is no setting of Spark's: those begin with spark.")
        return {name: _spark_text(value) for name, value in self._top["spark"].items()}

    def _checkpoint(self) -> Path | None:
        text = self._top["checkpoint"]
        if text is not None and "://" in text:
            self._wrong(("checkpoint",), f"checkpoint: {text} is no directory of a file system that is mounted here")
        return None if text is None else Path(text).absolute()

    def _trigger(self) -> Trigger:
        values = read_section(self._document, ("trigger",), self._top["trigger"], TRIGGER_KEYS)
        chosen = [kind for kind in TriggerKind if values[kind]]
        if len(chosen) != 1:
            self._wrong(("trigger",), "trigger: exactly one of interval, availableNow and once is needed")
            return Trigger(kind=TriggerKind.AVAILABLE_NOW)
        interval = values["interval"]
        interval_ms = 0 if interval is None else self._duration_ms(("trigger", "interval"), interval)
        return Trigger(kind=chosen[0], interval_ms=interval_ms)

    def _errors(self) -> Errors:
        values = read_section(self._document, ("errors",), self._top["errors"], ERRORS_KEYS)
        errors = Errors(tolerance=Tolerance(values["tolerance"]), dead_letter_topic=values["deadLetterTopic"])
        if errors.dead_letter_topic and errors.tolerance is Tolerance.NONE:
            self._wrong(
                ("errors", "deadLetterTopic"),
                "deadLetterTopic: nothing is sent there with tolerance: none, which stops at the first such record",
            )
        return errors

    def _duration_ms(self, place: Place, text: str) -> int:
        try:
            return duration_ms(text)
        except ValueError as error:
            self._wrong(place, f"{place[-1]}: {error}")
            return 0

    # -- sources -----------------------------------------------------------------------------------------------------

    def _sources(self) -> list[SourceDefinition]:
        said = [key for key in ("source", "sources") if self._document.data.get(key)]
        if len(said) != 1:
            self._wrong((), "exactly one of source and sources is needed")
            return []
        if self._top["source"] is not None:
            return self._source(("source",), INPUT, self._top["source"])
        found: list[SourceDefinition] = []
        for view, data in (self._top["sources"] or {}).items():
            if not _VIEW.fullmatch(view) or view == INPUT:
                self._wrong(("sources", view), f"{view} is no name for a view: letters, digits, '_', and not {INPUT}")
            found += self._source(("sources", view), view, data)
        return found

    def _source(self, place: Place, view: str, data: object) -> list[SourceDefinition]:
        """One, or none where it is wrong."""
        read = self._of_kind(place, data, source_kind, (TYPE, WATERMARK))
        if read is None:
            return []
        kind, settings, others = read
        watermark = others["watermark"]
        return [
            SourceDefinition(
                view=view,
                type_name=others["type"],
                kind=kind,
                settings=settings,
                watermark=None if watermark is None else self._watermark((*place, "watermark"), watermark),
            )
        ]

    def _watermark(self, place: Place, data: object) -> Watermark:
        values = read_section(self._document, place, data, WATERMARK_KEYS)
        delay = values["delay"]
        delay_ms = 0 if delay is None else self._duration_ms((*place, "delay"), delay)
        return Watermark(column=values["column"] or "", delay_ms=delay_ms)

    def _of_kind(
        self, place: Place, data: object, kind_of: Callable[[str], Kind], shared: Sequence[Setting]
    ) -> tuple[Kind, dict[str, Any], dict[str, Any]] | None:
        """The kind that a section's `type` names, its settings, and those that sections of all kinds share."""
        said = data.get("type", TYPE.default) if isinstance(data, dict) else TYPE.default
        make_importable(self._document.file.parent)
        try:
            kind = kind_of(str(said))
        except UnknownKind as error:
            self._wrong((*place, "type"), f"type: {error}")
            return None
        count = len(self._document.problems)
        values = read_section(self._document, place, data, (*shared, *kind.settings))
        settings = {setting.name: values[setting.name] for setting in kind.settings}
        if len(self._document.problems) == count:
            for wrong in kind.check(settings):
                self._wrong((*place, wrong.setting), f"{wrong.setting}: {wrong.reason}")
        return None if len(self._document.problems) > count else (kind, settings, values)

    # -- steps -------------------------------------------------------------------------------------------------------

    def _steps(self) -> list[Step]:
        steps = self._top["transform"]
        found = [self._step(("transform", index), data) for index, data in enumerate(steps)]
        if not steps and self._top["sources"] is not None and len(self._top["sources"]) > 1:
            self._wrong(("sources",), "several sources need a transform that makes one result of them")
        return [step for step in found if step is not None]

    def _step(self, place: Place, data: object) -> Step | None:
        count = len(self._document.problems)
        values = read_section(self._document, place, {"sql": data} if isinstance(data, str) else data, STEP_KEYS)
        sql, python, view = values["sql"], values["python"], values["view"]
        if len(self._document.problems) > count:
            return None
        if (sql is None) == (python is None):
            self._wrong(place, "a step is a SQL text, {sql: …} or {python: module:function}")
            return None
        if view is not None and (not _VIEW.fullmatch(view) or view == INPUT):
            self._wrong((*place, "view"), f"{view} is no name for a view: letters, digits, '_', and not {INPUT}")
        return SqlStep(sql=sql, view=view) if python is None else self._python_step(place, python, view)

    def _python_step(self, place: Place, said: str, view: str | None) -> PythonStep | None:
        module, _, function = said.partition(":")
        if not all(part.isidentifier() for part in [*module.split("."), function]):
            self._wrong((*place, "python"), f"python: {said!r} is not module:function")
            return None
        make_importable(self._document.file.parent)
        if reason := wrong_with(module, function):
            self._wrong((*place, "python"), f"python: {reason}")
        return PythonStep(module=module, function=function, view=view)

    # -- the sink ----------------------------------------------------------------------------------------------------

    def _sink(self) -> SinkDefinition | None:
        data = self._top["sink"]
        read = None if data is None else self._of_kind(("sink",), data, sink_kind, (TYPE,))
        if read is None:
            return None
        kind, settings, others = read
        type_name = others["type"]
        strongest = kind.strongest(settings)
        self._guarantee(type_name, strongest)
        mode = self._top["outputMode"]
        if mode not in kind.output_modes:
            self._wrong(("outputMode",), f"outputMode: the sink {type_name} takes {', '.join(kind.output_modes)} only")
        return SinkDefinition(type_name=type_name, kind=kind, settings=settings, strongest=strongest)

    def _guarantee(self, sink: str, strongest: Promise) -> None:
        wanted = self._top["guarantee"]
        if wanted == Guarantee.EXACTLY_ONCE and strongest.guarantee is not Guarantee.EXACTLY_ONCE:
            self._wrong(
                ("guarantee",),
                f"guarantee: the sink {sink} gives {strongest.guarantee} at most with these settings: {strongest.because}",
            )


def _spark_text(value: object) -> str:
    """As Spark and Kafka write it: `true`, not `True`."""
    return str(value).lower() if isinstance(value, bool) else str(value)
