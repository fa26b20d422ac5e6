"""Rows into a real PostgreSQL table, as tasks write them."""

from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import psycopg2
import pyarrow as pa
import pytest
from pyspark.sql import types

from ottla.spark.pipelines.postgres import Server
from ottla.spark.pipelines.sinks import jdbc_rows
from ottla.spark.pipelines.sinks.jdbc_rows import TargetTable
from tests.postgres import Database

ORDERS = "CREATE TABLE orders (id bigint PRIMARY KEY, city text, version int)"


def orders(database: Database, **more: Any) -> TargetTable:
    defaults: dict[str, Any] = {
        "columns": ("id", "city", "version"),
        "keys": ("id",),
        "order_by": None,
        "delete_by": None,
    }
    return TargetTable(server=Server(url=database.url), name="orders", **(defaults | more))


def batches(*rows: tuple[Any, ...], names: tuple[str, ...] = ("id", "city", "version")) -> Iterator[pa.RecordBatch]:
    columns = [pa.array(column) for column in zip(*rows, strict=True)]
    return iter([pa.RecordBatch.from_arrays(columns, names=list(names))])


def stored(database: Database) -> list[tuple[Any, ...]]:
    return database.execute("SELECT * FROM orders ORDER BY 1")


def test_writing_again_changes_nothing(database: Database) -> None:
    database.execute(ORDERS)
    rows = [(number, f"city {number}", 1) for number in range(2500)]
    for _ in range(2):
        assert sum(orders(database).upsert(batches(*rows))) == 2500
    assert stored(database) == rows


def test_a_row_of_the_same_key_is_replaced_by_the_last(database: Database) -> None:
    database.execute(ORDERS)
    list(orders(database).upsert(batches((1, "Brno", 1), (2, "Prague", 1), (1, "Olomouc", 2))))
    list(orders(database).upsert(batches((2, "Plzeň", 2))))
    assert stored(database) == [(1, "Olomouc", 2), (2, "Plzeň", 2)]


def test_with_an_order_an_older_row_never_replaces_a_newer(database: Database) -> None:
    database.execute(ORDERS)
    target = orders(database, order_by="version")
    list(target.upsert(batches((1, "new", 5), (2, "new", 5))))
    list(target.upsert(batches((1, "old", 4), (2, "newer", 6))))
    assert stored(database) == [(1, "new", 5), (2, "newer", 6)]


@pytest.mark.parametrize(
    ("delete_by", "names", "rows"),
    [
        ("op", ("id", "op", "city", "version"), [(1, "d", None, None), (2, "u", "Plzeň", 2), (4, "d", None, None)]),
        (
            "value",
            ("id", "value", "city", "version"),
            [(1, None, None, None), (2, b"{}", "Plzeň", 2), (4, None, None, None)],
        ),
    ],
)
def test_deletions_delete(
    database: Database, delete_by: str, names: tuple[str, ...], rows: list[tuple[Any, ...]]
) -> None:
    database.execute(ORDERS)
    database.execute("INSERT INTO orders VALUES (1, 'Brno', 1), (2, 'Prague', 1), (3, 'Zlín', 1)")
    list(orders(database, delete_by=delete_by).upsert(batches(*rows, names=names)))
    assert stored(database) == [(2, "Plzeň", 2), (3, "Zlín", 1)]


def test_a_row_deleted_and_written_again_in_one_page_is_there(database: Database) -> None:
    database.execute(ORDERS)
    rows = [(1, "c", "Brno", 1), (1, "d", None, None), (1, "c", "Zlín", 3), (2, "c", "Brno", 1), (2, "d", None, None)]
    list(orders(database, delete_by="op").upsert(batches(*rows, names=("id", "op", "city", "version"))))
    assert stored(database) == [(1, "Zlín", 3)]


def test_a_row_without_its_key_is_an_error(database: Database) -> None:
    database.execute(ORDERS)
    with pytest.raises(ValueError, match="no value in id"):
        list(orders(database).upsert(batches((1, "Brno", 1), (None, "Prague", 1))))


