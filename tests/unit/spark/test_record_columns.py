"""Arrow columns of record batches: the same as reading record by record, and nothing but a clean error for bad bytes."""

import random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.base.errors import ProtocolError
from ottla.spark.record_columns import RecordColumns, decode_columns
from ottla.wire.batch import HEADER_BYTES
from ottla.wire.records import Batch, BatchBuilder, Codec, batches, records_of, set_crc

RECORDS = st.lists(
    st.tuples(
        st.integers(0, 2**42),
        st.none() | st.binary(max_size=300),
        st.none() | st.binary(max_size=3000),
        st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=3),
    ),
    min_size=1,
    max_size=30,
)


def built(records: list, codec: Codec = Codec.NONE, **fields) -> bytearray:
    builder = BatchBuilder(codec=codec, **fields)
    for timestamp, key, value, headers in records:
        builder.append(timestamp, key, value, headers)
    return builder.build()


def found_in(*data: bytes) -> tuple[memoryview, list[Batch]]:
    received = memoryview(b"".join(data))
    return received, list(batches(received))


def rows(columns: RecordColumns) -> list[tuple]:
    assert columns.headers is not None
    headers = [[(one["key"], one["value"]) for one in row or []] for row in columns.headers.to_pylist()]
    return list(
        zip(
            columns.offsets.tolist(),
            columns.timestamps_ms.tolist(),
            columns.keys.to_pylist(),
            columns.values.to_pylist(),
            headers,
            strict=True,
        )
    )


@settings(max_examples=60, deadline=None)
@given(st.lists(RECORDS, min_size=1, max_size=4), st.sampled_from(list(Codec)))
def test_columns_are_what_reading_record_by_record_gives(all_records: list, codec: Codec) -> None:
    base = 7
    data = []
    for records in all_records:
        data.append(built(records, codec, base_offset=base))
        base += len(records) + 5
    received, found = found_in(*data)
    expected = [tuple(record) for batch in found for record in records_of(batch.view)]
    assert rows(decode_columns(received, found, with_headers=True)) == expected


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_a_batch_that_is_left_out_does_not_move_the_others(codec: Codec) -> None:
    received, found = found_in(*(built([(0, None, value, [])], codec) for value in (b"a", b"bb", b"ccc")))
    assert decode_columns(received, [found[0], found[2]]).values.to_pylist() == [b"a", b"ccc"]


def test_log_append_time_is_every_records_time() -> None:
    columns = decode_columns(*found_in(built([(5, None, b"a", []), (6, None, b"b", [])], log_append_time=99)))
    assert columns.timestamps_ms.tolist() == [99, 99]
    assert columns.timestamp_types.tolist() == [1, 1]
    assert columns.headers is None


def test_nothing_is_no_rows() -> None:
    columns = decode_columns(memoryview(b""), [])
    assert len(columns) == 0
    assert columns.values.type == pa.binary()


def test_a_wrong_checksum_is_refused() -> None:
    data = built([(0, b"k", b"v", [])])
    data[-1] ^= 1
    with pytest.raises(ProtocolError):
        decode_columns(*found_in(data))


@pytest.mark.parametrize("seed", range(300))
def test_whatever_the_bytes_only_a_protocol_error_comes_out(seed: int) -> None:
    chance = random.Random(seed)
    records = [
        (chance.randrange(2**40), b"k" * chance.randrange(5), b"v" * chance.randrange(200), []) for _ in range(5)
    ]
    data = built(records)
    for _ in range(chance.randrange(1, 4)):
        data[chance.randrange(HEADER_BYTES, len(data))] = chance.randrange(256)
    set_crc(data)
    received, found = found_in(data, built(records))
    try:
        columns = decode_columns(received, found, with_headers=True)
    except ProtocolError:
        return
    assert len(columns) == 10
    columns.values.validate(full=True)
