"""Record batches: layout, round trips, in-place changes, control records, and agreement with other implementations."""

import struct

import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AiokafkaBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AiokafkaBuilder
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch
from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder

from ottla.base.errors import InvariantViolation, ProtocolError
from ottla.wire.records import (
    HEADER_BYTES,
    BatchBuilder,
    Codec,
    ControlType,
    Record,
    RecordShape,
    TimestampType,
    batches,
    check_crc,
    compute_crc,
    control_batch,
    control_type_of,
    end_transaction_marker,
    first_at_or_after,
    is_crc_valid,
    keyless_records,
    latest_record,
    parse_header,
    plain_batch,
    recompress,
    records_of,
    sequence_after,
    set_crc,
    set_log_append_time,
    set_offset_and_epoch,
    shapes_of,
)

every_codec = pytest.mark.parametrize("codec", list(Codec))

RECORDS = [
    Record(0, 1_700_000_000_000, b"key", b"value", []),
    Record(1, 1_700_000_000_005, None, b"keyless", [("trace", b"\x00\xff"), ("empty", b"")]),
    Record(2, 1_699_999_999_000, b"tombstone", None, [("none", None), ("ключ", b"utf-8")]),
    Record(3, 1_700_000_000_005, b"", b"", []),
    Record(4, 1_700_000_000_001, b"k" * 300, b"v" * 70_000, [("h" * 200, b"w" * 2_000)]),
]

optional_bytes = st.none() | st.binary(max_size=80)
some_headers = st.lists(st.tuples(st.text(max_size=10), optional_bytes), max_size=4)
some_records = st.lists(
    st.tuples(st.integers(0, 2**45), optional_bytes, optional_bytes, some_headers), min_size=1, max_size=30
)


def built(builder: BatchBuilder, records: list[Record]) -> bytearray:
    for record in records:
        builder.append(record.timestamp, record.key, record.value, record.headers, offset=record.offset)
    return builder.build()


class TestLayout:
    def test_the_header_is_61_bytes_in_kafkas_order(self) -> None:
        builder = BatchBuilder(
            codec=Codec.NONE,
            base_offset=42,
            leader_epoch=7,
            producer_id=9_000_000_001,
            producer_epoch=3,
            base_sequence=11,
            transactional=True,
        )
        builder.append(1_000, b"k", b"v")
        builder.append(900, b"k", b"v")
        batch = builder.build()
        fields = struct.unpack(">qiibIhiqqqhii", batch[:HEADER_BYTES])
        crc = compute_crc(batch, 0, len(batch))
        assert fields == (42, len(batch) - 12, 7, 2, crc, 0x10, 1, 1_000, 1_000, 9_000_000_001, 3, 11, 2)
        assert parse_header(batch) == fields

    def test_a_record_is_varints_and_bytes(self) -> None:
        builder = BatchBuilder()
        builder.append(1_000, b"k", None, [("h", b"x")])
        assert bytes(builder.build()[HEADER_BYTES:]) == bytes(
            [2 * 11, 0, 0, 0, 2, ord("k"), 1, 2, 2, ord("h"), 2, ord("x")]
        )

    def test_flags_of_the_attributes(self) -> None:
        builder = BatchBuilder(codec=Codec.LZ4, control=True, log_append_time=5_000, delete_horizon_ms=8_000)
        builder.append(1_000, b"k", b"v")
        header = parse_header(builder.build())
        assert header.codec is Codec.LZ4
        assert (header.is_control, header.is_transactional, header.has_delete_horizon) == (True, False, True)
        assert header.timestamp_type is TimestampType.LOG_APPEND_TIME
        assert (header.base_timestamp, header.max_timestamp) == (8_000, 5_000)

    def test_an_unknown_codec_is_a_protocol_error(self) -> None:
        header = parse_header(built(BatchBuilder(), RECORDS))
        with pytest.raises(ProtocolError, match="codec 5"):
            _ = header._replace(attributes=5).codec

    def test_derived_offsets_and_sequences(self) -> None:
        header = parse_header(built(BatchBuilder(base_sequence=2**31 - 2, producer_id=1), RECORDS))
        assert (header.last_offset, header.next_offset, header.last_sequence) == (4, 5, 2)
        assert header.has_producer_id
        assert header._replace(base_sequence=-1).last_sequence == -1
        assert sequence_after(2**31 - 1, 1) == 0

    def test_an_empty_batch_is_not_built(self) -> None:
        with pytest.raises(InvariantViolation):
            BatchBuilder().build()

    def test_offsets_may_leave_gaps_but_not_go_back(self) -> None:
        builder = BatchBuilder(base_offset=10)
        assert [builder.append(1, b"a", b"", offset=12), builder.append(1, b"b", b"")] == [12, 13]
        with pytest.raises(InvariantViolation):
            builder.append(1, b"c", b"", offset=13)
        batch = builder.build()
        assert [record.offset for record in records_of(batch)] == [12, 13]
        assert (parse_header(batch).last_offset_delta, parse_header(batch).record_count) == (3, 2)


