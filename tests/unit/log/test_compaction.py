"""Compaction of a log: what stays, what goes and when, and that everyone can go on."""

import pytest

from ottla.log.config import CleanupPolicy
from ottla.log.partition_log import PartitionLog
from ottla.wire.records import Codec
from sim.disk import SimulatedDisk
from sim.log_model import check_indexes
from sim.log_scenario import with_config
from tests.unit.log.compaction_support import (
    COMPACTED,
    DELETE_RETENTION_MS,
    History,
    batches_of,
    compact,
    data_of,
    markers_of,
    seal,
)
from tests.unit.log.support import NOW_MS, append, batch_of, new_disk, open_log


def history_on(disk: SimulatedDisk, **config: object) -> History:
    return History(open_log(disk, with_config(COMPACTED, **config)))


def reopened(history: History, disk: SimulatedDisk) -> PartitionLog:
    """After a clean stop."""
    history.log.close()
    return open_log(disk, history.log.config, clean_shutdown=True)


def kept(log: PartitionLog) -> list[tuple[int, bytes | None]]:
    return [(record.offset, record.value) for record in data_of(log)]


def test_of_every_key_the_newest_record_stays_with_its_offset_and_timestamp() -> None:
    history = history_on(new_disk())
    history.write((b"a", b"1"), (b"b", b"1"), (b"a", b"2"))
    history.write((b"c", b"1"), (b"b", b"2"))
    seal(history.log)
    done = compact(history.log)
    assert done is not None and done.cleaned_end_offset == 5
    assert kept(history.log) == [(2, b"2"), (3, b"1"), (4, b"2")]
    assert data_of(history.log) == [history.records[offset] for offset in (2, 3, 4)]
    [first, second] = [header for header, _ in batches_of(history.log)]
    assert (first.base_offset, first.last_offset, first.record_count) == (0, 2, 1)
    assert first.max_timestamp == history.records[2].timestamp
    assert (second.base_offset, second.last_offset, second.record_count) == (3, 4, 2)
    check_indexes(history.log)


def test_a_second_pass_over_clean_segments_writes_nothing() -> None:
    disk = new_disk()
    history = history_on(disk)
    history.write((b"a", b"1"))
    history.write((b"a", b"2"))
    seal(history.log)
    done = compact(history.log)
    assert done is not None and done.written_bytes > 0
    history.write((b"b", b"1"))
    seal(history.log)
    again = compact(history.log, cleaned_end_offset=2)
    assert again is not None
    third = compact(history.log, cleaned_end_offset=0)
    assert third is not None and third.written_bytes == 0
    assert kept(history.log) == [(1, b"2"), (2, b"1")]


@pytest.mark.parametrize("codec", list(Codec))
def test_a_batch_keeps_its_codec(codec: Codec) -> None:
    history = history_on(new_disk())
    history.write(*((b"%d" % (number % 7), b"v" * 20) for number in range(20)), codec=codec)
    seal(history.log)
    compact(history.log)
    [(header, records)] = batches_of(history.log)
    assert (header.codec, len(records), header.record_count) == (codec, 7, 7)
    assert records == [history.records[offset] for offset in range(13, 20)]


def test_small_segments_become_one_and_later_ones_stay_apart() -> None:
    history = history_on(new_disk())
    for number in range(6):
        history.write((b"%d" % number, b"x" * 100))
        seal(history.log)
    history.write((b"9", b"x" * 1400))
    seal(history.log)
    compact(history.log)
    assert [segment.base_offset for segment in history.log.segments] == [0, 6, 7]
    assert [offset for offset, _ in kept(history.log)] == list(range(7))


# Tombstones


