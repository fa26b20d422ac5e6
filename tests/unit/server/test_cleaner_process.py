"""Compaction in a process of its own, over real files."""

import asyncio
from pathlib import Path

import pytest

from ottla.base.errors import ProtocolError
from ottla.base.types import TopicPartition
from ottla.log.compaction.job import CleanedSegment, CleaningDone, CleaningJob
from ottla.log.compaction.plan import find_cleanable, job_of
from ottla.log.partition_log import PartitionLog
from ottla.server.cleaner_process import CleanerProcess
from ottla.server.real_disk import RealDisk
from tests.unit.log.compaction_support import COMPACTED, History, seal
from tests.unit.log.support import NOW_MS


def log_in(path: Path) -> History:
    log = PartitionLog.open(RealDisk(), str(path / "users-0"), TopicPartition("users", 0), COMPACTED, NOW_MS)
    history = History(log)
    for number in range(200):
        history.write((b"%d" % (number % 7), b"%d" % number))
    seal(log)
    return history


def job_for(log: PartitionLog, bytes_per_second_max: float = 1e300) -> CleaningJob:
    cleanable = find_cleanable(
        list(log.segments), log.config, first_dirty_offset=0, limit=log.recovery_point, now_ms=NOW_MS
    )
    assert cleanable is not None
    return job_of(
        log,
        cleanable,
        aborted=(),
        now_ms=NOW_MS,
        buffer_bytes=1 << 20,
        bytes_per_second_max=bytes_per_second_max,
    )


def test_jobs_are_answered_one_after_another_by_one_process(tmp_path: Path) -> None:
    async def scene() -> None:
        log = log_in(tmp_path).log
        cleaner = CleanerProcess()
        for _ in range(2):
            results = [result async for result in cleaner.clean(job_for(log))]
            assert all(isinstance(result, CleanedSegment) for result in results[:-1]) and len(results) > 2
            assert isinstance(results[-1], CleaningDone) and results[-1].cleaned_end_offset == 200
            process = cleaner._process
            assert process is not None and process.returncode is None
        await cleaner.close()
        assert process.returncode is not None

    asyncio.run(scene())


def test_a_failure_is_told_and_the_next_job_goes_on(tmp_path: Path) -> None:
    async def scene() -> None:
        log = log_in(tmp_path).log
        cleaner = CleanerProcess()
        job = job_for(log)
        log.segments.first.handle().pwrite(b"\xff" * 60, 0)
        with pytest.raises(ProtocolError):
            _ = [result async for result in cleaner.clean(job)]
        log.close()
        with pytest.raises(FileNotFoundError):
            log._disk.remove_tree(log.directory)
            _ = [result async for result in cleaner.clean(job)]
        await cleaner.close()

    asyncio.run(scene())


def test_a_job_given_up_ends_the_process(tmp_path: Path) -> None:
    async def scene() -> None:
        cleaner = CleanerProcess()
        results = cleaner.clean(job_for(log_in(tmp_path).log))
        await anext(results)
        process = cleaner._process
        await results.aclose()
        assert process is not None and process.returncode is not None
        assert cleaner._process is None

    asyncio.run(scene())


def test_a_process_that_died_is_a_disk_error_and_the_next_job_starts_another(tmp_path: Path) -> None:
    async def scene() -> None:
        cleaner = CleanerProcess()
        job = job_for(log_in(tmp_path).log)
        assert isinstance([result async for result in cleaner.clean(job)][-1], CleaningDone)
        process = cleaner._process
        assert process is not None
        process.kill()
        await process.wait()
        with pytest.raises(OSError, match="has ended"):
            await anext(cleaner.clean(job))
        assert isinstance([result async for result in cleaner.clean(job)][-1], CleaningDone)
        await cleaner.close()

    asyncio.run(scene())