plain_records = st.tuples(st.binary(max_size=2000), st.none() | st.binary(max_size=2000))


@given(records=st.lists(plain_records, min_size=1, max_size=5), timestamp=st.integers(0, 2**45))
def test_a_plain_batch_is_what_the_builder_builds(records: list[tuple[bytes, bytes | None]], timestamp: int) -> None:
    builder = BatchBuilder()
    for key, value in records:
        builder.append(timestamp, key, value)
    assert plain_batch(records, timestamp) == builder.build()


class TestReading:
    @every_codec
    def test_what_was_built_is_read(self, codec: Codec) -> None:
        batch = built(BatchBuilder(codec=codec), RECORDS)
        check_crc(batch)
        assert list(records_of(batch)) == RECORDS

    @given(codec=st.sampled_from(Codec), base_offset=st.integers(0, 2**62), rows=some_records)
    def test_any_records_come_back(
        self, codec: Codec, base_offset: int, rows: list[tuple[int, bytes, bytes, list]]
    ) -> None:  # type: ignore[type-arg]
        records = [Record(base_offset + delta, *row) for delta, row in enumerate(rows)]
        batch = built(BatchBuilder(codec=codec, base_offset=base_offset), records)
        assert list(records_of(memoryview(batch))) == records
        assert parse_header(batch).max_timestamp == max(record.timestamp for record in records)

    @given(some_records)
    def test_shapes_agree_with_records(self, rows: list[tuple[int, bytes, bytes, list]]) -> None:  # type: ignore[type-arg]
        records = [Record(offset, *row) for offset, row in enumerate(rows)]
        assert list(shapes_of(built(BatchBuilder(), records))) == [
            RecordShape(
                record.offset,
                record.timestamp,
                -1 if record.key is None else len(record.key),
                -1 if record.value is None else len(record.value),
            )
            for record in records
        ]

    def test_a_delete_horizon_does_not_change_the_records(self) -> None:
        assert list(records_of(built(BatchBuilder(delete_horizon_ms=1_800_000_000_000), RECORDS))) == RECORDS

    def test_log_append_time_is_the_time_of_every_record(self) -> None:
        assert {record.timestamp for record in records_of(built(BatchBuilder(log_append_time=77), RECORDS))} == {77}

    def test_a_header_key_that_is_not_utf8_is_replaced(self) -> None:
        builder = BatchBuilder()
        builder.append(1, b"k", b"v", [("hh", b"x")])
        batch = builder.build()
        batch[batch.index(b"hh")] = 0xFF
        assert next(records_of(batch)).headers == [("�h", b"x")]

    def test_decompression_is_bounded(self) -> None:
        batch = built(BatchBuilder(codec=Codec.ZSTD), [Record(0, 1, b"k", bytes(1_000_000), [])])
        with pytest.raises(ProtocolError, match="exceed"):
            list(records_of(batch, max_bytes=100_000))

    def test_searches(self) -> None:
        batch = built(BatchBuilder(), RECORDS)
        assert keyless_records(batch) == [number for number, record in enumerate(RECORDS) if record.key is None]
        assert not keyless_records(built(BatchBuilder(), [RECORDS[0], RECORDS[2]]))
        found = first_at_or_after(batch, 1_700_000_000_001)
        assert found is not None
        assert (found.offset, found.timestamp) == (1, 1_700_000_000_005)
        assert first_at_or_after(batch, 1_700_000_000_006) is None
        latest = latest_record(batch)
        assert latest is not None
        assert latest.offset == 1


