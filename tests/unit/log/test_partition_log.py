"""Segments on disk (scene 5), the two ends, truncation, closing."""

from contextlib import suppress
from uuid import UUID

import pytest

from ottla.base.errors import ApiError, ErrorCode
from ottla.log.config import LogConfig
from ottla.log.epoch_cache import EpochEnd
from ottla.wire.batch import set_offset_and_epoch
from sim.disk import Kept, SimulatedCrash
from tests.unit.log.support import DIRECTORY, NOW_MS, append, batch_of, batch_of_bytes, headers_of, new_disk, open_log


def numbered(batch: memoryview, base_offset: int, leader_epoch: int = 0) -> memoryview:
    """As a leader sends it."""
    set_offset_and_epoch(batch, base_offset, leader_epoch)
    return batch


def test_scene_5_segments_roll_and_are_named_by_their_first_offset() -> None:
    disk = new_disk()
    log = open_log(disk, LogConfig(segment_bytes=1000), topic_id=UUID(int=7))
    for _ in range(5):
        append(log, batch_of_bytes(500, 10))
    sealed = disk.read(f"{DIRECTORY}/00000000000000000000.log")
    assert disk.list(DIRECTORY) == [
        "00000000000000000000.index",
        "00000000000000000000.log",
        "00000000000000000000.timeindex",
        "00000000000000000020.index",
        "00000000000000000020.log",
        "00000000000000000020.snapshot",
        "00000000000000000020.timeindex",
        "00000000000000000040.index",
        "00000000000000000040.log",
        "00000000000000000040.snapshot",
        "00000000000000000040.timeindex",
        "partition.metadata",
    ]
    append(log, batch_of_bytes(400))
    log.close()
    assert disk.read(f"{DIRECTORY}/00000000000000000000.log") == sealed, "a sealed segment never changes"
    time_index = disk.read(f"{DIRECTORY}/00000000000000000000.timeindex")
    assert time_index == NOW_MS.to_bytes(8, "big") + (9).to_bytes(4, "big"), "it ends with the largest timestamp"
    assert "00000000000000000051.snapshot" in disk.list(DIRECTORY)
    assert disk.read(f"{DIRECTORY}/leader-epoch-checkpoint") == b"0\n1\n0 0\n"


def test_a_directory_of_another_topic_is_refused() -> None:
    disk = new_disk()
    open_log(disk, topic_id=UUID(int=7)).close()
    assert open_log(disk).topic_id == UUID(int=7)
    with pytest.raises(ApiError) as refused:
        open_log(disk, topic_id=UUID(int=8))
    assert refused.value.code is ErrorCode.INCONSISTENT_TOPIC_ID


# Two ends


def test_without_flush_settings_what_is_appended_counts_as_durable() -> None:
    log = open_log(new_disk())
    append(log, batch_of(100))
    assert (log.durable_end_offset, log.recovery_point, log.needs_flush(NOW_MS + 10**9)) == (100, 0, False)


def test_flush_messages_1_promises_only_what_is_synced() -> None:
    disk = new_disk()
    log = open_log(disk, LogConfig(flush_messages=1))
    append(log, batch_of(3))
    assert (log.log_end_offset, log.durable_end_offset, log.needs_flush(NOW_MS)) == (3, 0, True)
    synced_to = log.sync_files()
    append(log, batch_of(2))  # While the disk was busy.
    log.complete_flush(synced_to, NOW_MS)
    assert (log.log_end_offset, log.durable_end_offset, log.needs_flush(NOW_MS)) == (5, 3, True)
    disk.crash(Kept.NOTHING)
    assert open_log(disk).log_end_offset == 3


def test_flush_messages_n_holds_back_only_every_nth() -> None:
    log = open_log(new_disk(), LogConfig(flush_messages=10))
    append(log, batch_of(9))
    assert log.durable_end_offset == 9
    append(log, batch_of(1))
    assert (log.durable_end_offset, log.needs_flush(NOW_MS)) == (9, True)
    synced_to = log.sync_files()
    append(log, batch_of(4))
    assert log.durable_end_offset == 9
    log.complete_flush(synced_to)
    assert log.durable_end_offset == 14, "four unsynced ones are within what the setting allows"


