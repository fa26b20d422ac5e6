"""What may go, and what a consumer that was away too long finds (scene 6)."""

import errno

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.base.errors import ApiError, ErrorCode, InvariantViolation
from ottla.log.config import CleanupPolicy, LogConfig
from ottla.log.partition_log import PartitionLog
from ottla.log.segment import Segment
from sim.disk import SimulatedDisk, SimulatedFile
from tests.unit.log.support import DIRECTORY, NOW_MS, append, batch_of, batch_of_bytes, first_header, new_disk, open_log


def log_of_days(days: int, config: LogConfig) -> PartitionLog:
    """A segment a day of ten records and 500 bytes, the last one active and written now."""
    log = open_log(new_disk(), config)
    for day in range(days):
        if day:
            log.roll()
        append(log, batch_of_bytes(500, 10, timestamp=NOW_MS - (days - 1 - day) * 1000))
    return log


def planned(log: PartitionLog, **circumstances: int) -> list[int]:
    return [segment.base_offset for segment in log.plan_retention(NOW_MS, **circumstances)]


def retain(log: PartitionLog) -> list[Segment]:
    """What housekeeping does."""
    segments = log.plan_retention(NOW_MS)
    if log.active_segment in segments:
        log.roll()
    log.detach(segments)
    log.rename_deleted(segments)
    return segments


def test_by_time_whole_segments_go_once_their_newest_record_is_too_old() -> None:
    log = log_of_days(5, LogConfig(retention_ms=2000))
    assert planned(log) == [0, 10]


def test_by_size_the_log_keeps_at_least_what_was_asked() -> None:
    log = log_of_days(5, LogConfig(retention_ms=-1, retention_bytes=1200))
    assert planned(log) == [0, 10]
    log.update_config(LogConfig(retention_ms=-1, retention_bytes=1000))
    assert planned(log) == [0, 10, 20]


def test_a_directory_without_room_for_another_name_loses_the_files_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    log = log_of_days(5, LogConfig(retention_ms=2000))

    def fail(self: SimulatedDisk, source: str, target: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(SimulatedDisk, "rename", fail)
    retain(log)
    names = log._disk.list(DIRECTORY)
    assert not [name for name in names if name.startswith(("00000000000000000000.", "00000000000000000010."))]


def test_minus_one_is_for_ever() -> None:
    assert planned(log_of_days(5, LogConfig(retention_ms=-1, retention_bytes=-1))) == []


def test_nothing_at_or_above_the_watermark_goes() -> None:
    log = log_of_days(5, LogConfig(retention_ms=0))
    assert planned(log, high_watermark=20) == [0, 10]
    assert planned(log, high_watermark=19) == [0]


def test_a_compacted_topic_keeps_what_is_old_but_not_what_was_deleted() -> None:
    log = log_of_days(5, LogConfig(retention_ms=0, cleanup_policy=frozenset({CleanupPolicy.COMPACT})))
    assert planned(log) == []
    log.delete_records_before(25)
    assert planned(log) == [0, 10]


def test_an_active_segment_of_old_records_is_rolled_and_goes() -> None:
    log = log_of_days(2, LogConfig(retention_ms=2000))
    segments = log.plan_retention(NOW_MS + 10_000)
    assert log.active_segment in segments
    with pytest.raises(InvariantViolation):
        log.detach(segments)
    log.roll()
    log.detach(segments)
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (20, 20, 0)
    assert log.plan_retention(NOW_MS + 20_000) == [], "an empty segment has nothing to give"


def test_records_without_a_timestamp_age_by_their_file() -> None:
    log = open_log(new_disk(), LogConfig(retention_ms=2000))
    append(log, batch_of_bytes(500, 10, timestamp=-1))
    log.roll()
    append(log, batch_of_bytes(500, 10))
    assert planned(log) == [0], "the simulated file was last written in 1970"


def test_scene_6_a_consumer_away_longer_than_retention() -> None:
    log = log_of_days(5, LogConfig(retention_ms=2000))
    committed = 13
    retain(log)
    assert log.log_start_offset == 20
    with pytest.raises(ApiError) as refused:
        log.read(committed, 1000)
    assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    assert first_header(log, log.log_start_offset).base_offset == 20, "after auto.offset.reset=earliest"


def test_deleted_files_are_renamed_first_and_readers_keep_theirs() -> None:
    disk = new_disk()
    log = open_log(disk, LogConfig(retention_ms=0))
    append(log, batch_of_bytes(500, 10, timestamp=1))
    log.roll()
    append(log, batch_of_bytes(500, 10))
    piece = log.read(0, 1000)
    segments = retain(log)
    assert sorted(name for name in disk.list(DIRECTORY) if name.startswith(f"{0:020d}")) == [
        f"{0:020d}.index.deleted",
        f"{0:020d}.log.deleted",
        f"{0:020d}.timeindex.deleted",
    ]
    log.delete_files(segments)
    assert not any(name.startswith(f"{0:020d}") for name in disk.list(DIRECTORY))
    assert piece.file is not None
    assert len(piece.file.pread(piece.size, piece.position)) == 500


def test_a_flush_that_retention_overtakes_misses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both run in threads: the files of a segment may go while those before it are being synced."""
    log = log_of_days(5, LogConfig(retention_ms=2000))
    sync = SimulatedFile.sync

    def retain_and_sync(self: SimulatedFile) -> None:
        monkeypatch.undo()
        assert [segment.base_offset for segment in retain(log)] == [0, 10]
        sync(self)

    monkeypatch.setattr(SimulatedFile, "sync", retain_and_sync)
    assert log.sync_files() == log.log_end_offset


def test_a_flush_that_misses_a_file_says_so() -> None:
    log = log_of_days(2, LogConfig())
    log.segments.first.forget_handle()
    log._disk.remove(log.segments.first.path(".log"))
    with pytest.raises(FileNotFoundError):
        log.sync_files()


def test_retention_lowered_on_a_live_log_takes_effect_with_the_next_run() -> None:
    log = log_of_days(5, LogConfig())
    assert planned(log) == []
    log.update_config(LogConfig(retention_ms=1000))
    assert planned(log) == [0, 10, 20]


def test_delete_records() -> None:
    log = log_of_days(3, LogConfig(retention_ms=-1))
    log.delete_records_before(15)
    log.delete_records_before(5)
    assert log.log_start_offset == 15, "it never moves back"
    assert planned(log) == [0]
    log.delete_records_before(30)
    assert (log.log_start_offset, planned(log)) == (30, [0, 10, 20])
    for offset in (31, -2):
        with pytest.raises(ApiError) as refused:
            log.delete_records_before(offset)
        assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 2000), min_size=1, max_size=10), st.integers(0, 15_000))
def test_size_retention_never_keeps_less_than_asked_nor_a_segment_too_many(values: list[int], keep: int) -> None:
    log = open_log(new_disk(), LogConfig(retention_ms=-1, retention_bytes=keep))
    for at, value_bytes in enumerate(values):
        if at:
            log.roll()
        append(log, batch_of(value_bytes=value_bytes))
    going = log.plan_retention(NOW_MS)
    left = [segment.size for segment in log.segments][len(going) :]
    assert sum(left) >= min(keep, log.size_bytes)
    assert not left or sum(left) - left[0] < keep
