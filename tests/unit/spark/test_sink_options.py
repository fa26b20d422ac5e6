"""Options and columns of the sink: what is taken, and what is refused before anything is written."""

import pytest
from pyspark.sql.types import ArrayType, BinaryType, DataType, MapType, StringType, StructType

from ottla.spark.options import OptionError
from ottla.spark.sink_columns import check_columns
from ottla.spark.sink_options import BATCH_BYTES_DEFAULT, Guarantee, SinkOptions, refuse_in_batch
from ottla.wire.compression import Codec

SERVERS = {"kafka.bootstrap.servers": "broker:9092"}
HEADERS = ArrayType(StructType().add("key", "string").add("value", "binary"))


def schema(columns: dict[str, str | DataType]) -> StructType:
    found = StructType()
    for name, kind in columns.items():
        found.add(name, kind)
    return found


def test_the_official_connectors_options_are_taken() -> None:
    options = SinkOptions.parse(
        {
            **SERVERS,
            "topic": "orders",
            "checkpointLocation": "/tmp/x",
            "kafka.compression.type": "zstd",
            "kafka.acks": "all",
            "kafka.linger.ms": "5",
            "kafka.delivery.timeout.ms": "9000",
        }
    )
    assert (options.topic, options.codec, options.delivery_timeout_ms) == ("orders", Codec.ZSTD, 9000)
    assert options.guarantee is Guarantee.AT_LEAST_ONCE


def test_a_larger_request_does_not_make_larger_batches() -> None:
    """A broker takes 1 MB by default, whatever Java's producer may send at once."""
    sizes = [
        SinkOptions.parse({**SERVERS, "kafka.max.request.size": size}).batch_bytes_max for size in ("5000", "9000000")
    ]
    assert sizes == [5000, BATCH_BYTES_DEFAULT]


@pytest.mark.parametrize("value", ["exactlyOnce", "exactly-once", "EXACTLYONCE"])
def test_the_guarantee_is_read_leniently(value: str) -> None:
    assert SinkOptions.parse({**SERVERS, "guarantee": value}).guarantee is Guarantee.EXACTLY_ONCE


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"topic": "a"}, r"kafka.bootstrap.servers is missing"),
        ({**SERVERS, "topci": "a"}, "unknown options: topci"),
        ({**SERVERS, "kafka.acks": "1"}, "kafka.acks=1: only all or -1, or what is acknowledged could be lost"),
        ({**SERVERS, "kafka.enable.idempotence": "false"}, "its rows twice"),
        ({**SERVERS, "kafka.security.protocol": "SASL_SSL"}, "kafka.sasl.mechanism is missing"),
        ({**SERVERS, "kafka.compression.type": "brotli"}, "one of none, gzip, snappy, lz4, zstd"),
        ({**SERVERS, "guarantee": "twice"}, "one of atLeastOnce, exactlyOnce"),
        ({**SERVERS, "kafka.delivery.timeout.ms": "soon"}, "a positive whole number"),
    ],
)
def test_a_wrong_option_is_refused_with_the_reason(options: dict[str, str], reason: str) -> None:
    with pytest.raises(OptionError, match=reason):
        SinkOptions.parse(options)


def test_a_batch_query_cannot_overwrite_a_topic_nor_be_exactly_once() -> None:
    options = SinkOptions.parse(SERVERS)
    refuse_in_batch(options, overwrite=False)
    with pytest.raises(OptionError, match="cannot be overwritten"):
        refuse_in_batch(options, overwrite=True)
    with pytest.raises(OptionError, match="needs a streaming query"):
        refuse_in_batch(SinkOptions.parse({**SERVERS, "guarantee": "exactlyOnce"}), overwrite=False)


@pytest.mark.parametrize(
    ("columns", "topic", "reason"),
    [
        ({"key": "string"}, "t", "a column value is needed"),
        ({"value": "string"}, "", "where to"),
        ({"value": "long"}, "t", "value is bigint: string or binary is needed"),
        ({"value": "string", "partition": "long"}, "t", "partition is bigint: int is needed"),
        ({"value": "string", "headers": MapType(StringType(), BinaryType())}, "t", "headers is map"),
    ],
)
def test_a_missing_or_wrong_column_is_refused_with_the_reason(
    columns: dict[str, str | DataType], topic: str, reason: str
) -> None:
    with pytest.raises(OptionError, match=reason):
        check_columns(schema(columns), topic)


def test_what_a_source_gives_can_be_written_as_it_is() -> None:
    columns: dict[str, str | DataType] = {"key": "binary", "value": "binary", "topic": "string", "partition": "integer"}
    columns |= {"offset": "long", "timestamp": "timestamp", "timestampType": "integer", "headers": HEADERS}
    check_columns(schema(columns), "")