class TestHostileHeaders:
    def changed(self, **fields: int) -> bytearray:
        batch = built(BatchBuilder(), RECORDS)
        header = parse_header(batch)._replace(**fields)
        batch[:HEADER_BYTES] = struct.pack(">qiibIhiqqqhii", *header)
        return batch

    @pytest.mark.parametrize("count", [-1, 0, 4, 6, 2**31 - 1])
    def test_a_count_that_lies(self, count: int) -> None:
        with pytest.raises(ProtocolError):
            list(records_of(self.changed(record_count=count)))

    @pytest.mark.parametrize("delta", [-1, 0, 3])
    def test_a_last_offset_delta_below_a_record(self, delta: int) -> None:
        with pytest.raises(ProtocolError):
            list(records_of(self.changed(last_offset_delta=delta)))

    @pytest.mark.parametrize("fields", [{"magic": 1}, {"batch_length": 60}, {"base_timestamp": 2**63 - 1}])
    def test_other_lies(self, fields: dict[str, int]) -> None:
        with pytest.raises(ProtocolError):
            list(records_of(self.changed(**fields)))

    def test_a_header_cut_short(self) -> None:
        with pytest.raises(ProtocolError, match="too few"):
            parse_header(bytes(60))
        assert not is_crc_valid(bytes(60))


class TestWalkingBatches:
    def test_batches_one_after_another(self) -> None:
        one, two = built(BatchBuilder(), RECORDS[:1]), built(BatchBuilder(base_offset=1, codec=Codec.GZIP), RECORDS[1:])
        walked = list(batches(memoryview(one + two)))
        assert [(batch.position, batch.view.tobytes()) for batch in walked] == [(0, bytes(one)), (len(one), bytes(two))]
        assert [batch.header.base_offset for batch in walked] == [0, 1]
        assert [batch.position for batch in batches(memoryview(one + two), len(one))] == [len(one)]

    def test_a_cut_last_batch_ends_the_walk_or_is_an_error(self) -> None:
        one = built(BatchBuilder(), RECORDS)
        for cut in range(1, len(one), 1 if len(one) < 200 else 97):
            view = memoryview(one + one[:cut])
            assert len(list(batches(view, stop_at_partial=True))) == 1
            with pytest.raises(ProtocolError, match="does not end"):
                list(batches(view))

    @pytest.mark.parametrize("length", [-(2**31), -1, 0, 48])
    @pytest.mark.parametrize("stop_at_partial", [False, True])
    def test_a_length_that_lies_is_an_error(self, length: int, stop_at_partial: bool) -> None:
        batch = built(BatchBuilder(), RECORDS)
        struct.pack_into(">i", batch, 8, length)
        with pytest.raises(ProtocolError, match="batch length"):
            list(batches(memoryview(batch), stop_at_partial=stop_at_partial))

    def test_an_old_format_is_an_error(self) -> None:
        batch = built(BatchBuilder(), RECORDS)
        batch[16] = 1
        with pytest.raises(ProtocolError, match="format 1"):
            list(batches(memoryview(batch)))

    def test_an_empty_buffer_has_no_batches(self) -> None:
        assert list(batches(memoryview(b""))) == []