def test_a_batch_is_inserted_once_whoever_comes_with_it(database: Database) -> None:
    database.execute("CREATE TABLE orders (id bigint, city text, version int)")
    target = orders(database, keys=())
    database.execute(target.create_marker_statement())
    for query, number, rows in [("a", 0, 1), ("a", 0, 1), ("a", 1, 1), ("a", 0, 1), ("b", 0, 1)]:
        list(target.append_once(query, number, batches((number, query, rows))))
    assert stored(database) == [(0, "a", 1), (0, "b", 1), (1, "a", 1)]


def test_a_batch_that_fails_leaves_neither_rows_nor_its_number(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jdbc_rows, "PAGE_ROWS", 1)
    database.execute("CREATE TABLE orders (id bigint, city text CHECK (city <> 'nowhere'), version int)")
    target = orders(database, keys=())
    database.execute(target.create_marker_statement())
    with pytest.raises(psycopg2.errors.CheckViolation):
        list(target.append_once("a", 0, batches((1, "Brno", 1), (2, "nowhere", 1))))
    assert not stored(database)
    list(target.append_once("a", 0, batches((1, "Brno", 1), (2, "Prague", 1))))
    assert len(stored(database)) == 2


def test_a_table_is_made_for_every_type(database: Database) -> None:
    place = types.StructType().add("x", "integer").add("y", "integer")
    kinds: dict[str, str | types.DataType] = {
        "id": "long",
        "flag": "boolean",
        "small": "short",
        "price": types.DecimalType(12, 2),
        "ratio": "double",
        "name": "string",
        "raw": "binary",
        "day": "date",
        "at": "timestamp",
        "here": "timestamp_ntz",
        "tags": types.ArrayType(types.StringType()),
        "place": place,
        "counts": types.MapType(types.StringType(), types.IntegerType()),
        "lines": types.ArrayType(types.StructType().add("sku", "string")),
    }
    schema = types.StructType()
    for name, kind in kinds.items():
        schema = schema.add(name, kind)
    target = orders(database, columns=tuple(schema.names))
    database.execute(target.create_statement(schema))
    moment = datetime(2026, 1, 2, 3, 4, 5, 678901, UTC)
    row = {
        "id": 1,
        "flag": True,
        "small": 7,
        "price": Decimal("12.50"),
        "ratio": 0.25,
        "name": "it's 100 % \\ü",
        "raw": b"\x00\xff",
        "day": moment.date(),
        "at": moment,
        "here": moment.replace(tzinfo=None),
        "tags": ["a", "b"],
        "place": {"x": 1, "y": 2},
        "counts": {"a": 1},
        "lines": [{"sku": "s"}],
    }
    counts = pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int32()))
    columns = [counts if name == "counts" else pa.array([value]) for name, value in row.items()]
    list(target.upsert(iter([pa.RecordBatch.from_arrays(columns, names=list(row))])))
    (found,) = stored(database)
    values = [bytes(value) if isinstance(value, memoryview) else value for value in found]
    assert dict(zip(row, values, strict=True)) == row


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        ("CREATE TABLE other (id bigint)", 'relation "orders" does not exist'),
        (
            "CREATE TABLE orders (id bigint PRIMARY KEY, city text)",
            'column "version" of relation "orders" does not exist',
        ),
        ("CREATE TABLE orders (id bigint, city text, version int)", "no unique or exclusion constraint"),
    ],
)
def test_a_table_that_does_not_fit_is_found_before_a_row_is_written(
    database: Database, table: str, reason: str
) -> None:
    database.execute(table)
    with psycopg2.connect(database.url) as connection, connection.cursor() as cursor:
        statement = orders(database).explain_statement(cursor)
        with pytest.raises(psycopg2.ProgrammingError, match=reason):
            cursor.execute(statement)
