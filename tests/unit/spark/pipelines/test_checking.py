"""What is wrong with a pipeline is told before Spark starts: all of it, each with its line."""

import subprocess
import sys
from pathlib import Path

import pytest

from ottla.spark.pipelines.checking import Checked, check_files
from ottla.spark.pipelines.contract import Errors, Guarantee, Tolerance
from ottla.spark.pipelines.definition import Pipeline, PythonStep, SqlStep, Trigger, TriggerKind, Watermark
from ottla.spark.pipelines.kinds import SINKS, SOURCES

LEAST = "name: p\nsource: {topic: orders}\nsink: {type: parquet, path: /lake}\n"


def check(tmp_path: Path, *texts: str, **environment: str) -> Checked:
    files = []
    for number, text in enumerate(texts):
        files.append(tmp_path / f"{number}.yaml")
        files[-1].write_text(text)
    return check_files(files, environment)


def pipeline(tmp_path: Path, text: str, **environment: str) -> Pipeline:
    checked = check(tmp_path, text, **environment)
    assert checked.problems == []
    return checked.pipelines[0]


def messages(tmp_path: Path, text: str) -> list[str]:
    checked = check(tmp_path, text)
    assert checked.pipelines == []
    return [str(problem).removeprefix(f"{tmp_path}/0.yaml:") for problem in checked.problems]


def test_the_least_that_a_pipeline_needs(tmp_path: Path) -> None:
    found = pipeline(tmp_path, LEAST)
    assert (found.name, found.bootstrap_servers, found.output_mode) == ("p", "localhost:9092", "append")
    assert found.guarantee is Guarantee.EXACTLY_ONCE is found.sink.strongest.guarantee
    assert found.trigger == Trigger(kind=TriggerKind.INTERVAL, interval_ms=1000)
    assert found.checkpoint is None
    assert found.errors == Errors(tolerance=Tolerance.NONE)
    assert found.sink.settings == {"path": "/lake", "partitionBy": [], "compression": "zstd"}
    [source] = found.sources
    assert (source.view, source.type_name, source.settings["topic"]) == ("input", "topic", "orders")