def test_a_tombstone_stays_until_its_delete_horizon_and_goes_with_the_next_pass() -> None:
    history = history_on(new_disk())
    history.write((b"a", b"1"), (b"b", b"1"))
    history.write((b"a", None))
    seal(history.log)
    compact(history.log)
    assert kept(history.log) == [(1, b"1"), (2, None)]
    [_, (marked, records)] = batches_of(history.log)
    assert marked.has_delete_horizon and marked.base_timestamp == NOW_MS + DELETE_RETENTION_MS
    assert records == [history.records[2]]  # With its own timestamp.
    history.write((b"c", b"1"))
    seal(history.log)
    compact(history.log, cleaned_end_offset=3, now_ms=NOW_MS + DELETE_RETENTION_MS - 1)
    assert kept(history.log) == [(1, b"1"), (2, None), (3, b"1")]
    history.write((b"d", b"1"))
    seal(history.log)
    compact(history.log, cleaned_end_offset=4, now_ms=NOW_MS + DELETE_RETENTION_MS)
    assert kept(history.log) == [(1, b"1"), (3, b"1"), (4, b"1")]


def test_the_horizon_is_counted_from_the_first_pass_not_from_the_record() -> None:
    history = history_on(new_disk())
    history.write((b"a", None))
    seal(history.log)
    late_ms = NOW_MS + 100 * DELETE_RETENTION_MS
    compact(history.log, now_ms=late_ms)
    assert kept(history.log) == [(0, None)]


def test_a_newer_value_outlives_the_tombstone_before_it() -> None:
    history = history_on(new_disk())
    history.write((b"a", None), (b"a", b"back"))
    seal(history.log)
    compact(history.log)
    assert kept(history.log) == [(1, b"back")]


# How far


def test_the_active_segment_and_what_is_not_synced_are_left_alone() -> None:
    history = history_on(new_disk())
    history.write((b"a", b"1"))
    history.write((b"a", b"2"))
    assert compact(history.log) is None
    history.log.roll()
    assert compact(history.log) is None  # Sealed, but not synced yet.
    history.log.flush()
    history.write((b"a", b"3"))
    compact(history.log)
    assert kept(history.log) == [(1, b"2"), (2, b"3")]


def test_an_open_transaction_holds_compaction_back() -> None:
    history = history_on(new_disk())
    history.write((b"a", b"1"), (b"a", b"2"))
    seal(history.log)
    history.write((b"a", b"open"), producer_id=11, transactional=True)
    seal(history.log)
    history.write((b"a", b"3"))
    seal(history.log)
    done = compact(history.log)
    assert done is not None and done.cleaned_end_offset == 2
    assert kept(history.log) == [(1, b"2"), (2, b"open"), (3, b"3")]


def test_young_records_wait_for_min_compaction_lag() -> None:
    history = history_on(new_disk(), min_compaction_lag_ms=1_000)
    history.write((b"a", b"1"), (b"a", b"2"))
    seal(history.log)
    assert compact(history.log, now_ms=NOW_MS + 999) is None
    assert compact(history.log, now_ms=NOW_MS + 1_000) is not None


def test_keys_that_do_not_fit_in_memory_wait_for_the_next_pass() -> None:
    history = history_on(new_disk())
    for number in range(40):
        history.write((b"k%d" % (number % 20), b"%d" % number))
    seal(history.log)
    cleaned_end, passes = 0, 0
    while cleaned_end < 40:
        done = compact(history.log, cleaned_end_offset=cleaned_end, buffer_bytes=5 * 200)
        assert done is not None and done.cleaned_end_offset > cleaned_end
        cleaned_end, passes = done.cleaned_end_offset, passes + 1
    assert passes > 4
    assert [offset for offset, _ in kept(history.log)] == list(range(20, 40))


# Transactions


def test_aborted_records_go_and_never_hide_an_older_value() -> None:
    history = history_on(new_disk())
    history.write((b"a", b"good"), (b"b", b"old"))
    history.write((b"a", b"aborted"), producer_id=11, transactional=True)
    history.end(11, commits=False)
    history.write((b"b", b"committed"), producer_id=12, transactional=True)
    history.end(12, commits=True)
    seal(history.log)
    compact(history.log)
    assert kept(history.log) == [(0, b"good"), (4, b"committed")]