def test_flush_ms_delays_nobody() -> None:
    log = open_log(new_disk(), LogConfig(flush_ms=1000))
    assert not log.needs_flush(NOW_MS + 1000), "nothing to sync"
    append(log, batch_of())
    assert log.durable_end_offset == 1
    assert not log.needs_flush(NOW_MS + 999)
    assert log.needs_flush(NOW_MS + 1000)
    log.flush(now_ms=NOW_MS + 1000)
    append(log, batch_of())
    assert not log.needs_flush(NOW_MS + 1999)


def test_flush_up_to_a_roll_leaves_the_active_segment_alone() -> None:
    log = open_log(new_disk())
    append(log, batch_of(5))
    segment = log.roll()
    append(log, batch_of(5))
    log.flush(segment.base_offset)
    assert log.recovery_point == 5


def test_the_checkpoint_stays_before_a_segment_without_an_index_on_disk() -> None:
    """Else a crash right after a roll would leave a sealed segment with an empty index that recovery believes."""
    disk = new_disk()
    config = LogConfig(index_interval_bytes=100)
    log = open_log(disk, config)
    for _ in range(50):
        append(log, batch_of_bytes(200))
    log.flush()
    assert (log.recovery_point, log.recovery_checkpoint) == (50, 49)
    log.roll()
    append(log, batch_of())
    assert log.recovery_checkpoint == 49
    disk.crash(Kept.PART)
    again = open_log(disk, config, recovery_point=49)
    assert len(again.segments.first.indexes()[0]) == 49
    again.roll()
    again.flush()
    assert again.recovery_checkpoint == again.recovery_point == again.log_end_offset


def test_a_setting_takes_effect_on_a_live_log() -> None:
    log = open_log(new_disk(), LogConfig(flush_messages=1))
    append(log, batch_of(5))
    log.update_config(LogConfig(max_message_bytes=300))
    assert log.durable_end_offset == 5
    with pytest.raises(ApiError) as refused:
        append(log, batch_of_bytes(301))
    assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE


# Truncation


