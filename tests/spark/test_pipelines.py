"""Pipelines run: from a YAML file to rows at their destination, over restarts, failures and requests to stop."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ottla.cli.app import Failure
from ottla.cli.pipeline import planned
from ottla.client import Admin
from ottla.spark.pipelines.failures import BackOff
from ottla.spark.pipelines.query import context_of, plan_of
from ottla.spark.pipelines.session import pipeline_session
from ottla.spark.pipelines.status_files import State, StateDirectory
from tests.spark.brokers import AnyBroker
from tests.spark.pipeline_runs import Event, consumed, created, pipelines, produced, ran, stop_when
from tests.spark.waiting import until

T0_MS = 1_700_000_000_000

TO_PARQUET = """
name: {name}
source: {{topic: {name}, valueFormat: json, valueSchema: n bigint}}
transform:
  - SELECT value.n, partition, offset FROM input WHERE value.n % 10 <> 3
sink: {{type: parquet, path: {path}}}
trigger: {{interval: 100ms}}
"""


def numbered(start: int, end: int) -> list[Event]:
    return [(f"k{n}", {"n": n}, T0_MS + n) for n in range(start, end)]


def numbers(spark: Any, path: Path) -> list[int]:
    return sorted(row.n for row in spark.read.parquet(str(path)).select("n").collect())


def test_a_topic_goes_to_parquet_and_the_next_run_goes_on_from_there(
    spark: Any, broker: AnyBroker, tmp_path: Path
) -> None:
    created(broker, "to-parquet")
    produced(broker, "to-parquet", numbered(0, 20))
    found = pipelines(tmp_path, broker, TO_PARQUET.format(name="to-parquet", path=tmp_path / "lake"))
    [first] = ran(spark, tmp_path, found)
    assert (first.state, first.rows_total, first.lag) == (State.FINISHED, 20, 0)
    produced(broker, "to-parquet", numbered(20, 25))
    [second] = ran(spark, tmp_path, found)
    assert (second.state, second.rows_total) == (State.FINISHED, 5)
    assert numbers(spark, tmp_path / "lake") == [n for n in range(25) if n % 10 != 3]
    assert StateDirectory(tmp_path / "state").status("to-parquet") == second
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        committed = admin.list_group_offsets("to-parquet")
    assert sum(each.offset for each in committed.values()) == 25


def test_a_running_pipeline_stops_when_asked_and_nothing_is_lost_or_doubled(
    spark: Any, broker: AnyBroker, tmp_path: Path
) -> None:
    created(broker, "stopped")
    produced(broker, "stopped", numbered(0, 10))
    found = pipelines(tmp_path, broker, TO_PARQUET.format(name="stopped", path=tmp_path / "lake"))
    observe = stop_when(tmp_path, "stopped", lambda status: status.rows_total >= 10)
    [ended] = ran(spark, tmp_path, found, until_now=False, observe=observe)
    assert (ended.state, ended.rows_total) == (State.STOPPED, 10)
    produced(broker, "stopped", numbered(10, 15))
    [ended] = ran(spark, tmp_path, found)
    assert (ended.state, ended.rows_total) == (State.FINISHED, 5)
    assert numbers(spark, tmp_path / "lake") == [n for n in range(15) if n % 10 != 3]


def test_pipelines_share_a_driver_but_not_their_views(spark: Any, broker: AnyBroker, tmp_path: Path) -> None:
    """Both have a view `input`. One reads files, one leaves out what it cannot read; both write records."""
    created(broker, "shared-in", "shared-a", "shared-b")
    produced(broker, "shared-in", [("x", {"n": 1}, T0_MS), ("y", "not an object", T0_MS), ("z", {"n": None}, T0_MS)])
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.json").write_text('{"id": 7, "city": "Praha"}\n{"id": 8}\n')
    texts = (
        """
name: shared-a
source: {topic: shared-in, keyFormat: string, valueFormat: json, valueSchema: n bigint}
transform: ["SELECT key, value.n AS n FROM input", "SELECT key, n, n + 1 AS next FROM input"]
sink: {topic: shared-a}
errors: {tolerance: all}
""",
        f"""
name: shared-b
source: {{type: files, path: {tmp_path}/in, format: json, schema: 'id bigint, city string'}}
transform:
  - {{sql: SELECT id FROM input WHERE city IS NOT NULL, view: known}}
  - SELECT id, 'known' AS what FROM known
sink: {{topic: shared-b, key: id, compression: zstd}}
guarantee: at-least-once
""",
    )
    ended = ran(spark, tmp_path, pipelines(tmp_path, broker, *texts))
    assert [status.state for status in ended] == [State.FINISHED, State.FINISHED]
    assert consumed(spark, broker, "shared-a") == [("x", {"n": 1, "next": 2}), ("z", {"n": None, "next": None})]
    assert consumed(spark, broker, "shared-b") == [("7", {"id": 7, "what": "known"})]


def test_a_mistake_ends_a_pipeline_at_once(spark: Any, broker: AnyBroker, tmp_path: Path) -> None:
    created(broker, "mistaken")
    text = "name: mistaken\nsource: {topic: mistaken}\ntransform: [SELECT vlaue FROM input]\nsink: {topic: mistaken}\n"
    told: list[str] = []
    [ended] = ran(spark, tmp_path, pipelines(tmp_path, broker, text), back_off=BackOff(), tell=told.append)
    assert (ended.state, ended.restarts) == (State.FAILED, 0)
    assert told[0].startswith("mistaken failed: [UNRESOLVED_COLUMN")
    assert "vlaue" in StateDirectory(tmp_path / "state").failure_file("mistaken").read_text()


def test_a_failed_query_starts_again_but_not_for_ever(spark: Any, broker: AnyBroker, tmp_path: Path) -> None:
    created(broker, "restarted")
    produced(broker, "restarted", numbered(0, 5))
    repaired = tmp_path / "repaired"
    (tmp_path / "breaking.py").write_text(
        f"""
