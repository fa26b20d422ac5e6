"""Typed keys and values, and what becomes of records that are not what their format says."""

import json
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.spark.brokers import AnyBroker
from tests.spark.source_topics import create, reader, sent, stream

ORDER_SCHEMA = "id bigint, amount decimal(12,2), at timestamp, lines array<struct<sku: string, count: int>>"
ORDER = {"id": 1, "amount": 12.5, "at": "2024-05-06T07:08:09Z", "lines": [{"sku": "a", "count": 2}], "more": True}
JSON = {"valueFormat": "json", "valueSchema": "id bigint"}
GOOD_AND_BAD = [b'{"id": 0}', b"oops", b'{"id": 2}', b'{"id": "three"}', None]


def with_bad_records(broker: AnyBroker, topic: str) -> None:
    create(broker, topic)
    sent(broker, topic, GOOD_AND_BAD)


def test_json_becomes_a_struct_and_a_string_a_string(spark: Any, broker: AnyBroker) -> None:
    create(broker, "orders")
    sent(broker, "orders", [json.dumps(ORDER).encode(), None])
    frame = reader(spark, broker, "orders", valueFormat="json", valueSchema=ORDER_SCHEMA, keyFormat="string")
    rows = frame.select("key", "value.*").orderBy("offset").collect()
    assert [tuple(row) for row in rows] == [
        ("k", 1, Decimal("12.50"), datetime(2024, 5, 6, 7, 8, 9), [("a", 2)]),
        ("k", None, None, None, None),
    ]


def test_a_bad_record_fails_the_query_by_its_place(spark: Any, broker: AnyBroker) -> None:
    with_bad_records(broker, "bad-fail")
    with pytest.raises(Exception, match=r"bad-fail-0@1: value: Expecting value.*badRecords=column"):
        reader(spark, broker, "bad-fail", **JSON).collect()


def test_a_bad_record_can_come_with_its_error(spark: Any, broker: AnyBroker) -> None:
    with_bad_records(broker, "bad-column")
    rows = reader(spark, broker, "bad-column", badRecords="column", **JSON).orderBy("offset").collect()
    assert [row["value"] and row["value"]["id"] for row in rows] == [0, None, 2, None, None]
    assert [row["error"] is None for row in rows] == [True, False, True, False, True]
    assert rows[3]["error"] == "value: id: a string is no whole number of 64 bits"


def test_bad_records_can_go_to_another_topic(spark: Any, broker: AnyBroker, checkpoint: str, tmp_path: Path) -> None:
    with_bad_records(broker, "bad-letters")
    create(broker, "letters")
    options = {"badRecords": "deadLetter", "deadLetterTopic": "letters", "startingOffsets": "earliest", **JSON}
    rows = stream(spark, broker, "bad-letters", **options).selectExpr("value.id", "offset")
    query = rows.writeStream.format("parquet").option("checkpointLocation", checkpoint)
    query.option("path", str(tmp_path / "rows")).trigger(availableNow=True).start().awaitTermination()
    good = spark.read.parquet(str(tmp_path / "rows")).orderBy("offset").collect()
    assert [tuple(row) for row in good] == [(0, 0), (2, 2), (None, 4)]

    letters = reader(spark, broker, "letters", includeHeaders="true").orderBy("offset").collect()
    assert [letter["value"] for letter in letters] == [b"oops", b'{"id": "three"}']
    assert letters[1]["key"] == b"k"
    assert {header["key"]: header["value"] for header in letters[1]["headers"]} == {
        "h": b"1",
        "__connect.errors.topic": b"bad-letters",
        "__connect.errors.partition": b"0",
        "__connect.errors.offset": b"3",
        "__connect.errors.exception.message": b"value: id: a string is no whole number of 64 bits",
    }
