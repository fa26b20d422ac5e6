"""Appending: offsets, timestamps, duplicates, disk errors, followers, rolling."""

import errno

import pytest

from ottla.base.errors import ApiError, ErrorCode, InvariantViolation, ProtocolError
from ottla.log.appendable_log import AppendResult
from ottla.log.config import LogConfig
from ottla.log.partition_log import PartitionLog
from ottla.wire.batch import set_offset_and_epoch
from ottla.wire.records import (
    Codec,
    ControlType,
    TimestampType,
    end_transaction_marker,
    is_crc_valid,
    parse_header,
    records_of,
)
from sim.disk import Kept, SimulatedDisk
from tests.unit.log.support import DIRECTORY, NOW_MS, append, batch_of, batch_of_bytes, headers_of, new_disk, open_log


def test_offsets_and_epoch_are_set_in_place() -> None:
    log = open_log(new_disk())
    assert append(log, batch_of(3), leader_epoch=4) == AppendResult(0, 2, -1, False)
    assert append(log, batch_of(2), leader_epoch=5) == AppendResult(3, 4, -1, False)
    assert [(header.base_offset, header.partition_leader_epoch) for header in headers_of(log)] == [(0, 4), (3, 5)]
    assert log.epochs.entries() == [(4, 0), (5, 3)]
    assert log.log_end_offset == log.durable_end_offset == 5


def test_create_time_is_kept() -> None:
    log = open_log(new_disk())
    append(log, batch_of(timestamp=NOW_MS - 5000))
    piece = log.read(0, 1000)
    assert piece.file is not None
    (record,) = records_of(piece.file.pread(piece.size, piece.position))
    assert record.timestamp == NOW_MS - 5000


def test_append_time_replaces_what_the_producer_said() -> None:
    log = open_log(new_disk(), LogConfig(message_timestamp_type=TimestampType.LOG_APPEND_TIME))
    result = append(log, batch_of(2, timestamp=5))
    assert result.log_append_time_ms == NOW_MS
    piece = log.read(0, 1000)
    assert piece.file is not None
    stored = piece.file.pread(piece.size, piece.position)
    assert is_crc_valid(stored)
    assert [record.timestamp for record in records_of(stored)] == [NOW_MS, NOW_MS]
    assert parse_header(stored).timestamp_type is TimestampType.LOG_APPEND_TIME


def test_a_refused_batch_changes_nothing() -> None:
    log = open_log(new_disk())
    append(log, batch_of(producer=(7, 0, 0)))
    with pytest.raises(ApiError) as refused:
        append(log, batch_of(producer=(7, 0, 5)))
    assert refused.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.log_end_offset == 1
    assert len(headers_of(log)) == 1


def test_a_retry_is_answered_with_the_first_offsets_and_not_stored_again() -> None:
    log = open_log(new_disk())
    first = append(log, batch_of(3, producer=(7, 0, 0)))
    append(log, batch_of(2))
    again = append(log, batch_of(3, producer=(7, 0, 0)))
    assert again == AppendResult(first.base_offset, first.last_offset, -1, True)
    assert log.log_end_offset == 5


def test_five_requests_in_flight_may_all_be_retried() -> None:
    log = open_log(new_disk())
    sent = [batch_of(producer=(7, 0, sequence)) for sequence in range(5)]
    offsets = [append(log, memoryview(bytearray(batch))).base_offset for batch in sent]
    assert [append(log, batch).base_offset for batch in sent] == offsets


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_a_write_that_fails_leaves_the_log_as_it_was(error: int) -> None:
    disk = new_disk()
    log = open_log(disk)
    append(log, batch_of_bytes(300))
    disk.fail_at(0, error)  # The next call is the write: a part of it stays behind.
    with pytest.raises(OSError) as failed:
        append(log, batch_of_bytes(700, 2))
    assert failed.value.errno == error
    assert (log.log_end_offset, log.active_segment.size) == (1, 300)
    assert append(log, batch_of_bytes(200)).base_offset == 1
    assert [header.base_offset for header in headers_of(log)] == [0, 1]
    assert len(disk.read(f"{DIRECTORY}/{0:020d}.log")) == 500


class DiskThatFailsTwice(SimulatedDisk):
    """The write fails and so does the cut that should undo it."""

    failures_left = 0

    def enter(self, call: str, path: str, *facts: object, on_error: object = None) -> None:
        super().enter(call, path, *facts)
        if self.failures_left and call in ("pwrite", "truncate"):
            self.failures_left -= 1
            if callable(on_error):
                on_error()
            raise OSError(errno.EIO, "broken", path)


def test_a_tail_that_could_not_be_cut_is_cut_before_the_next_write() -> None:
    disk = DiskThatFailsTwice(new_disk().chance)
    disk.make_directory("/logs")
    log = open_log(disk)
    append(log, batch_of_bytes(300))
    disk.failures_left = 3  # The write, the cut after it, and the cut before the next write.
    for _ in range(2):
        with pytest.raises(OSError):
            append(log, batch_of_bytes(4000))
    assert append(log, batch_of_bytes(100)).base_offset == 1
    assert len(disk.read(f"{DIRECTORY}/{0:020d}.log")) == 400


