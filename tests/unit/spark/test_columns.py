"""The schema of a source: what a query gets, what it may ask for, and what it is told otherwise."""

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DecimalType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
    VariantType,
)

from ottla.spark.columns import arrow_schema, spark_schema
from ottla.spark.options import OptionError
from ottla.spark.source_options import SourceOptions


def parsed(**options: str) -> SourceOptions:
    return SourceOptions.parse({"kafka.bootstrap.servers": "b:9092", "subscribe": "t", **options})


def struct(**fields: object) -> StructType:
    return StructType([StructField(name, data_type) for name, data_type in fields.items()])  # type: ignore[arg-type]


def test_the_official_connectors_columns() -> None:
    official = (
        "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"
    )
    assert spark_schema(parsed()) == official
    assert spark_schema(parsed(includeHeaders="true")) == f"{official}, headers array<struct<key:string,value:binary>>"
    assert spark_schema(parsed(columns="offset,value")) == "offset bigint, value binary"


def test_formats_give_types() -> None:
    options = parsed(columns="key,value", keyFormat="string", valueFormat="json", valueSchema="id bigint, at date")
    assert spark_schema(options) == "key string, value struct<id bigint, at date>"
    assert spark_schema(parsed(columns="value", badRecords="column")) == "value binary, error string"


def test_a_query_may_name_part_of_the_schema() -> None:
    value = struct(
        id=LongType(), lines=ArrayType(struct(price=DecimalType(9, 2))), labels=MapType(StringType(), StringType())
    )
    found = arrow_schema(parsed(valueFormat="json"), struct(offset=LongType(), value=value, timestamp=TimestampType()))
    assert found == pa.schema(
        [
            ("offset", pa.int64()),
            (
                "value",
                pa.struct(
                    [
                        ("id", pa.int64()),
                        ("lines", pa.list_(pa.struct([("price", pa.decimal128(9, 2))]))),
                        ("labels", pa.map_(pa.string(), pa.string())),
                    ]
                ),
            ),
            ("timestamp", pa.timestamp("us", "UTC")),
        ]
    )


@pytest.mark.parametrize(
    ("options", "schema", "reason"),
    [
        ({}, struct(colour=StringType()), "there is no column colour"),
        ({}, struct(error=StringType()), "there is no column error"),
        ({}, struct(offset=IntegerType()), "offset is bigint, not int"),
        ({"valueFormat": "string"}, struct(value=BinaryType()), "value is string, not binary"),
        ({"valueFormat": "json"}, struct(value=struct(it=VariantType())), "type variant"),
        ({"valueFormat": "json"}, struct(value=StructType([StructField("id", LongType(), False)])), "id is NOT NULL"),
    ],
)
def test_what_cannot_be_read_is_told(options: dict[str, str], schema: StructType, reason: str) -> None:
    with pytest.raises(OptionError, match=reason):
        arrow_schema(parsed(**options), schema)


def test_json_without_a_schema_is_told_how_to_name_one() -> None:
    with pytest.raises(OptionError, match="valueSchema"):
        spark_schema(parsed(valueFormat="json"))
