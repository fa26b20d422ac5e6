"""The files beside a segment, byte for byte as Kafka lays them out."""

import struct

from fastcrc.crc32 import iscsi as crc32c

from ottla.cli.sidecar_dump import (
    dump_aborted,
    dump_checkpoint,
    dump_offset_index,
    dump_properties,
    dump_snapshot,
    dump_time_index,
)


def test_an_offset_index_adds_its_base_and_stops_at_spare_room() -> None:
    data = struct.pack(">4i", 10, 4096, 25, 9000) + bytes(24)
    dump = dump_offset_index(data, base_offset=1000)
    assert dump.rows == [(1010, 4096), (1025, 9000)]
    assert dump.remark == "2 entries, room for 3 more"
    assert dump.trouble is None


def test_an_index_that_goes_back_or_is_cut_is_trouble() -> None:
    assert dump_offset_index(struct.pack(">4i", 25, 9000, 10, 4096), 0).trouble == "entries do not grow"
    assert dump_offset_index(struct.pack(">2i", 1, 1) + b"\0\0\0", 0).trouble == "11 bytes are not a multiple of 8"


def test_a_time_index_has_timestamps_and_offsets() -> None:
    dump = dump_time_index(struct.pack(">qiqi", 1_700_000_000_000, 5, 1_700_000_000_999, 9), base_offset=100)
    assert dump.rows == [(1_700_000_000_000, 105), (1_700_000_000_999, 109)]
    assert dump.trouble is None


def snapshot(entries: bytes, count: int) -> bytes:
    body = struct.pack(">i", count) + entries
    return struct.pack(">hI", 1, crc32c(body)) + body


def test_a_producer_snapshot_is_read_and_checked() -> None:
    entries = struct.pack(">qhiqiqiq", 7, 1, 41, 99, 9, 1_700_000_000_000, 3, 90)
    entries += struct.pack(">qhiqiqiq", 8, 0, -1, -1, 0, -1, -1, -1)
    dump = dump_snapshot(snapshot(entries, 2))
    assert dump.rows == [(7, 1, 41, 90, 99, 1_700_000_000_000, 3, 90), (8, 0, -1, None, None, -1, -1, None)]
    assert dump.trouble is None
    assert dump_snapshot(snapshot(entries, 3)).trouble == "92 bytes do not hold 3 producers"
    assert dump_snapshot(snapshot(entries, 2)[:-1]).trouble == "wrong checksum"
    assert dump_snapshot(b"\0\1").trouble == "2 bytes are too few"


def test_aborted_transactions_are_listed() -> None:
    entry = struct.pack(">hqqqq", 0, 7, 10, 20, 15)
    assert dump_aborted(entry).rows == [(7, 10, 20, 15)]
    assert dump_aborted(entry + b"\0").trouble == "35 bytes are not a multiple of 34"


def test_a_checkpoint_is_version_count_and_lines() -> None:
    columns = ("topic", "partition", "offset")
    dump = dump_checkpoint(b"0\n2\norders 0 42\nmy topic 11 7\n", columns=columns)
    assert dump.rows == [("orders", "0", "42"), ("my topic", "11", "7")]
    assert dump.trouble is None
    for wrong in (b"", b"1\n0\n", b"0\n2\norders 0 42\n", b"0\n1\norders 42\n"):
        assert dump_checkpoint(wrong, columns=columns).trouble is not None


def test_properties_leave_out_comments() -> None:
    dump = dump_properties(b"#Sun Nov 15\nnode.id=1\ncluster.id=a=b\n", separator="=")
    assert dump.rows == [("node.id", "1"), ("cluster.id", "a=b")]