def test_what_fills_the_disk_heals_when_there_is_room() -> None:
    disk = new_disk()
    log = open_log(disk)
    append(log, batch_of_bytes(300))
    disk.capacity_bytes = disk.used_bytes() + 100
    for _ in range(3):
        with pytest.raises(OSError):
            append(log, batch_of_bytes(300))
    disk.capacity_bytes = None
    assert append(log, batch_of_bytes(300)).base_offset == 1


# As a follower


def test_a_follower_stores_the_same_bytes() -> None:
    leader, follower = open_log(new_disk()), open_log(new_disk())
    for sequence in range(5):
        append(leader, batch_of(2, producer=(7, 0, sequence * 2)), leader_epoch=sequence // 2)
    piece = leader.read(0, 1 << 20)
    assert piece.file is not None
    data = piece.file.pread(piece.size, piece.position)
    assert follower.append_as_follower(memoryview(data)[:-10], now_ms=NOW_MS) == 8, (
        "a cut batch waits for the next fetch"
    )
    rest = leader.read(8, 1 << 20)
    follower.append_as_follower(memoryview(piece.file.pread(rest.size, rest.position)), now_ms=NOW_MS)
    assert headers_of(follower) == headers_of(leader)
    assert follower.epochs.entries() == leader.epochs.entries()
    assert follower.producer_state.producers[7].batches == leader.producer_state.producers[7].batches


def test_a_follower_keeps_the_gaps_of_a_compacted_leader() -> None:
    leader = open_log(new_disk(), log_start_offset=100)
    append(leader, batch_of(5))
    follower = open_log(new_disk())
    append(follower, batch_of(2))
    piece = leader.read(100, 1000)
    assert piece.file is not None
    follower.append_as_follower(memoryview(piece.file.pread(piece.size, piece.position)), now_ms=NOW_MS)
    assert follower.log_end_offset == 105
    assert follower.read(50, 1000).first_offset == 100
    assert follower.read(1, 1000).first_offset == 0


def rotten(batch: bytes) -> bytes:
    return batch[:-1] + bytes([batch[-1] ^ 1])


def test_scene_8_a_follower_refuses_a_rotten_batch_and_all_that_came_with_it() -> None:
    leader, follower = open_log(new_disk()), open_log(new_disk())
    for _ in range(2):
        append(leader, batch_of(2))
    piece = leader.read(0, 1000)
    assert piece.file is not None
    with pytest.raises(ApiError, match="rotten batch at offset 2") as refused:
        follower.append_as_follower(memoryview(rotten(piece.file.pread(piece.size, 0))), now_ms=NOW_MS)
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE
    assert follower.log_end_offset == 0
    with pytest.raises(ProtocolError):
        follower.append_as_follower(memoryview(bytes(100)), now_ms=NOW_MS)
    with pytest.raises(ApiError, match="where 4 is next"):
        leader.append_as_follower(memoryview(piece.file.pread(piece.size, 0)), now_ms=NOW_MS)


# The broker's own batches


def marker(control_type: ControlType, producer_id: int, *, epoch: int = 0) -> memoryview:
    return memoryview(
        end_transaction_marker(
            control_type, coordinator_epoch=1, producer_id=producer_id, producer_epoch=epoch, timestamp=NOW_MS
        )
    )


def test_markers_decide_transactions() -> None:
    disk = new_disk()
    log = open_log(disk)
    append(log, batch_of(producer=(1, 0, 0), transactional=True))
    append(log, batch_of(producer=(2, 0, 0), transactional=True))
    assert log.last_stable_offset(high_watermark=2) == 0
    log.append_own(marker(ControlType.ABORT, 1), leader_epoch=0, now_ms=NOW_MS)
    assert log.last_stable_offset(high_watermark=3) == 1
    log.append_own(marker(ControlType.COMMIT, 2), leader_epoch=0, now_ms=NOW_MS)
    assert log.last_stable_offset(high_watermark=4) == 4
    ((producer_id, first_offset, last_offset, last_stable_offset),) = log.active_segment.aborted_transactions()
    assert (producer_id, first_offset, last_offset, last_stable_offset) == (1, 0, 2, 1)
    log.close()
    for is_clean in (True, False):
        again = open_log(disk, clean_shutdown=is_clean)
        again.active_segment.indexes()
        assert again.active_segment.aborted_transactions() == log.active_segment.aborted_transactions()
        assert again.last_stable_offset(high_watermark=4) == 4


@pytest.mark.parametrize("is_rolled", [False, True])
def test_what_was_aborted_is_known_though_power_fails_right_after_a_clean_stop(is_rolled: bool) -> None:
    disk = new_disk()
    log = open_log(disk)
    append(log, batch_of())
    log.flush()  # The directory's names are synced from here on.
    append(log, batch_of(producer=(1, 0, 0), transactional=True))
    log.append_own(marker(ControlType.ABORT, 1), leader_epoch=0, now_ms=NOW_MS)
    if is_rolled:
        log.roll()
    log.close()
    disk.crash(Kept.NOTHING)
    again = open_log(disk, clean_shutdown=True, recovery_point=3)
    [aborted] = next(iter(again.segments)).aborted_transactions()
    assert aborted.producer_id == 1


def test_a_marker_of_an_old_epoch_is_refused() -> None:
    log = open_log(new_disk())
    append(log, batch_of(producer=(1, 3, 0), transactional=True))
    with pytest.raises(ApiError) as refused:
        log.append_own(marker(ControlType.ABORT, 1, epoch=2), leader_epoch=0, now_ms=NOW_MS)
    assert refused.value.code is ErrorCode.INVALID_PRODUCER_EPOCH


# Roll


def rolls(log: PartitionLog, incoming_bytes: int = 100, now_ms: int = NOW_MS) -> bool:
    return log.should_roll(incoming_bytes, now_ms)


def test_a_segment_is_full_by_size_time_or_index() -> None:
    log = open_log(
        new_disk(), LogConfig(segment_bytes=1000, segment_ms=5000, segment_index_bytes=16, index_interval_bytes=1)
    )
    assert not rolls(log, 5000), "an empty segment takes anything"
    append(log, batch_of_bytes(600))
    assert not rolls(log, 400)
    assert rolls(log, 401)
    assert not rolls(log, now_ms=NOW_MS + 5000)
    assert rolls(log, now_ms=NOW_MS + 5001)
    for _ in range(2):
        append(log, batch_of_bytes(100))
    assert rolls(log, 1), "two index entries are all that fit"


def test_a_full_index_rolls_though_it_was_made_with_a_smaller_interval() -> None:
    disk = new_disk()
    log = open_log(disk, LogConfig(index_interval_bytes=100, segment_index_bytes=8000))
    while log.segments.active.index_entry_count < 999:
        append(log, batch_of(1))
    log.close()
    log = open_log(disk, LogConfig(index_interval_bytes=1000, segment_index_bytes=8000), clean_shutdown=True)
    while log.segments.active.index_entry_count < 1000:
        append(log, batch_of(1))
    assert log.should_roll(100, NOW_MS)


def test_nothing_is_appended_between_the_halves_of_a_roll() -> None:
    log = open_log(new_disk())
    append(log, batch_of())
    segment = log.prepare_roll()
    append(log, batch_of())
    with pytest.raises(InvariantViolation, match="no append during a roll"):
        log.complete_roll(segment)


def test_an_empty_segment_is_not_rolled() -> None:
    log = open_log(new_disk())
    append(log, batch_of())
    assert log.roll() is log.roll()
    assert [segment.base_offset for segment in log.segments] == [0, 1]


def test_a_roll_that_fails_leaves_no_file_and_the_log_goes_on() -> None:
    disk = new_disk()
    log = open_log(disk)
    append(log, batch_of())
    names = disk.list(DIRECTORY)
    for call in range(20):
        disk.fail_at(call)
        try:
            log.roll()
        except OSError:
            assert set(disk.list(DIRECTORY)) - set(names) <= {f"{1:020d}.snapshot"}
        else:
            break
    disk.fail_at(None)
    assert len(log.segments) == 2
    assert append(log, batch_of()).base_offset == 1


def test_recompression_is_asked_for_only_by_another_codec() -> None:
    stored_as_lz4 = open_log(new_disk(), LogConfig(compression_type=Codec.LZ4))
    as_produced = open_log(new_disk())
    gzip, lz4 = parse_header(batch_of(codec=Codec.GZIP)), parse_header(batch_of(codec=Codec.LZ4))
    assert stored_as_lz4.needs_recompression(gzip)
    assert not stored_as_lz4.needs_recompression(lz4)
    assert not as_produced.needs_recompression(gzip)


def test_a_follower_forgets_the_epoch_in_which_it_wrote_nothing_and_refuses_older_ones() -> None:
    leader, follower = open_log(new_disk()), open_log(new_disk())
    for epoch in (2, 3):
        append(leader, batch_of(2), leader_epoch=epoch)
    follower.epochs.assign(7, 0)
    piece = leader.read(0, 1 << 20)
    assert piece.file is not None
    data = piece.file.pread(piece.size, piece.position)
    follower.append_as_follower(memoryview(data), now_ms=NOW_MS)
    assert follower.epochs.entries() == leader.epochs.entries() == [(2, 0), (3, 2)]
    old = batch_of(1)
    set_offset_and_epoch(old, 4, 2)
    with pytest.raises(ApiError, match="behind epoch 3"):
        follower.append_as_follower(old, now_ms=NOW_MS)
    assert follower.log_end_offset == 4