from pathlib import Path
from pyspark.sql.functions import udf

@udf("bigint")
def checked(n):
    if not Path({str(repaired)!r}).exists():
        raise OSError("the store is down")
    return n

def check(frame, spark):
    return frame.select(checked("value.n").alias("n"))
"""
    )
    found = pipelines(
        tmp_path,
        broker,
        f"""
name: restarted
source: {{topic: restarted, valueFormat: json, valueSchema: n bigint}}
transform: [python: 'breaking:check']
sink: {{type: parquet, path: {tmp_path}/lake}}
""",
    )
    told: list[str] = []
    [ended] = ran(spark, tmp_path, found, back_off=BackOff(first_s=0.01, restarts_max=1), tell=told.append)
    assert (ended.state, ended.restarts, ended.reason) == (State.FAILED, 1, "OSError: the store is down")
    assert told == [
        "restarted failed: OSError: the store is down; restart 1 of 1 in 0.01 s",
        "restarted failed (after 1 restarts in a row): OSError: the store is down",
    ]
    repair = lambda line: repaired.touch()  # noqa: E731
    [ended] = ran(spark, tmp_path, found, back_off=BackOff(first_s=0.01, restarts_max=1), tell=repair)
    assert (ended.state, ended.restarts) == (State.FINISHED, 1)
    assert numbers(spark, tmp_path / "lake") == [0, 1, 2, 3, 4]


def test_a_plan_is_shown_without_running_anything(spark: Any, broker: AnyBroker, tmp_path: Path) -> None:
    """Nor with the secrets that are among the source's options."""
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required username=me password=hush;"
    secured = f"kafka: {{security.protocol: SASL_SSL, sasl.mechanism: PLAIN, sasl.jaas.config: '{login}'}}\n"
    text = TO_PARQUET.format(name="planned", path=tmp_path / "lake") + secured
    [found] = pipelines(tmp_path, broker, text)
    plan = plan_of(pipeline_session(spark, found, {}), found, context_of(found, tmp_path / "checkpoint"))
    assert "Filter" in plan and "ottla" in plan
    assert not [word for word in ("Exception", "hush") if word in plan]
    assert not (tmp_path / "checkpoint").exists()


@pytest.mark.parametrize(
    ("said", "wrong", "reason"),
    [
        ("value.n", "value.m", "wrong: .*No such struct field `m`"),
        ("n bigint", "n bigintt", "wrong: .*PARSE_SYNTAX_ERROR"),
    ],
)
def test_what_only_spark_can_find_wrong_is_told_in_a_line_with_the_plan(
    spark: Any, broker: AnyBroker, tmp_path: Path, said: str, wrong: str, reason: str
) -> None:
    text = TO_PARQUET.format(name="wrong", path=tmp_path / "lake").replace(said, wrong)
    [found] = pipelines(tmp_path, broker, text)
    with pytest.raises(Failure, match=reason) as told:
        planned(spark, found, StateDirectory(tmp_path / "state"))
    assert "\n" not in str(told.value)


@pytest.mark.timeout(300)
def test_the_command_runs_until_it_is_told_to_end(broker: AnyBroker, tmp_path: Path) -> None:
    """A process of its own, as a service manager starts and stops it, where PySpark's shell is a notebook."""
    created(broker, "commanded")
    produced(broker, "commanded", numbered(0, 10))
    file = tmp_path / "p.yaml"
    file.write_text(f"bootstrapServers: {broker.bootstrap_servers}\n")
    with file.open("a") as more:
        more.write(TO_PARQUET.format(name="commanded", path=tmp_path / "lake"))
    state = StateDirectory(tmp_path / "state")
    command = [sys.executable, "-m", "ottla.cli.main", "pipeline", "run", str(file), "--master", "local[2]"]
    command += ["--conf", "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"]
    environment = {**os.environ, "PYSPARK_DRIVER_PYTHON": "jupyter"}
    process = subprocess.Popen(
        [*command, "--state", str(state.path)], stderr=subprocess.PIPE, text=True, env=environment
    )
    try:
        until(lambda: process.poll() is not None or rows_of(state, "commanded") == 10, seconds_max=240)
        process.send_signal(signal.SIGTERM)
        _, shown = process.communicate(timeout=90)
    finally:
        process.kill()
    assert process.returncode == 0, shown
    status = state.status("commanded")
    assert status is not None and status.state is State.STOPPED
    assert "commanded: stopped, batch 0 in " in shown


def rows_of(state: StateDirectory, name: str) -> int:
    status = state.status(name)
    return 0 if status is None else status.rows_total