def test_truncation_takes_whole_batches_segments_epochs_and_producers() -> None:
    disk = new_disk()
    config = LogConfig(segment_bytes=600, index_interval_bytes=1)
    log = open_log(disk, config)
    for number in range(10):
        append(log, batch_of_bytes(200, 1), leader_epoch=number // 4)
    append(log, batch_of(5, producer=(7, 0, 0)), leader_epoch=9)
    append(log, batch_of(5, producer=(7, 0, 5)), leader_epoch=9)
    assert log.truncate_to(17, now_ms=NOW_MS)
    assert (log.log_end_offset, log.durable_end_offset, headers_of(log)[-1].last_offset) == (17, 17, 14)
    assert log.producer_state.producers[7].last_sequence == 4
    assert log.truncate_to(3, now_ms=NOW_MS)
    assert [header.base_offset for header in headers_of(log)] == [0, 1, 2]
    assert log.epochs.entries() == [(0, 0)]
    assert log.producer_state.producers == {}
    assert not log.truncate_to(3, now_ms=NOW_MS)
    assert append(log, batch_of(), leader_epoch=10).base_offset == 3
    log.close()
    again = open_log(disk, config, clean_shutdown=True)
    assert [header.base_offset for header in headers_of(again)] == [0, 1, 2, 3]
    assert again.end_offset_for_epoch(0) == EpochEnd(0, 3)


def test_truncation_below_the_first_segment_starts_over_there() -> None:
    disk = new_disk()
    log = open_log(disk, log_start_offset=100)
    append(log, batch_of(5))
    log.truncate_to(50, now_ms=NOW_MS)
    assert (log.log_start_offset, log.log_end_offset) == (50, 50)
    assert append(log, batch_of()).base_offset == 50
    assert [name for name in disk.list(DIRECTORY) if name.endswith(".log")] == [f"{50:020d}.log"]


def test_the_largest_timestamp_survives_truncation() -> None:
    log = open_log(new_disk(), LogConfig(index_interval_bytes=10_000))
    for timestamp in (5, 9, 7, 20):
        append(log, batch_of(timestamp=NOW_MS + timestamp))
    log.truncate_to(3, now_ms=NOW_MS)
    assert log.active_segment.largest_timestamp() == NOW_MS + 9


# Producers and closing


def test_producers_expire_and_may_then_send_any_sequence() -> None:
    log = open_log(new_disk(), LogConfig(producer_id_expiration_ms=1000))
    append(log, batch_of(producer=(7, 0, 0)))
    assert log.expire_producers(NOW_MS + 999) == 0
    assert log.expire_producers(NOW_MS + 1000) == 1
    assert append(log, batch_of(producer=(7, 0, 5))).base_offset == 1


def test_a_clean_restart_changes_nothing() -> None:
    disk = new_disk()
    config = LogConfig(segment_bytes=3000, index_interval_bytes=500)
    log = open_log(disk, config, topic_id=UUID(int=7))
    for sequence in range(40):
        append(log, batch_of(producer=(7, 0, sequence), value_bytes=200), leader_epoch=sequence // 15)
    before = headers_of(log)
    log.close()
    names = [name for name in disk.list(DIRECTORY) if not name.endswith(".snapshot")]
    files = {name: disk.read(f"{DIRECTORY}/{name}") for name in names}
    again = open_log(disk, config, clean_shutdown=True)
    assert headers_of(again) == before
    assert again.epochs.entries() == log.epochs.entries()
    assert again.recovery_point == again.log_end_offset == 40
    assert append(again, batch_of(producer=(7, 0, 39), value_bytes=200)).is_duplicate
    again.close()
    assert {name: disk.read(f"{DIRECTORY}/{name}") for name in names} == files


def test_a_clean_close_survives_a_power_cut_right_after() -> None:
    disk = new_disk()
    config = LogConfig(segment_bytes=20_000, index_interval_bytes=500)
    log = open_log(disk, config)
    for sequence in range(200):
        append(log, batch_of(producer=(7, 0, sequence), value_bytes=200))
    log.close()
    disk.crash(Kept.NOTHING)
    again = open_log(disk, config, clean_shutdown=True)
    assert headers_of(again) == headers_of(log)
    for mine, theirs in zip(again.segments, log.segments, strict=True):
        assert [index.entries() for index in mine.indexes()] == [index.entries() for index in theirs.indexes()]
    assert again.producer_state.producers[7].last_sequence == 199


def test_an_epoch_without_records_goes_with_any_truncation() -> None:
    """Who led and wrote nothing must not claim to have something of that epoch."""
    log = open_log(new_disk())
    append(log, batch_of(3), leader_epoch=1)
    log.epochs.assign(5, log.log_end_offset)
    assert (log.latest_epoch, log.last_record_epoch) == (5, 1)
    assert not log.truncate_to(3, now_ms=NOW_MS)
    assert log.latest_epoch == log.last_record_epoch == 1
    log.truncate_fully_at(10)
    assert log.last_record_epoch == -1


def test_a_log_that_starts_over_has_nothing_to_sync() -> None:
    log = open_log(new_disk(), LogConfig(flush_messages=1))
    append(log, batch_of(3))
    assert log.durable_end_offset == 0
    log.truncate_fully_at(100)
    assert log.durable_end_offset == log.recovery_point == log.log_end_offset == log.log_start_offset == 100


@pytest.mark.parametrize("kept", list(Kept))
def test_a_crash_while_a_log_starts_over_leaves_no_hole(kept: Kept) -> None:
    for change in range(1, 40):
        disk = new_disk()
        config = LogConfig(segment_bytes=600)
        log = open_log(disk, config)
        for _ in range(8):
            append(log, batch_of_bytes(200))
        log.flush()
        disk.crash_at(change)
        is_done = False
        with suppress(SimulatedCrash):
            log.truncate_fully_at(100)
            log.append_as_follower(numbered(batch_of(2), 100), now_ms=NOW_MS)
            log.flush()
            is_done = True
        disk.crash(kept)
        again = open_log(disk, config)
        offsets = [header.base_offset for header in headers_of(again)]
        whole = list(range(8))
        assert offsets in ([100], [], *(whole[:count] for count in range(1, 9)))
        if is_done:
            assert offsets == [100]
            break
    else:
        raise AssertionError("it never came to its end")


def test_a_follower_skips_a_gap_that_no_segment_can_hold() -> None:
    """Of a compacted leader: what is kept may lie further apart than an index can tell."""
    log = open_log(new_disk())
    far = numbered(batch_of(2), 2**33)
    log.append_as_follower(numbered(batch_of(2), 0), now_ms=NOW_MS)
    assert log.should_roll_before(far, NOW_MS)
    log.skip_gap_before(far)
    log.roll()
    log.append_as_follower(far, now_ms=NOW_MS)
    assert [header.base_offset for header in headers_of(log)] == [0, 2**33]
    assert log.active_segment.base_offset == 2**33
    assert log.read(2, 1000).first_offset == 2**33
