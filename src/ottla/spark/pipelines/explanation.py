"""A pipeline in words, before it runs: what it reads, does and writes, what it guarantees and why, what it keeps where."""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from ottla.spark.pipelines.contract import Tolerance
from ottla.spark.pipelines.definition import INPUT, Pipeline, PythonStep, SourceDefinition, SqlStep, Step, TriggerKind

_SECRETS: Final = ("password", "secret", "token", "credential", "jaas", "apikey", "accesskey")
_PEM: Final = "-----BEGIN"  # Of a key, perhaps.
_SECRET_IN_URL: Final = re.compile(r"(://[^/@:]*:)[^@/]*(?=@)|(\bpassword=)[^&;]*", re.IGNORECASE)


def explain(pipeline: Pipeline, checkpoint: Path) -> Iterator[tuple[str, str]]:
    yield "pipeline", pipeline.name
    yield "file", str(pipeline.file)
    yield "brokers", _with_settings(pipeline.bootstrap_servers, pipeline.client_options)
    for source in pipeline.sources:
        yield ("source" if source.view == INPUT else f"source {source.view}"), _source(source)
    for number, step in enumerate(pipeline.steps, 1):
        yield f"step {number}", _step(step)
    yield "sink", _with_settings(pipeline.sink.type_name, pipeline.sink.settings)
    yield "guarantee", _guarantee(pipeline)
    yield "trigger", _trigger(pipeline)
    yield "output mode", pipeline.output_mode
    yield "errors", _errors(pipeline)
    yield (
        "checkpoint",
        f"{checkpoint}: the offsets, commits and state of each micro-batch, from which a restart goes on",
    )
    if pipeline.spark_conf:
        yield "spark", _settings(pipeline.spark_conf)


def _source(source: SourceDefinition) -> str:
    text = _with_settings(source.type_name, source.settings)
    late = source.watermark
    return text if late is None else f"{text}; events by {late.column} may be {late.delay_ms / 1000:g} s late"


def _step(step: Step) -> str:
    match step:
        case SqlStep():
            text = " ".join(step.sql.split())
        case PythonStep():
            text = f"Python {step.module}:{step.function}"
    return text if step.view is None else f"{text} → {step.view}"


def _guarantee(pipeline: Pipeline) -> str:
    strongest = pipeline.sink.strongest
    if pipeline.guarantee is strongest.guarantee:
        return f"{pipeline.guarantee}: {strongest.because}"
    return f"{pipeline.guarantee}, as asked for; this sink could give {strongest.guarantee}: {strongest.because}"


def _trigger(pipeline: Pipeline) -> str:
    match pipeline.trigger.kind:
        case TriggerKind.INTERVAL:
            return f"a micro-batch every {pipeline.trigger.interval_ms / 1000:g} s, if there is something new"
        case TriggerKind.AVAILABLE_NOW:
            return "all there is, in as many micro-batches as it takes, then end"
        case TriggerKind.ONCE:
            return "one micro-batch, then end"


def _errors(pipeline: Pipeline) -> str:
    if pipeline.errors.tolerance is Tolerance.NONE:
        return "a record that cannot be read stops the pipeline"
    topic = pipeline.errors.dead_letter_topic
    return "records that cannot be read are " + (f"sent to {topic}" if topic else "left out")


def _with_settings(name: str, settings: Mapping[str, Any]) -> str:
    told = _settings(settings)
    return f"{name} ({told})" if told else name


def _settings(settings: Mapping[str, Any]) -> str:
    chosen = {name: value for name, value in settings.items() if value not in (None, [], {})}
    return ", ".join(f"{name}={_told(name, value)}" for name, value in chosen.items())


def _told(name: str, value: object) -> str:
    """Without its secrets: what is explained ends in tickets and logs."""
    if _is_secret(name, value):
        return "…"
    if isinstance(value, Mapping):
        return f"{{{_settings(value)}}}"
    return _without_secrets_in_urls(str(value))


def without_secrets(text: str, pipeline: Pipeline) -> str:
    """Of what Spark or a store says of this pipeline."""
    parts = [pipeline.client_options, pipeline.sink.settings, pipeline.spark_conf]
    for secret in _secrets([*parts, *(source.settings for source in pipeline.sources)]):
        text = text.replace(secret, "…")
    return _without_secrets_in_urls(text)


def _secrets(settings: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for name, value in (item for part in settings for item in part.items()):
        if isinstance(value, Mapping):
            yield from _secrets([value])
        elif value is not None and _is_secret(name, value):
            yield str(value)


def _is_secret(name: str, value: object) -> bool:
    letters = "".join(filter(str.isalpha, name)).lower()
    return any(word in letters for word in _SECRETS) or _PEM in str(value)


def _without_secrets_in_urls(text: str) -> str:
    return _SECRET_IN_URL.sub(lambda match: f"{match[1] or match[2]}…", text)
