"""Segments as a dump shows them: whole, damaged, torn, compressed, with control and metadata records."""

from ottla.cli.dump import Dump, dump_document
from ottla.cli.segment_dump import dump_batches, dump_records
from ottla.wire import api
from ottla.wire.codec import codec_for
from ottla.wire.records import BatchBuilder, Codec, ControlType, end_transaction_marker, set_crc, set_offset_and_epoch

TIMESTAMP = 1_700_000_000_000


def batch(base_offset: int, count: int, *, codec: Codec = Codec.NONE, producer_id: int = -1) -> bytearray:
    with_producer = {"producer_id": producer_id, "producer_epoch": 2, "base_sequence": 5} if producer_id >= 0 else {}
    builder = BatchBuilder(codec=codec, base_offset=base_offset, leader_epoch=3, **with_producer)
    for number in range(count):
        builder.append(TIMESTAMP + number, b"k%d" % number, b"v", [("h", b"x"), ("null", None)])
    return builder.build()


def entries(dump: Dump) -> list[dict[str, object]]:
    found: list[dict[str, object]] = dump_document("a.log", dump)["entries"]
    return found


def test_a_batch_is_a_row_with_all_of_its_header() -> None:
    first, second = batch(0, 2), batch(2, 3, codec=Codec.LZ4, producer_id=77)
    dump = dump_batches(memoryview(first + second))
    assert dump.trouble is None
    assert dump.remark.startswith("2 batches, 5 records, offsets 0 to 4")
    assert entries(dump) == [
        {
            "position": 0,
            "offsets": "0 – 1",
            "first_offset": 0,
            "last_offset": 1,
            "records": 2,
            "size": len(first),
            "codec": "none",
            "first_timestamp": TIMESTAMP,
            "last_timestamp": TIMESTAMP + 1,
            "leader_epoch": 3,
            "producer": None,
            "producer_id": -1,
            "producer_epoch": -1,
            "first_sequence": -1,
            "kind": "data",
            "crc": True,
        },
        {
            "position": len(first),
            "offsets": "2 – 4",
            "first_offset": 2,
            "last_offset": 4,
            "records": 3,
            "size": len(second),
            "codec": "lz4",
            "first_timestamp": TIMESTAMP,
            "last_timestamp": TIMESTAMP + 2,
            "leader_epoch": 3,
            "producer": "77:2@5",
            "producer_id": 77,
            "producer_epoch": 2,
            "first_sequence": 5,
            "kind": "data",
            "crc": True,
        },
    ]


def test_a_flipped_bit_is_named_and_the_rest_is_still_shown() -> None:
    first, second = batch(0, 2), batch(2, 1)
    first[-1] ^= 1
    dump = dump_batches(memoryview(first + second))
    assert dump.trouble == "wrong checksum at position 0"
    assert [entry["crc"] for entry in entries(dump)] == [False, True]


def test_a_torn_tail_ends_the_walk_with_its_position() -> None:
    first, second = batch(0, 2), batch(2, 1)
    dump = dump_batches(memoryview(first + second[:-3]))
    assert dump.trouble is not None
    assert f"batch at {len(first)} does not end" in dump.trouble
    assert len(dump.rows) == 1


def test_rows_beyond_the_limit_are_still_checked_and_counted() -> None:
    first, second, third = batch(0, 2), batch(2, 1), batch(3, 1)
    third[-1] ^= 1
    dump = dump_batches(memoryview(first + second + third), rows_max=1)
    assert (len(dump.rows), dump.rows_left_out) == (1, 2)
    assert dump.trouble == f"wrong checksum at position {len(first) + len(second):,}"
    records = dump_records(memoryview(first + second), is_metadata=False, rows_max=1)
    assert (len(records.rows), records.rows_left_out) == (1, 2)


def test_bytes_that_are_no_batches_are_trouble_not_a_traceback() -> None:
    dump = dump_batches(memoryview(b"2026-11-15 INFO this is a log of another kind, and long enough to be read as one"))
    assert dump.trouble is not None
    assert dump.rows == []


def test_records_are_shown_with_offsets_whatever_the_codec() -> None:
    for codec in Codec:
        dump = dump_records(memoryview(batch(10, 2, codec=codec)), is_metadata=False)
        assert entries(dump) == [
            {"offset": 10, "timestamp": TIMESTAMP, "key": "k0", "value": "v", "headers": "h=x null=null"},
            {"offset": 11, "timestamp": TIMESTAMP + 1, "key": "k1", "value": "v", "headers": "h=x null=null"},
        ]


def test_records_that_cannot_be_read_do_not_hide_the_others() -> None:
    broken, whole = batch(0, 2, codec=Codec.GZIP), batch(2, 1)
    broken[70:80] = bytes(10)
    set_crc(broken)
    dump = dump_records(memoryview(broken + whole), is_metadata=False)
    values = [entry["value"] for entry in entries(dump)]
    assert str(values[0]).startswith("unreadable: ")
    assert values[-1] == "v"
    assert dump.trouble == "unreadable records at position 0"


def test_a_transaction_marker_is_told_by_name() -> None:
    marker = end_transaction_marker(
        ControlType.COMMIT, coordinator_epoch=1, producer_id=9, producer_epoch=0, timestamp=TIMESTAMP
    )
    set_offset_and_epoch(marker, 4, 0)
    assert entries(dump_batches(memoryview(marker)))[0]["kind"] == "txn control"
    assert entries(dump_records(memoryview(marker), is_metadata=False))[0]["value"] == "control: COMMIT"


def test_metadata_records_are_decoded() -> None:
    record = api.FeatureLevelRecord(name="metadata.version", feature_level=30)
    value = bytes([1, 12, 0]) + codec_for(api.FeatureLevelRecord, 0).encode(record)
    builder = BatchBuilder()
    builder.append(TIMESTAMP, None, value)
    builder.append(TIMESTAMP, None, b"\x01\x7f\x00")
    builder.append(TIMESTAMP, None, b"\x01")
    dump = dump_records(memoryview(builder.build()), is_metadata=True)
    values = [str(entry["value"]) for entry in entries(dump)]
    assert values[0] == "FeatureLevelRecord v0: name=metadata.version feature_level=30"
    assert values[1] == "unknown record type 127"
    assert values[2].startswith("unreadable: ")
