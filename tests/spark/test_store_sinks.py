"""Delta, Iceberg, Parquet and Elasticsearch as sinks: every row once, also when a micro-batch comes again."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table, Transaction

from ottla.client import Admin, Consumer
from ottla.spark.pipelines.contract import Errors, Sink, Tolerance
from ottla.spark.pipelines.sinks.delta import DeltaSink
from ottla.spark.pipelines.sinks.elasticsearch import ElasticsearchSink
from ottla.spark.pipelines.sinks.iceberg import IcebergSink
from ottla.spark.pipelines.sinks.parquet import ParquetSink
from tests.fake_search import FakeSearch
from tests.spark.brokers import AnyBroker
from tests.spark.store_queries import ROWS_PER_FILE, add_files, filled, forget_last_commit, orders, run


def iceberg_table(place: Path) -> Table:
    catalog = load_catalog("ottla", type="sql", uri=f"sqlite:///{place / 'catalog.db'}", warehouse=place.as_uri())
    return catalog.load_table("shop.orders")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lake:
    """A store of files: how to write it, and how others than we read it."""

    sink: type[Sink]
    settings: Callable[[Path], dict[str, Any]]
    rows: Callable[[Any, Path], list[dict[str, Any]]]
    commit: tuple[type, str] | None = None
    """The library's function that makes a micro-batch count."""


DELTA = Lake(
    sink=DeltaSink,
    settings=lambda place: filled(DeltaSink, table=str(place)),
    rows=lambda _, place: DeltaTable(str(place)).to_pyarrow_table().to_pylist(),
    commit=(DeltaTable, "create_write_transaction"),
)
ICEBERG = Lake(
    sink=IcebergSink,
    settings=lambda place: filled(IcebergSink, table="shop.orders", warehouse=str(place)),
    rows=lambda _, place: iceberg_table(place).scan().to_arrow().to_pylist(),
    commit=(Transaction, "commit_transaction"),
)
PARQUET = Lake(
    sink=ParquetSink,
    settings=lambda place: filled(ParquetSink, path=str(place)),
    rows=lambda spark, place: [row.asDict() for row in spark.read.parquet(str(place)).collect()],
)
EVERY = pytest.mark.parametrize("lake", [DELTA, ICEBERG, PARQUET], ids=["delta", "iceberg", "parquet"])
WITH_COMMIT = pytest.mark.parametrize("lake", [DELTA, ICEBERG], ids=["delta", "iceberg"])


def assert_every_row_once(rows: list[dict[str, Any]], files: int) -> None:
    assert sorted(row["id"] for row in rows) == list(range(files * ROWS_PER_FILE))


@EVERY
def test_every_row_is_written_once_over_restarts_and_replays(
    spark: Any, tmp_path: Path, checkpoint: str, lake: Lake
) -> None:
    place, source = tmp_path / "table", tmp_path / "source"
    add_files(source, 2)
    run(lake.sink, orders(spark, source), lake.settings(place), checkpoint)
    forget_last_commit(checkpoint)
    add_files(source, 1)
    run(lake.sink, orders(spark, source), lake.settings(place), checkpoint)
    rows = lake.rows(spark, place)
    assert_every_row_once(rows, 3)
    found = {row["id"]: row for row in rows}[7]
    assert found["city"] == "city 1"
    assert found["at"].replace(tzinfo=UTC) == datetime(2026, 1, 1, 0, 7, tzinfo=UTC)


