"""A PostgreSQL table as sink and as source, on a real PostgreSQL, without a JAR."""

from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from ottla.spark.pipelines.contract import Guarantee, PipelineContext
from ottla.spark.pipelines.sinks.jdbc import JdbcSink
from ottla.spark.pipelines.sources.jdbc import JdbcSource
from tests.postgres import Database
from tests.spark.store_queries import ROWS_PER_FILE, add_files, filled, forget_last_commit, orders, run

KINDS: dict[str, dict[str, Any]] = {
    "keyed": {"keys": ["id"]},
    "by record": {},
    "by batch number": {},
    "at least once": {"guarantee": Guarantee.AT_LEAST_ONCE},
}

FAIL_ON_ID_60 = """
CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'the database is out of order'; END $$;
CREATE TRIGGER fail BEFORE INSERT ON orders FOR EACH ROW WHEN (NEW.id = 60) EXECUTE FUNCTION fail()
"""


def settings(database: Database, **more: Any) -> dict[str, Any]:
    return filled(JdbcSink, url=database.url, table="orders", createTable=True, **more)


def frame_for(kind: str, spark: Any, source: Path) -> Any:
    frame = orders(spark, source)
    return frame.selectExpr("*", "'t' topic", "0 partition", "id offset") if kind == "by record" else frame


def ids(database: Database) -> list[int]:
    return [row[0] for row in database.execute("SELECT id FROM orders ORDER BY 1")]


@pytest.mark.parametrize("kind", KINDS)
def test_every_row_is_written_once_over_failures_and_replays(
    spark: Any, tmp_path: Path, checkpoint: str, database: Database, kind: str
) -> None:
    source = tmp_path / "source"
    add_files(source, 1)
    given = settings(database, **KINDS[kind])
    run(JdbcSink, frame_for(kind, spark, source), given, checkpoint)
    add_files(source, 1)
    database.execute(FAIL_ON_ID_60)
    with pytest.raises(Exception, match="the database is out of order"):
        run(JdbcSink, frame_for(kind, spark, source), given, checkpoint)
    database.execute("DROP TRIGGER fail ON orders")
    run(JdbcSink, frame_for(kind, spark, source), given, checkpoint)
    assert ids(database) == list(range(2 * ROWS_PER_FILE))
    forget_last_commit(checkpoint)
    run(JdbcSink, frame_for(kind, spark, source), given, checkpoint)
    replayed = list(range(ROWS_PER_FILE, 2 * ROWS_PER_FILE)) if kind == "at least once" else []
    assert ids(database) == sorted([*range(2 * ROWS_PER_FILE), *replayed])


def test_counts_are_kept_up_to_date(spark: Any, tmp_path: Path, checkpoint: str, database: Database) -> None:
    """An aggregation in update mode: each micro-batch has the rows that changed."""
    source = tmp_path / "source"
    add_files(source, 3)
    counts = orders(spark, source).groupBy("city").count()
    run(JdbcSink, counts, settings(database, keys=["city"]), checkpoint, output_mode="update")
    assert database.execute("SELECT * FROM orders ORDER BY 1") == [("city 0", 50), ("city 1", 50), ("city 2", 50)]


def test_of_changes_in_one_micro_batch_the_newest_stays(
    spark: Any, tmp_path: Path, checkpoint: str, database: Database
) -> None:
    """Also where it is a deletion, and however the rows are spread over tasks."""
    source = tmp_path / "source"
    add_files(source, 1)
    changes = (
        orders(spark, source)
        .repartition(2)
        .selectExpr("id % 5 key", "id version", "city", "if(id % 5 = 0 and id >= 45, 'd', 'u') op")
    )
    given = settings(database, keys=["key"], orderBy="version", deletes=True)
    run(JdbcSink, changes, given, checkpoint)
    rows = database.execute("SELECT key, version FROM orders ORDER BY 1")
    assert rows == [(1, 46), (2, 47), (3, 48), (4, 49)]
    assert not database.execute(
        "SELECT 1 FROM information_schema.columns WHERE table_name='orders' AND column_name='op'"
    )


def test_rows_that_do_not_fit_are_told_before_the_query_starts(
    spark: Any, tmp_path: Path, checkpoint: str, database: Database
) -> None:
    add_files(tmp_path / "source", 1)
    frame = orders(spark, tmp_path / "source")
    for wrong, reason in [
        ({"createTable": False}, 'relation "orders" does not exist'),
        ({"keys": ["order_id"]}, "the rows have no column order_id"),
        ({"keys": ["id"], "deletes": True}, "neither op nor value"),
    ]:
        with pytest.raises(Exception, match=reason):
            run(JdbcSink, frame, {**settings(database), **wrong}, checkpoint)