def test_everything_that_a_pipeline_can_say(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("def change(frames, spark): ...\n")
    found = pipeline(
        tmp_path,
        """
name: everything
bootstrapServers: ${BROKERS}
kafka: {client.id: mine, enable.x: true}
sources:
  orders: {topic: orders, watermark: {column: timestamp, delay: 5 minutes}}
  files: {type: files, path: /in, format: text}
transform:
  - SELECT 1
  - {sql: SELECT 2, view: two}
  - python: beside:change
sink: {topic: out, key: id}
guarantee: at-least-once
outputMode: append
errors: {tolerance: all, deadLetterTopic: letters}
trigger: {availableNow: true}
checkpoint: /checkpoints/everything
spark: {spark.sql.shuffle.partitions: 2, spark.ui.enabled: true}
""",
        BROKERS="b:1,b:2",
    )
    assert found.bootstrap_servers == "b:1,b:2"
    assert found.client_options == {"kafka.client.id": "mine", "kafka.enable.x": "true"}
    assert [source.view for source in found.sources] == ["orders", "files"]
    assert found.sources[0].watermark == Watermark(column="timestamp", delay_ms=300_000)
    assert found.is_multi_source
    assert list(found.steps) == [
        SqlStep(sql="SELECT 1", view=None),
        SqlStep(sql="SELECT 2", view="two"),
        PythonStep(module="beside", function="change", view=None),
    ]
    assert (found.guarantee, found.output_mode) == (Guarantee.AT_LEAST_ONCE, "append")
    assert found.errors == Errors(tolerance=Tolerance.ALL, dead_letter_topic="letters")
    assert found.trigger.kind is TriggerKind.AVAILABLE_NOW
    assert found.checkpoint == Path("/checkpoints/everything")
    assert found.spark_conf == {"spark.sql.shuffle.partitions": "2", "spark.ui.enabled": "true"}


def test_brokers_come_from_the_environment_where_the_file_names_none(tmp_path: Path) -> None:
    assert pipeline(tmp_path, LEAST, OTTLA_BOOTSTRAP_SERVERS="far:9092").bootstrap_servers == "far:9092"


def test_all_problems_are_told_at_once_each_with_its_place(tmp_path: Path) -> None:
    assert messages(
        tmp_path,
        """
nmae: p
source:
  topic: 5
  startingOfsets: earliest
sink:
  type: parqet
trigger: {interval: soon}
guarantee: exactly
transform:
  - {sql: SELECT 1, python: a:b}
""",
    ) == [
        "2:1: name is missing: the pipeline's name: letters, digits, '.', '_' and '-'",
        "2:1: unknown key nmae (did you mean name?): name, bootstrapServers, kafka, source, sources, transform, sink, "
        "guarantee, outputMode, errors, trigger, checkpoint, spark",
        "4:3: topic: a text is needed, not 5; write it in quotes (one topic, or several with commas)",
        "5:3: unknown key startingOfsets (did you mean startingOffsets?): type, watermark, topic, topicPattern, read, "
        "group, startingOffsets, startingTimestamp, keyFormat, keySchema, valueFormat, valueSchema, includeHeaders, "
        "columns, maxOffsetsPerTrigger, maxBytesPerTrigger, minPartitions, failOnDataLoss",
        "7:3: type: there is no type parqet (did you mean parquet?): topic, parquet, console, delta, iceberg, jdbc, "
        "elasticsearch, or a class as package.module:Class",
        "8:11: interval: 'soon' is no duration such as 500ms, 2s, 5m or 1h",
        "9:1: guarantee: exactly is not one of exactly-once, at-least-once (did you mean exactly-once?) "
        "(without it, the most that the sink can give)",
        "11:5: a step is a SQL text, {sql: …} or {python: module:function}",
    ]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("name: a/b", "has other characters"),
        ("sources: {a: {topic: t}}", "exactly one of source and sources"),
        ("source: {topic: t, topicPattern: t.*}", "exactly one of topic and topicPattern"),
        ("source: {topic: t, startingOffsets: '{'}", "startingOffsets is not JSON"),
        ("source: {topic: t, valueFormat: json}", "json needs a schema"),
        ("source: {topic: t, maxOffsetsPerTrigger: 0}", "a positive whole number"),
        ("source: {topic: t, read: table, group: g}", "a table is read as a whole"),
        ("source: {topic: t, watermark: {column: timestamp}}", "delay is missing"),
        ("source: {type: files, path: /in, format: csv}", "a stream of files needs one"),
        ("source: [1]", "a mapping is needed"),
        ("source: {}", "exactly one of source and sources"),
        ("sink: {type: 'os:path'}", "os:path is no sink"),
        ("sink: {type: 'no_such_module:Sink'}", "cannot be imported"),
        ("sink: {type: parquet}", "path is missing"),
        ("sink: {type: parquet, path: /lake, partitionBy: day}", "a list is needed, not 'day'"),
        ("sink: {type: console}\nguarantee: exactly-once", "the sink console gives at-least-once at most"),
        ("trigger: {}", "exactly one of interval"),
        ("trigger: {interval: 2s, once: true}", "exactly one of interval"),
        ("errors: {deadLetterTopic: letters}", "nothing is sent there with tolerance: none"),
        ("errors: {tolerance: some}", "some is not one of none, all"),
        ("checkpoint: s3a://bucket/x", "is no directory"),
        ("bootstrapServers: 'host:'", "bootstrapServers: "),
        ("kafka: {security.protocol: TLS}", "kafka: security.protocol=TLS: PLAINTEXT, SSL, "),
        ("transform: [{python: nowhere}]", "is not module:function"),
        ("transform: [{python: 'no_such_module:f'}]", "there is no module no_such_module"),
        ("transform: [{sql: SELECT 1, view: input}]", "is no name for a view"),
        ("transform: [{python: 'json:no_such_function'}]", "__init__.py has no function no_such_function"),
        ("transform: [{python: 'json.decoder:no_such_function'}]", "decoder.py has no function no_such_function"),
        ("spark: {master: local}", "master is no setting of Spark's: those begin with spark."),
        ("transform: [5]", "a mapping is needed, with sql, python, view"),
        ("outputMode: upsert", "is not one of append, update, complete"),
        ("outputMode: update", "the sink parquet takes append only"),
    ],
)
def test_what_is_wrong_is_told(tmp_path: Path, change: str, reason: str) -> None:
    key = change.partition(":")[0]
    others = "".join(line for line in LEAST.splitlines(keepends=True) if not line.startswith(f"{key}:"))
    [message] = messages(tmp_path, others + change + "\n")
    assert reason in message