def test_a_marker_goes_when_its_transaction_has_gone_and_its_horizon_has_passed() -> None:
    history = history_on(new_disk())
    history.write((b"a", b"aborted"), producer_id=11, transactional=True)
    marker = history.end(11, commits=False)
    history.write((b"z", b"1"), producer_id=11)  # The producer's last batch lies elsewhere.
    seal(history.log)
    [aborted] = [entry for segment in history.log.segments for entry in segment.aborted_transactions()]
    assert aborted.last_offset == marker

    def next_pass(cleaned_end: int, now_ms: int) -> list[int]:
        history.write((b"y", b"%d" % cleaned_end))
        seal(history.log)
        compact(history.log, cleaned_end_offset=cleaned_end, now_ms=now_ms)
        return markers_of(history.log)

    assert next_pass(0, NOW_MS) == [marker]  # This pass removes the data.
    assert next_pass(4, NOW_MS) == [marker]  # This one sees that it is gone, and sets the horizon.
    assert [entry for segment in history.log.segments for entry in segment.aborted_transactions()] == []
    assert next_pass(5, NOW_MS + DELETE_RETENTION_MS - 1) == [marker]
    assert next_pass(6, NOW_MS + DELETE_RETENTION_MS) == []


def test_a_marker_stays_while_a_record_of_its_transaction_does() -> None:
    history = history_on(new_disk())
    history.write((b"a", b"1"), producer_id=11, transactional=True)
    marker = history.end(11, commits=True)
    for number in range(3):
        history.write((b"y", b"%d" % number))
        seal(history.log)
        compact(history.log, cleaned_end_offset=0, now_ms=NOW_MS + number * 10 * DELETE_RETENTION_MS)
    assert markers_of(history.log) == [marker]


# Producers


def test_a_producers_last_batch_stays_without_records_and_its_sequence_goes_on_after_a_restart() -> None:
    disk = new_disk()
    history = history_on(disk)
    history.write((b"a", b"1"), (b"b", b"1"), producer_id=1)
    history.write((b"a", b"2"), (b"b", b"2"))
    seal(history.log)
    compact(history.log)
    (empty, records), _ = batches_of(history.log)
    assert (records, empty.record_count, empty.producer_id) == ([], 0, 1)
    assert (empty.base_sequence, empty.last_sequence, empty.max_timestamp) == (0, 1, NOW_MS)
    for snapshot in history.log.snapshots.offsets:
        disk.remove(history.log.snapshots.path(snapshot))
    history.log = open_log(disk, history.log.config, recovery_point=4)
    history.write((b"a", b"3"), producer_id=1)
    assert history.log.producer_state.producers[1].last_sequence == 2


def test_the_batch_of_a_forgotten_producer_goes() -> None:
    history = history_on(new_disk())
    history.write((b"a", b"1"), producer_id=1)
    history.write((b"a", b"2"))
    seal(history.log)
    history.log.producer_state.expire(NOW_MS + 10**9, 1)
    compact(history.log)
    assert [header.base_offset for header, _ in batches_of(history.log)] == [1]


def test_a_transactional_producer_goes_on_after_a_pass_and_a_restart() -> None:
    disk = new_disk()
    history = history_on(disk)
    for number in range(4):
        history.write((b"a", b"%d" % number), producer_id=11, transactional=True)
        history.end(11, commits=number % 2 == 0)
    seal(history.log)
    for cleaned_end in (0, 8):
        compact(history.log, cleaned_end_offset=cleaned_end)
        history.log = reopened(history, disk)
        history.write((b"b", b"x"), producer_id=11, transactional=True)
        history.end(11, commits=True)
        seal(history.log)
    assert {record.key: record.value for record in data_of(history.log)} == {b"a": b"2", b"b": b"x"}


# Lookups


