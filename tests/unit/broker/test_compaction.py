"""Compaction in a node: which log, when, with which settings; and what happens beside it."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from ottla.base.types import TopicPartition
from ottla.broker.compaction import CleaningResult, Compaction, InProcessCleaner
from ottla.broker.housekeeping import Housekeeping
from ottla.log.compaction.job import CleaningDone, CleaningJob
from ottla.replica.partition import Partition
from ottla.wire import api
from ottla.wire.apis import ApiKey
from ottla.wire.records import BatchBuilder, batches, records_of
from tests.unit.broker.real_node import RealNode, play

USERS = {"cleanup_policy": "compact", "segment_bytes": "1048576", "min_cleanable_dirty_ratio": "0.01"}


def partition_of(node: RealNode, topic: str = "users") -> Partition:
    partition = node.node.partitions.find(topic, 0)
    assert partition is not None
    return partition


async def write(node: RealNode, *pairs: tuple[bytes, bytes | None], topic: str = "users") -> None:
    builder = BatchBuilder()
    for key, value in pairs:
        builder.append(node.clock.now_ms(), key, value)
    await partition_of(node, topic).append(memoryview(builder.build()))


async def seal(node: RealNode, topic: str = "users") -> None:
    """As time would do it."""
    log = partition_of(node, topic).log
    log.roll()
    log.flush()


def values(node: RealNode, topic: str = "users") -> dict[int, tuple[bytes | None, bytes | None]]:
    log = partition_of(node, topic).log
    found = {}
    for segment in log.segments:
        data = memoryview(segment.handle().pread(segment.size, 0))
        for batch in batches(data):
            found.update({record.offset: (record.key, record.value) for record in records_of(batch.view)})
    return found


async def configure(node: RealNode, resource_type: int, name: str, **configs: str) -> None:
    resource = api.IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=resource_type,
        resource_name=name,
        configs=[
            api.IncrementalAlterConfigsRequest.AlterableConfig(
                name=key.replace("_", "."), config_operation=0, value=value
            )
            for key, value in configs.items()
        ],
    )
    response = await node.ask(
        ApiKey.INCREMENTAL_ALTER_CONFIGS, api.IncrementalAlterConfigsRequest(resources=[resource])
    )
    assert response.responses[0].error_code == 0, response.responses[0].error_message


def test_the_dirtiest_log_comes_first_and_the_checkpoint_says_how_far(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        jobs: list[str] = []

        class Noting(InProcessCleaner):
            async def clean(self, job: CleaningJob) -> AsyncGenerator[CleaningResult, None]:
                jobs.append(job.directory.rpartition("/")[2])
                async for result in super().clean(job):
                    yield result

        for topic in ("users", "cleaner", "plain"):
            await node.create_topic(topic, **(USERS if topic != "plain" else {}))
            for number in range(4):
                await write(node, (b"a", b"%d" % number), (b"b", b"%d" % number), topic=topic)
            await seal(node, topic)
        compaction = Compaction(node.node, lambda: Noting(node.node.disk, node.node.workers))
        await compaction.clean_all()
        await write(node, (b"a", b"x" * 500))
        await write(node, (b"a", b"x"), topic="cleaner")
        await seal(node)
        await seal(node, "cleaner")
        await compaction.clean_all()
        assert jobs[2:] == ["users-0", "cleaner-0"]
        assert values(node) == {7: (b"b", b"3"), 8: (b"a", b"x" * 500)}
        assert len(values(node, "plain")) == 8
        checkpoint = (tmp_path / "cleaner-offset-checkpoint").read_text().splitlines()
        assert checkpoint == ["0", "2", "cleaner 0 9", "users 0 9"]

    play(tmp_path, scene)


def test_a_log_is_left_alone_until_its_dirty_share_is_large_enough_and_a_live_change_counts(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        await node.create_topic("users", **USERS)
        compaction = Housekeeping(node.opened).compaction
        await write(node, *((b"%d" % number, b"x" * 100) for number in range(20)))
        await seal(node)
        await compaction.clean_all()
        await configure(node, 2, "users", min_cleanable_dirty_ratio="0.5")
        await write(node, (b"1", b"new"))
        await seal(node)
        await compaction.clean_all()
        assert values(node)[1] == (b"1", b"x" * 100)
        await configure(node, 2, "users", max_compaction_lag_ms="1000")
        node.clock.advance(2)
        await compaction.clean_all()
        assert 1 not in values(node)
        assert values(node)[20] == (b"1", b"new")

    play(tmp_path, scene)


def test_settings_of_the_broker_count_for_the_next_pass(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        jobs: list[CleaningJob] = []

        class Noting(InProcessCleaner):
            def clean(self, job: CleaningJob) -> AsyncGenerator[CleaningResult, None]:
                jobs.append(job)
                return super().clean(job)

        await node.create_topic("users", **USERS)
        compaction = Compaction(node.node, lambda: Noting(node.node.disk, node.node.workers))
        for setting in ({}, {"log_cleaner_dedupe_buffer_size": "2000000", "log_cleaner_delete_retention_ms": "77"}):
            if setting:
                await configure(node, 4, "", **setting)
            await write(node, (b"a", b"1"))
            await seal(node)
            await compaction.clean_all()
        assert [job.buffer_bytes for job in jobs] == [int((128 << 20) * 0.9), 1_800_000]
        assert [job.delete_retention_ms for job in jobs] == [86_400_000, 77]

    play(tmp_path, scene)


@pytest.mark.parametrize("settings", [{}, {"max_compaction_lag_ms": "1"}])
def test_a_log_that_cannot_be_read_is_left_alone_and_others_go_on(tmp_path: Path, settings: dict[str, str]) -> None:
    async def scene(node: RealNode) -> None:
        for topic in ("rotten", "users"):
            await node.create_topic(topic, **USERS, **settings)
            await write(node, (b"a", b"1"), (b"a", b"2"), topic=topic)
            await seal(node, topic)
        file = partition_of(node, "rotten").log.segments.first.handle()
        file.pwrite(b"\xff" * 20, 0)
        compaction = Housekeeping(node.opened).compaction
        await compaction.clean_all()
        assert values(node) == {1: (b"a", b"2")}
        assert "users 0 2" in (tmp_path / "cleaner-offset-checkpoint").read_text()
        assert "rotten" not in (tmp_path / "cleaner-offset-checkpoint").read_text()

    play(tmp_path, scene)


class Halting(InProcessCleaner):
    """Lets the test do something between the cleaned files and their swap."""

    def __init__(self, node: RealNode, meanwhile: Any) -> None:
        super().__init__(node.node.disk, node.node.workers)
        self._meanwhile = meanwhile

    async def clean(self, job: CleaningJob) -> AsyncGenerator[CleaningResult, None]:
        async for result in super().clean(job):
            if not isinstance(result, CleaningDone):
                await self._meanwhile()
            yield result


def test_what_retention_took_meanwhile_does_not_come_back(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        await node.create_topic("users", **USERS | {"cleanup_policy": "compact,delete", "retention_ms": "1000"})
        await write(node, (b"a", b"1"), (b"a", b"2"))
        await seal(node)

        async def expire() -> None:
            node.clock.advance(10)
            assert await partition_of(node).enforce_retention()

        await Compaction(node.node, lambda: Halting(node, expire)).clean_all()
        assert (partition_of(node).log.log_start_offset, values(node)) == (2, {})
        assert not list(tmp_path.glob("users-0/*.cleaned")) + list(tmp_path.glob("users-0/*.swap"))

    play(tmp_path, scene)


def test_a_topic_deleted_and_made_anew_meanwhile_gets_nothing_of_the_old_one(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        await node.create_topic("users", **USERS)
        await write(node, (b"a", b"1"), (b"a", b"2"))
        await seal(node)

        async def recreate() -> None:
            await node.delete_topic("users")
            await node.create_topic("users", **USERS)
            await write(node, (b"new", b"1"))

        await Compaction(node.node, lambda: Halting(node, recreate)).clean_all()
        assert values(node) == {0: (b"new", b"1")}
        directory = partition_of(node).storage.directory
        assert TopicPartition("users", 0) not in directory.cleaned_ends

    play(tmp_path, scene)


def test_appends_and_reads_go_on_during_a_swap(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        await node.create_topic("users", **USERS)
        for number in range(50):
            await write(node, (b"a", b"%d" % number))
        await seal(node)
        partition = partition_of(node)
        task = asyncio.get_running_loop().create_task(Housekeeping(node.opened).compaction.clean_all())
        for number in range(50, 100):
            await write(node, (b"b", b"%d" % number))
            piece = await partition.read(0, 1 << 20, min_one_batch=True)
            assert piece.size > 0
            await asyncio.sleep(0)
        await task
        assert min(values(node)) == 49 and max(values(node)) == 99

    play(tmp_path, scene)


def test_housekeeping_compacts_by_itself_unless_it_is_switched_off(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        await node.create_topic("users", **USERS)
        await write(node, (b"a", b"1"), (b"a", b"2"))
        await seal(node)
        housekeeping = Housekeeping(node.opened)
        housekeeping.start()
        for _ in range(500):
            await asyncio.sleep(0.002)
            if values(node) == {1: (b"a", b"2")}:
                break
        await housekeeping.stop()
        expected = node.node.config.flag("log.cleaner.enable")
        assert (values(node) == {1: (b"a", b"2")}) is expected

    play(tmp_path / "on", scene, log_cleaner_backoff_ms="1")
    play(tmp_path / "off", scene, log_cleaner_backoff_ms="1", log_cleaner_enable="false")
