"""What the sink encodes is what every reader of record batches reads."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.spark.record_columns import HEADERS_TYPE, decode_columns
from ottla.spark.record_encoding import EncodedBatch, RecordRows, encode_batches, encode_headers
from ottla.wire.batch import set_producer
from ottla.wire.records import Codec, batches, check_crc, parse_header, records_of

ROWS = st.lists(
    st.tuples(
        st.none() | st.binary(max_size=50),
        st.none() | st.binary(max_size=300) | st.binary(min_size=5000, max_size=5000),
        st.integers(0, 2**41),
        st.none() | st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=3)), max_size=2),
    ),
    min_size=1,
    max_size=40,
)


def record_rows(rows: list[Any]) -> RecordRows:
    keys, values, timestamps, headers = (list(column) for column in zip(*rows, strict=True))
    structs = [None if one is None else [{"key": name, "value": value} for name, value in one] for one in headers]
    return RecordRows(
        keys=pa.array(keys, pa.binary()),
        values=pa.array(values, pa.binary()),
        timestamps_ms=np.array(timestamps, np.int64),
        headers=encode_headers(pa.array(structs, HEADERS_TYPE)),
    )


def stamped(batch: EncodedBatch, sequence: int = 0) -> bytearray | memoryview:
    set_producer(batch.data, producer_id=7, producer_epoch=1, base_sequence=sequence, is_transactional=False)
    return batch.data


@settings(max_examples=80, deadline=None)
@given(ROWS, st.sampled_from(list(Codec)), st.integers(100, 20_000))
def test_rows_come_back_in_order_and_batches_stay_small(rows: list[Any], codec: Codec, batch_bytes_max: int) -> None:
    read = []
    for batch in encode_batches(record_rows(rows), batch_bytes_max=batch_bytes_max, codec=codec):
        data = stamped(batch)
        check_crc(data)
        records = list(records_of(data))
        assert [record.offset for record in records] == list(range(batch.record_count))
        assert parse_header(data).max_timestamp == max(record.timestamp for record in records)
        assert len(data) <= batch_bytes_max or batch.record_count == 1 or codec is not Codec.NONE
        read += [(record.key, record.value, record.timestamp, list(record.headers)) for record in records]
    assert read == [(key, value, timestamp, list(headers or [])) for key, value, timestamp, headers in rows]


def test_rows_without_a_column_of_keys_have_no_keys() -> None:
    rows = RecordRows(keys=None, values=pa.array([b"a", None, b"c"]), timestamps_ms=np.array([5, 4, 6]), headers=None)
    [batch] = encode_batches(rows.take(np.array([2, 0])), batch_bytes_max=1000)
    assert [(one.key, one.value, one.timestamp) for one in records_of(stamped(batch))] == [
        (None, b"c", 6),
        (None, b"a", 5),
    ]


def test_the_source_reads_what_the_sink_wrote() -> None:
    values = pa.array([b"v" * (number % 300) for number in range(5000)])
    rows = RecordRows(keys=values, values=values, timestamps_ms=np.arange(5000), headers=None)
    written = memoryview(b"".join(stamped(one) for one in encode_batches(rows, batch_bytes_max=50_000)))
    columns = decode_columns(written, list(batches(written)))
    assert columns.values.equals(values) and columns.keys.equals(values)
    assert columns.timestamps_ms.tolist() == list(range(5000))


def test_a_header_needs_a_key() -> None:
    with pytest.raises(ValueError, match="header without a key"):
        encode_headers(pa.array([[{"key": None, "value": b"x"}]], HEADERS_TYPE))