@pytest.mark.parametrize(
    ("source", "is_right"),
    [
        ("def step(frame, spark): ...", True),
        ("try:\n    from fast import step\nexcept ImportError:\n    from slow import step", True),
        ("from others import *", True),
        ("step = lambda frame, spark: frame", True),
        ("def steps(frame, spark):\n    def step(): ...\n    return step()", False),
        ("print(step)", False),
        ("def step(:", False),
    ],
)
def test_a_steps_function_is_looked_for_without_running_its_file(source: str, is_right: bool, tmp_path: Path) -> None:
    module = f"step_{abs(hash(source))}"
    (tmp_path / f"{module}.py").write_text(f"{source}\nraise SystemExit\n")
    problems = check(tmp_path, f"{LEAST}transform: [{{python: '{module}:step'}}]").problems
    assert (problems == []) is is_right


def test_several_sources_need_a_transform(tmp_path: Path) -> None:
    text = "name: p\nsources: {a: {topic: a}, b: {topic: b}}\nsink: {topic: c}\n"
    assert messages(tmp_path, text) == ["2:1: several sources need a transform that makes one result of them"]


def test_two_files_cannot_have_one_name(tmp_path: Path) -> None:
    checked = check(tmp_path, LEAST, LEAST)
    assert [str(problem) for problem in checked.problems] == [
        f"{tmp_path}/1.yaml:1:1: another file has the name p, too"
    ]


def test_a_sink_of_ones_own_is_found_beside_the_file(tmp_path: Path) -> None:
    (tmp_path / "own_kinds.py").write_text(
        "from ottla.spark.pipelines.sinks.console import ConsoleSink\n\n\nclass MySink(ConsoleSink):\n    pass\n"
    )
    found = pipeline(tmp_path, "name: p\nsource: {topic: t}\nsink: {type: 'own_kinds:MySink'}\n")
    assert found.sink.kind.__name__ == "MySink"


def test_nothing_of_spark_or_of_a_store_is_imported_to_check(tmp_path: Path) -> None:
    program = f"""
import sys
from ottla.spark.pipelines.kinds import sink_kind, source_kind
from ottla.spark.pipelines.checking import check_files
for name in {sorted(SOURCES)!r}: source_kind(name)
for name in {sorted(SINKS)!r}: sink_kind(name)
print(sorted({{"pyspark", "pyarrow", "deltalake", "pyiceberg", "psycopg2", "pandas"}} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_an_empty_file_is_one_problem(tmp_path: Path) -> None:
    [message] = messages(tmp_path, "# nothing\n")
    assert message.startswith("1:1: a mapping is needed, with name, ")


def test_an_unset_variable_does_not_hide_what_else_is_wrong(tmp_path: Path) -> None:
    first, second = messages(tmp_path, LEAST.replace("orders", "'${NO_TOPIC}'") + "sinc: 1\n")
    assert "NO_TOPIC is not set" in first and "unknown key sinc" in second


@pytest.mark.parametrize("text", ["${ORDERS", "${}", "${1ST}"])
def test_what_begins_as_a_variable_and_is_none_is_told(tmp_path: Path, text: str) -> None:
    [message] = messages(tmp_path, LEAST.replace("orders", f"'{text}'"))
    assert "${NAME:-default}" in message