# -- the source ------------------------------------------------------------------------------------------------------


@pytest.fixture
def context(tmp_path: Path) -> Iterator[PipelineContext]:
    yield PipelineContext(name="test", bootstrap_servers="", checkpoint=tmp_path)


def table(spark: Any, database: Database, context: PipelineContext, **more: Any) -> Any:
    defaults = {one.name: one.default for one in JdbcSource.settings}
    given = defaults | {"url": database.url, "table": "events", "incrementColumn": "id"} | more
    return JdbcSource().frame(spark, given, context)


def read(frame: Any, checkpoint: str, place: Path) -> list[int]:
    """The sizes of the micro-batches that a run has."""
    query = frame.writeStream.format("parquet").option("path", str(place)).option("checkpointLocation", checkpoint)
    running = query.trigger(availableNow=True).start()
    running.awaitTermination()
    return [one["numInputRows"] for one in running.recentProgress if one["numInputRows"]]


def test_a_stream_has_every_row_once_in_micro_batches_of_a_size(
    spark: Any, database: Database, context: PipelineContext, checkpoint: str, tmp_path: Path
) -> None:
    database.execute("CREATE TABLE events (id bigint, name text)")
    database.execute("INSERT INTO events SELECT n, 'row ' || n FROM generate_series(1, 100) n")
    frame = table(spark, database, context, maxRowsPerTrigger=40, partitions=3)
    assert read(frame, checkpoint, tmp_path / "rows") == [40, 40, 20]
    database.execute("INSERT INTO events VALUES (100, 'equal'), (101, 'later')")
    assert read(frame, checkpoint, tmp_path / "rows") == [2]
    found = sorted((row["id"], row["name"]) for row in spark.read.parquet(str(tmp_path / "rows")).collect())
    assert found == sorted([*((n, f"row {n}") for n in range(1, 101)), (100, "equal"), (101, "later")])


def test_a_stream_can_begin_at_a_value(
    spark: Any, database: Database, context: PipelineContext, checkpoint: str, tmp_path: Path
) -> None:
    database.execute("CREATE TABLE events (id bigint, at timestamptz)")
    database.execute(
        "INSERT INTO events SELECT n, '2026-01-01Z'::timestamptz + n * '1 h'::interval FROM generate_series(0, 9) n"
    )
    frame = table(spark, database, context, incrementColumn="at", startAt="2026-01-01T06:00:00Z")
    assert read(frame, checkpoint, tmp_path / "rows") == [4]


def test_types_have_their_counterparts(
    spark: Any, database: Database, context: PipelineContext, checkpoint: str, tmp_path: Path
) -> None:
    database.execute(
        "CREATE TABLE events (id int, flag bool, small int2, big int8, ratio float8, price numeric(12,2), "
        "name varchar(20), raw bytea, day date, at timestamptz(3), here timestamp, tags text[], counts int[], key uuid, "
        "extra jsonb, gone text)"
    )
    database.execute("ALTER TABLE events DROP COLUMN gone")
    database.execute(
        "INSERT INTO events VALUES (1, true, 2, 3, 0.5, 12.50, 'ü', '\\x00ff', '2026-01-02', '2026-01-02T03:04:05.678Z', "
        "'2026-01-02T03:04:05', '{a,b}', '{1,NULL}', '6f1c1c2e-0000-4000-8000-000000000000', '{\"a\": [1]}')"
    )
    read(table(spark, database, context), checkpoint, tmp_path / "rows")
    (row,) = spark.read.parquet(str(tmp_path / "rows")).collect()
    assert row.asDict() == {
        "id": 1,
        "flag": True,
        "small": 2,
        "big": 3,
        "ratio": 0.5,
        "price": Decimal("12.50"),
        "name": "ü",
        "raw": b"\x00\xff",
        "day": date(2026, 1, 2),
        "at": datetime(2026, 1, 2, 3, 4, 5, 678000, UTC).replace(tzinfo=None),
        "here": datetime(2026, 1, 2, 3, 4, 5),
        "tags": ["a", "b"],
        "counts": [1, None],
        "key": "6f1c1c2e-0000-4000-8000-000000000000",
        "extra": '{"a": [1]}',
    }


def test_a_column_that_is_not_there_is_told(spark: Any, database: Database, context: PipelineContext) -> None:
    database.execute("CREATE TABLE events (id int)")
    with pytest.raises(Exception, match="events has no column changed, only id"):
        table(spark, database, context, incrementColumn="changed")