def test_the_largest_timestamp_is_that_of_a_record_not_of_an_empty_batch() -> None:
    history = history_on(new_disk())
    history.write((b"b", b"1"))
    history.now_ms = NOW_MS + 1_000
    history.write((b"a", b"1"), producer_id=1)
    history.now_ms = NOW_MS + 10
    history.write((b"a", b"2"))
    seal(history.log)
    compact(history.log)
    latest = history.log.offset_of_max_timestamp()
    assert latest is not None and (latest.offset, latest.timestamp) == (2, NOW_MS + 10)


def test_a_compacted_log_rolls_in_time_for_max_compaction_lag() -> None:
    history = history_on(new_disk(), max_compaction_lag_ms=500)
    history.write((b"a", b"1"))
    assert not history.log.should_roll(100, NOW_MS + 500)
    assert history.log.should_roll(100, NOW_MS + 501)


# Beside others


def test_a_pass_that_finds_no_room_leaves_nothing_behind() -> None:
    disk = new_disk()
    history = history_on(disk)
    history.write((b"a", b"1" * 500), (b"a", b"2" * 500))
    seal(history.log)
    before = disk.list(history.log.directory)
    disk.capacity_bytes = disk.used_bytes() + 300
    with pytest.raises(OSError, match="space"):
        compact(history.log)
    assert disk.list(history.log.directory) == before
    assert disk.room_bytes() == 300
    disk.capacity_bytes = None
    compact(history.log)
    assert kept(history.log) == [(1, b"2" * 500)]


def test_a_slice_handed_out_before_is_read_to_its_end() -> None:
    history = history_on(new_disk())
    history.write((b"a", b"1"), (b"a", b"2"))
    seal(history.log)
    piece = history.log.read(0, 10_000)
    assert piece.file is not None
    before = piece.file.pread(piece.size, piece.position)
    compact(history.log)
    assert piece.file.pread(piece.size, piece.position) == before


def test_a_reader_that_still_holds_an_old_segment_never_reads_the_new_file_for_it() -> None:
    history = history_on(new_disk())
    for number in range(40):
        history.write((b"a", b"%d" % number * 30))
    seal(history.log)
    old = history.log.segments.first
    old.release_handle()
    compact(history.log)
    with pytest.raises(FileNotFoundError):
        old.find(0)
    assert history.log.read(0, 10_000).size > 0


def test_a_lookup_that_met_a_replaced_segment_begins_anew() -> None:
    history = history_on(new_disk())
    for number in range(60):
        history.now_ms = NOW_MS + number
        history.write((b"a", b"%d" % number * 30))
    seal(history.log)
    stale = list(history.log.segments)
    for segment in stale:
        segment.release_handle()
    compact(history.log)
    assert all(segment.is_replaced for segment in stale[:-1])
    found = history.log.offset_for_timestamp(NOW_MS + 30)
    assert found is not None and found.offset == 59


def test_retention_takes_compacted_segments_too() -> None:
    policy = frozenset({CleanupPolicy.COMPACT, CleanupPolicy.DELETE})
    history = history_on(new_disk(), cleanup_policy=policy, retention_ms=60_000)
    history.write((b"a", b"1"), (b"a", b"2"))
    seal(history.log)
    compact(history.log)
    expired = history.log.plan_retention(NOW_MS + 60_001)
    assert [segment.base_offset for segment in expired] == [0]
    history.log.detach(expired)
    history.log.rename_deleted(expired)
    assert (history.log.log_start_offset, kept(history.log)) == (2, [])


def test_records_without_a_key_go() -> None:
    """They are refused by a compacted topic; one that became compacted later may hold some."""
    log = open_log(new_disk(), with_config(COMPACTED, cleanup_policy=frozenset({CleanupPolicy.DELETE})))
    from ottla.wire.records import BatchBuilder

    builder = BatchBuilder()
    builder.append(NOW_MS, None, b"keyless")
    builder.append(NOW_MS, b"a", b"1")
    append(log, memoryview(builder.build()))
    append(log, batch_of(1))
    seal(log)
    log.update_config(COMPACTED)
    compact(log)
    assert [record.key for record in data_of(log)] == [b"a", b"key"]