@WITH_COMMIT
@pytest.mark.parametrize("is_committed", [False, True], ids=["before", "after"])
def test_a_failure_around_the_commit_neither_loses_nor_repeats(
    spark: Any, tmp_path: Path, checkpoint: str, lake: Lake, is_committed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, source = tmp_path / "table", tmp_path / "source"
    add_files(source, 1)
    run(lake.sink, orders(spark, source), lake.settings(place), checkpoint)
    add_files(source, 1)
    assert lake.commit is not None
    owner, name = lake.commit
    real = getattr(owner, name)

    def crashing(*arguments: Any, **named: Any) -> None:
        if is_committed:
            real(*arguments, **named)
        raise ConnectionError("the store went away")

    with monkeypatch.context() as patched:
        patched.setattr(owner, name, crashing)
        with pytest.raises(Exception, match="the store went away"):
            run(lake.sink, orders(spark, source), lake.settings(place), checkpoint)
    assert_every_row_once(lake.rows(spark, place), 2 if is_committed else 1)
    run(lake.sink, orders(spark, source), lake.settings(place), checkpoint)
    assert_every_row_once(lake.rows(spark, place), 2)


def test_iceberg_looks_again_when_another_writer_was_faster(
    spark: Any, tmp_path: Path, checkpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one may be a second driver of the same checkpoint, with the same micro-batch."""
    place, source = tmp_path / "table", tmp_path / "source"
    add_files(source, 1)
    real = Transaction.commit_transaction
    calls = 0

    def lost_answer(transaction: Transaction) -> Table:
        nonlocal calls
        calls += 1
        table = real(transaction)
        if calls == 1:
            raise CommitFailedException("another was faster")
        return table

    monkeypatch.setattr(Transaction, "commit_transaction", lost_answer)
    run(IcebergSink, orders(spark, source), ICEBERG.settings(place), checkpoint)
    assert calls == 1
    assert_every_row_once(ICEBERG.rows(spark, place), 1)


@WITH_COMMIT
def test_a_table_is_divided_by_columns(spark: Any, tmp_path: Path, checkpoint: str, lake: Lake) -> None:
    place, source = tmp_path / "table", tmp_path / "source"
    add_files(source, 1)
    frame = orders(spark, source).selectExpr("*", "date(at) day")
    run(lake.sink, frame, {**lake.settings(place), "partitionBy": ["city", "day"]}, checkpoint)
    assert_every_row_once(lake.rows(spark, place), 1)
    if lake is DELTA:
        found = {one["city"] for one in DeltaTable(str(place)).partitions()}
    else:
        found = {file.file.partition[0] for file in iceberg_table(place).scan().plan_files()}
    assert found == {"city 0", "city 1", "city 2"}


@WITH_COMMIT
def test_rows_that_do_not_fit_the_table_are_told_before_the_query_starts(
    spark: Any, tmp_path: Path, checkpoint: str, lake: Lake
) -> None:
    place, source = tmp_path / "table", tmp_path / "source"
    add_files(source, 1)
    run(lake.sink, orders(spark, source), lake.settings(place), checkpoint)
    for columns, reason in [(["*", "1 more"], "more"), (["string(id) id", "city", "at"], "id")]:
        with pytest.raises(ValueError, match=rf"(?s)do not fit the .* table .*{reason}"):
            run(lake.sink, orders(spark, source).selectExpr(*columns), lake.settings(place), checkpoint)
    with pytest.raises(ValueError, match="partitioned by"):
        run(lake.sink, orders(spark, source), {**lake.settings(place), "partitionBy": ["city"]}, checkpoint)


def test_delta_takes_moments_of_any_session(spark: Any, tmp_path: Path, checkpoint: str) -> None:
    place, source = tmp_path / "table", tmp_path / "source"
    add_files(source, 1)
    spark.conf.set("spark.sql.session.timeZone", "Etc/UTC")
    try:
        frame = orders(spark, source).selectExpr("id", "struct(at, array(at) all) nested")
        run(DeltaSink, frame, DELTA.settings(place), checkpoint)
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    rows = {row["id"]: row["nested"] for row in DELTA.rows(spark, place)}
    moment = datetime(2026, 1, 1, 0, 7, tzinfo=UTC)
    assert rows[7] == {"at": moment, "all": [moment]}


# -- Elasticsearch ---------------------------------------------------------------------------------------------------


def test_documents_are_written_once_under_their_ids(spark: Any, tmp_path: Path, checkpoint: str) -> None:
    source = tmp_path / "source"
    add_files(source, 2)
    with FakeSearch() as search:
        settings = filled(ElasticsearchSink, url=search.url, index="orders", id="id")
        for _ in range(2):
            run(ElasticsearchSink, orders(spark, source), settings, checkpoint)
            forget_last_commit(checkpoint)
        documents = search.indexes["orders"]
        assert sorted(map(int, documents)) == list(range(2 * ROWS_PER_FILE))
        assert documents["7"] == {"id": 7, "city": "city 1", "at": "2026-01-01T00:07:00+00:00"}
        with pytest.raises(ValueError, match="topic, partition, offset, so a document has no id"):
            run(ElasticsearchSink, orders(spark, source), {**settings, "id": None}, checkpoint)


def test_a_document_that_does_not_fit_stops_the_pipeline_or_becomes_a_dead_letter(
    spark: Any, broker: AnyBroker, tmp_path: Path, checkpoint: str
) -> None:
    source = tmp_path / "source"
    add_files(source, 1)
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topic("refused-documents", 1)
    errors = Errors(tolerance=Tolerance.ALL, dead_letter_topic="refused-documents")
    with FakeSearch(unfit_ids={"7"}) as search:
        settings = filled(ElasticsearchSink, url=search.url, index="orders", id="id")
        with pytest.raises(Exception, match=r"refused 1 documents, 7 because: failed to parse field \[n\]"):
            run(ElasticsearchSink, orders(spark, source), settings, checkpoint)
        servers = broker.bootstrap_servers
        run(ElasticsearchSink, orders(spark, source), settings, checkpoint, bootstrap_servers=servers, errors=errors)
        assert len(search.indexes["orders"]) == ROWS_PER_FILE - 1
    with Consumer(
        bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest", group_id="dead"
    ) as consumer:
        consumer.subscribe(["refused-documents"])
        letter = next(iter(consumer))
    assert letter.key == b"7"
    assert b'"city": "city 1"' in letter.value
    assert dict(letter.headers)["__connect.errors.exception.message"].startswith(b"failed to parse field")
