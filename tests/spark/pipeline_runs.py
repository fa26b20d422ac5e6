"""Pipelines of files or texts, run in the session of the tests, and what they have written to topics."""

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from ottla.client import Producer
from ottla.spark.pipelines.checking import check_files
from ottla.spark.pipelines.definition import Pipeline
from ottla.spark.pipelines.failures import BackOff
from ottla.spark.pipelines.runner import Runner
from ottla.spark.pipelines.status_files import StateDirectory, Status
from tests.spark.brokers import AnyBroker
from tests.spark.source_topics import create, reader
from tests.spark.visibility import wait_visible

Event = tuple[str | None, object, int]
"""Key, value (as JSON, None is a tombstone), timestamp in milliseconds."""


def pipelines(directory: Path, broker: AnyBroker, *texts: str, **environment: str) -> Sequence[Pipeline]:
    files = []
    for number, text in enumerate(texts):
        files.append(directory / f"{number}.yaml")
        files[-1].write_text(text)
    checked = check_files(files, {"OTTLA_BOOTSTRAP_SERVERS": broker.bootstrap_servers, **environment})
    assert checked.problems == []
    return checked.pipelines


def ran(
    spark: Any, directory: Path, found: Sequence[Pipeline], *, until_now: bool = True, **options: Any
) -> list[Status]:
    """What there is, or until the observer stops it; how each ended."""
    options.setdefault("back_off", BackOff(restarts_max=0))
    return list(Runner(spark, found, StateDirectory(directory / "state"), until_now=until_now, **options).run())


def created(broker: AnyBroker, *topics: str, partitions: int = 2, **configs: str) -> None:
    for topic in topics:
        create(broker, topic, partitions, **configs)


def produced(broker: AnyBroker, topic: str, events: Iterable[Event]) -> None:
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for key, value, timestamp_ms in events:
            producer.send(
                topic,
                key=None if key is None else key.encode(),
                value=None if value is None else json.dumps(value).encode(),
                timestamp_ms=timestamp_ms,
            )


def consumed(spark: Any, broker: AnyBroker, topic: str) -> list[tuple[str | None, Any]]:
    """Keys and values, committed ones only, sorted."""
    wait_visible(broker, topic)
    rows = reader(spark, broker, topic).selectExpr("cast(key as string) key", "cast(value as string) value").collect()
    return sorted(((row.key, json.loads(row.value)) for row in rows), key=repr)


def stop_when(directory: Path, name: str, condition: Callable[[Status], bool]) -> Callable[[Sequence[Status]], None]:
    """An observer that asks, once, as `ottla pipeline stop` in another terminal would."""
    state = StateDirectory(directory / "state")
    asked: list[str] = []

    def observe(statuses: Sequence[Status]) -> None:
        if not asked and any(status.name == name and condition(status) for status in statuses):
            asked.append(name)
            state.ask_to_stop(name)

    return observe