class TestInPlace:
    def test_offset_and_epoch_leave_the_checksum_valid(self) -> None:
        batch = built(BatchBuilder(), RECORDS)
        set_offset_and_epoch(memoryview(batch), 1_000, 9)
        check_crc(batch)
        header = parse_header(batch)
        assert (header.base_offset, header.partition_leader_epoch) == (1_000, 9)
        assert [record.offset for record in records_of(batch)] == [1_000, 1_001, 1_002, 1_003, 1_004]

    @every_codec
    def test_log_append_time_gets_a_new_checksum(self, codec: Codec) -> None:
        batch = built(BatchBuilder(codec=codec), RECORDS)
        set_log_append_time(memoryview(batch), 1_800_000_000_000)
        check_crc(batch)
        header = parse_header(batch)
        assert (header.timestamp_type, header.codec) == (TimestampType.LOG_APPEND_TIME, codec)
        assert {record.timestamp for record in records_of(batch)} == {1_800_000_000_000}

    def test_a_changed_byte_breaks_the_checksum(self) -> None:
        batch = built(BatchBuilder(), RECORDS)
        batch[-1] ^= 1
        with pytest.raises(ProtocolError, match="checksum"):
            check_crc(batch)
        set_crc(batch)
        check_crc(batch)

    @pytest.mark.parametrize("source", list(Codec))
    @pytest.mark.parametrize("target", list(Codec))
    def test_recompressing_keeps_all_but_the_codec(self, source: Codec, target: Codec) -> None:
        builder = BatchBuilder(
            codec=source, base_offset=5, leader_epoch=2, producer_id=8, producer_epoch=1, base_sequence=3
        )
        records = [record._replace(offset=record.offset + 5) for record in RECORDS]
        batch = built(builder, records)
        again = recompress(memoryview(batch), target)
        check_crc(again)
        assert list(records_of(again)) == records
        same = {"batch_length": 0, "crc": 0, "attributes": 0}
        assert parse_header(again)._replace(**same) == parse_header(batch)._replace(**same)
        assert parse_header(again).codec is target


class TestControlRecords:
    def test_a_marker_is_a_transactional_control_batch(self) -> None:
        batch = end_transaction_marker(
            ControlType.COMMIT, coordinator_epoch=6, producer_id=77, producer_epoch=2, timestamp=1_000
        )
        check_crc(batch)
        header = parse_header(batch)
        assert (header.is_control, header.is_transactional, header.base_sequence) == (True, True, -1)
        assert (header.producer_id, header.producer_epoch) == (77, 2)
        (record,) = records_of(batch)
        assert record.key == bytes([0, 0, 0, 1])
        assert record.value == bytes([0, 0, 0, 0, 0, 6])
        assert control_type_of(record.key) is ControlType.COMMIT

    @pytest.mark.parametrize("control_type", list(ControlType))
    def test_every_type_keeps_its_value(self, control_type: ControlType) -> None:
        (record,) = records_of(control_batch(control_type, b"message", timestamp=5, base_offset=9, leader_epoch=3))
        assert (control_type_of(record.key), record.value, record.offset) == (control_type, b"message", 9)

    def test_a_type_of_the_future_is_none(self) -> None:
        assert control_type_of(bytes([0, 1, 0, 99])) is None

    @pytest.mark.parametrize("key", [None, b"", b"\0\0\0", b"\xff\xff\0\0"])
    def test_a_key_that_is_no_control_key(self, key: bytes | None) -> None:
        with pytest.raises(ProtocolError):
            control_type_of(key)


class TestOtherImplementations:
    """kafka-python and aiokafka build what we read, and read what we build."""

    @every_codec
    @pytest.mark.parametrize("builder_class", [KafkaPythonBuilder, AiokafkaBuilder])
    def test_we_read_theirs(self, codec: Codec, builder_class: type) -> None:
        theirs = builder_class(
            magic=2,
            compression_type=int(codec),
            is_transactional=1,
            producer_id=123,
            producer_epoch=4,
            base_sequence=5,
            batch_size=10_000_000,
        )
        for record in RECORDS:
            theirs.append(record.offset, record.timestamp, record.key, record.value, record.headers)
        batch = bytes(theirs.build())
        check_crc(batch)
        header = parse_header(batch)
        assert (header.codec, header.is_transactional, header.producer_id) == (codec, True, 123)
        assert (header.producer_epoch, header.base_sequence, header.record_count) == (4, 5, len(RECORDS))
        assert list(records_of(batch)) == RECORDS

    @every_codec
    @pytest.mark.parametrize("batch_class", [KafkaPythonBatch, AiokafkaBatch])
    def test_they_read_ours(self, codec: Codec, batch_class: type) -> None:
        batch = bytes(built(BatchBuilder(codec=codec), RECORDS))
        theirs = batch_class(batch)
        assert theirs.validate_crc()
        read = [Record(row.offset, row.timestamp, row.key, row.value, list(row.headers)) for row in theirs]
        assert read == RECORDS
