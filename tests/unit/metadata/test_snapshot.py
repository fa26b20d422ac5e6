"""Snapshot files: written, read back, and refused when they are not whole."""

from random import Random

import pytest

from ottla.base.errors import ProtocolError
from ottla.metadata.snapshot import SnapshotFiles, SnapshotId, decode_snapshot, encode_snapshot, snapshot_id_of
from ottla.wire.records import ControlType, batches, is_crc_valid
from sim.disk import SimulatedDisk
from tests.unit.metadata.cluster import NOW_MS, image_of, replay, topic_records
from tests.unit.metadata.test_image_records import contents


@pytest.fixture
def image():
    return image_of(*topic_records("orders", partitions=1500))


@pytest.fixture
def files():
    disk = SimulatedDisk(Random(1))
    disk.make_directory("/m")
    return SnapshotFiles(disk, "/m")


def test_names_are_kafkas():
    assert SnapshotId(123, 4).file_name == "00000000000000000123-0000000004.checkpoint"


def test_an_image_comes_back_with_its_position(image):
    found = decode_snapshot(encode_snapshot(image, NOW_MS + 5), snapshot_id_of(image)).image
    assert contents(found) == contents(image)
    assert (found.offset, found.epoch, found.timestamp_ms) == (image.offset, image.epoch, image.timestamp_ms)
    assert found.take_delta().is_empty


def test_a_snapshot_is_a_header_records_and_a_footer_with_dense_offsets(image):
    found = list(batches(memoryview(encode_snapshot(image, NOW_MS))))
    assert [batch.header.is_control for batch in found] == [True, False, False, True]
    next_offset = 0
    for batch in found:
        assert is_crc_valid(batch.view)
        assert batch.header.base_offset == next_offset
        assert batch.header.partition_leader_epoch == image.epoch
        next_offset = batch.header.next_offset


def test_control_records_of_the_quorum_come_back_in_their_order(image):
    controls = [(ControlType.KRAFT_VERSION, b"one"), (ControlType.KRAFT_VOTERS, b"three")]
    found = decode_snapshot(encode_snapshot(image, NOW_MS, controls), snapshot_id_of(image))
    assert found.controls == controls
    assert contents(found.image) == contents(image)


def test_a_file_cut_anywhere_between_batches_is_no_snapshot(image):
    data = encode_snapshot(image, NOW_MS)
    for batch in batches(memoryview(data)):
        with pytest.raises(ProtocolError):
            decode_snapshot(data[: batch.position], snapshot_id_of(image))
    with pytest.raises(ProtocolError):
        decode_snapshot(data[:-1], snapshot_id_of(image))


def test_a_flipped_bit_is_noticed(image):
    data = bytearray(encode_snapshot(image, NOW_MS))
    data[len(data) // 2] ^= 1
    with pytest.raises(ProtocolError):
        decode_snapshot(bytes(data), snapshot_id_of(image))


def test_the_newest_valid_one_is_loaded(files, image):
    older = files.write(image, NOW_MS)
    replay(image, *topic_records("later", number=2))
    newer = files.write(image, NOW_MS)
    assert files.ids() == [newer, older]
    assert files.load_newest().id == newer
    path = f"/m/{newer.file_name}"
    files._disk.replace(path, files._disk.read(path)[:-9])
    found = files.load_newest()
    assert found.id == older
    assert "later" not in found.image.topics


def test_an_empty_directory_has_none(files):
    assert files.load_newest() is None
    assert files.remove_old() == 0


def test_two_are_kept_and_the_log_from_the_older_one_on(files, image):
    written = []
    for number in range(2, 5):
        written.append(files.write(image, NOW_MS))
        replay(image, *topic_records(f"t{number}", number=number))
    assert files.remove_old() == written[1].end_offset
    assert files.ids() == [written[2], written[1]]


def test_a_single_snapshot_lets_nothing_of_the_log_go(files, image):
    files.write(image, NOW_MS)
    assert files.remove_old() == 0


def test_other_files_are_left_alone(files):
    for name in ("quorum-state", "00000000000000000000.log", "1-2.checkpoint", "x.checkpoint"):
        files._disk.replace(f"/m/{name}", b"x")
    assert files.ids() == []


# ---- from node to node ----


def pieces_of(files, snapshot_id, size=100):
    position = 0
    while True:
        total, data = files.read_piece(snapshot_id, position, size)
        yield position, data
        position += len(data)
        if position == total:
            return


def test_a_snapshot_moves_in_pieces(files, image):
    written = files.write(image, NOW_MS)
    other = SnapshotFiles(files._disk, "/other")
    files._disk.make_directory("/other")
    for position, data in pieces_of(files, written, 1000):
        other.write_piece(written, position, data)
    assert other.ids() == []  # Not before it is whole.
    assert contents(other.complete(written).image) == contents(image)
    assert other.ids() == [written]
    assert files._disk.list("/other") == [written.file_name]


def test_a_download_begins_anew_at_its_first_piece(files, image):
    written = files.write(image, NOW_MS)
    data = files._disk.read(f"/m/{written.file_name}")
    files.write_piece(written, 0, data + b"rest of another one")
    files.write_piece(written, 0, data)
    assert files.complete(written).id == written


def test_pieces_that_are_no_snapshot_are_refused_and_gone(files, image):
    snapshot_id = SnapshotId(7, 1)
    files.write_piece(snapshot_id, 0, encode_snapshot(image, NOW_MS)[:-1])
    with pytest.raises(ProtocolError):
        files.complete(snapshot_id)
    assert files._disk.list("/m") == []


def test_what_a_crash_left_of_downloads_is_removed(files):
    files.write_piece(SnapshotId(7, 1), 0, b"half")
    files._disk.replace("/m/notes.part", b"x")
    files.remove_pieces()
    assert files._disk.list("/m") == ["notes.part"]


def test_a_snapshot_that_is_not_there_has_no_pieces(files):
    assert files.read_piece(SnapshotId(7, 1), 0, 10) is None
