"""One partition: order of appends, the watermark, group fsync, full and failing disks, retention."""

import asyncio
import errno
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.types import TopicPartition
from ottla.log.config import CleanupPolicy, LogConfig
from ottla.log.directory import LogDirectory
from ottla.log.handles import HandleCache
from ottla.metadata.image_parts import PartitionImage
from ottla.replica.cluster_view import ClusterView
from ottla.replica.partition import Partition
from ottla.replica.storage import RETRY_SECONDS, TELL_AGAIN_SECONDS, Storage
from ottla.server.real_disk import RealDisk
from ottla.wire.compression import Codec
from ottla.wire.records import BatchBuilder, batches, parse_header, records_of
from tests.unit.fakes import FakeClock, FakeWorkers

TOPIC_ID = UUID(int=777)


class World:
    def __init__(self, path: Path, config: LogConfig) -> None:
        self.clock = FakeClock()
        self.workers = FakeWorkers()
        directory = LogDirectory.open(
            RealDisk(), str(path), cluster_id="c", node_id=1, new_directory_id=UUID(int=5), handles=HandleCache()
        )
        self.storage = Storage(directory, self.clock, self.workers)
        log = directory.open_partition(TopicPartition("t", 0), config, self.clock.now_ms(), topic_id=TOPIC_ID)
        self.partition = Partition(log, TOPIC_ID, self.storage, ClusterView(1))
        self.partition.follow_image(PartitionImage((1,), (1,), 1, 0, 0, (UUID(int=5),)), min_isr=1)

    def batch(self, *values: bytes, codec: Codec = Codec.NONE, **fields: Any) -> memoryview:
        builder = BatchBuilder(codec=codec, **fields)
        for value in values:
            builder.append(self.clock.now_ms(), None, value)
        return memoryview(builder.build())

    async def values(self) -> list[bytes]:
        found: list[bytes] = []
        offset = self.partition.log.log_start_offset
        while offset < self.partition.high_watermark:
            region = await self.partition.read(offset, 1 << 20, min_one_batch=True)
            assert region.file is not None
            for batch in batches(memoryview(region.file.pread(region.size, region.position))):
                for record in records_of(batch.view):
                    assert record.value is not None
                    found.append(record.value)
                    offset = record.offset + 1
        return found


@pytest.fixture
def scene(tmp_path: Path) -> Callable[..., None]:
    def run(play: Callable[[World], Coroutine[Any, Any, None]], **config: Any) -> None:
        async def playing() -> None:
            await play(World(tmp_path, LogConfig(**config)))

        asyncio.run(playing())

    return run


async def turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def test_an_append_is_committed_and_readable_at_once(scene: Callable[..., None]) -> None:
    async def play(world: World) -> None:
        coroutine = world.partition.append(world.batch(b"a", b"b"))
        with pytest.raises(StopIteration) as finished:
            coroutine.send(None)  # Not a single suspension: the bytes need not outlive the call.
        assert finished.value.value.base_offset == 0
        assert world.partition.high_watermark == 2
        assert world.partition.committed(1) is None
        assert await world.values() == [b"a", b"b"]

    scene(play)


def test_appends_queue_behind_a_roll_in_order(scene: Callable[..., None]) -> None:
    async def play(world: World) -> None:
        await world.partition.append(world.batch(b"x" * 300))
        world.workers.hold()
        names = [b"a" * 300, b"b" * 300, b"c"]
        tasks = [asyncio.create_task(world.partition.append(world.batch(name))) for name in names]
        await turns()
        assert world.partition.log.log_end_offset == 1
        world.workers.release()
        results = [await task for task in tasks]
        assert [result.base_offset for result in results] == [1, 2, 3]
        assert await world.values() == [b"x" * 300, *names]
        assert len(world.partition.log.segments) >= 2

    scene(play, segment_bytes=500)


def test_every_sealed_segment_is_synced_soon(scene: Callable[..., None]) -> None:
    async def play(world: World) -> None:
        partition = world.partition
        await partition.append(world.batch(b"x" * 300))
        await partition.append(world.batch(b"x" * 300))  # Rolls, and starts to sync what it sealed.
        world.workers.hold()
        await turns()
        second = asyncio.create_task(partition.append(world.batch(b"x" * 300)))
        await turns()
        world.workers.release()
        await second
        for _ in range(5):
            await turns()
        assert partition.log.recovery_point == partition.log.active_segment.base_offset == 2

    scene(play, segment_bytes=500)


def test_an_append_in_the_queue_happens_though_its_caller_went_away(scene: Callable[..., None]) -> None:
    async def play(world: World) -> None:
        await world.partition.append(world.batch(b"x" * 300))
        world.workers.hold()
        first, second, third = (
            asyncio.create_task(world.partition.append(world.batch(name * 300))) for name in (b"a", b"b", b"c")
        )
        await turns()
        second.cancel()
        world.workers.release()
        assert (await first).base_offset == 1
        assert (await third).base_offset == 3
        assert (await world.partition.append(world.batch(b"d"))).base_offset == 4

    scene(play, segment_bytes=500)


def test_a_client_that_goes_away_leaves_no_roll_half_done(scene: Callable[..., None]) -> None:
    async def play(world: World) -> None:
        await world.partition.append(world.batch(b"x" * 300))
        world.workers.hold()
        gone = asyncio.create_task(world.partition.append(world.batch(b"a" * 300)))
        await turns()
        gone.cancel()
        await turns()
        later = asyncio.create_task(world.partition.append(world.batch(b"b" * 300)))
        await turns()
        assert world.workers.names.count("prepare_roll") == 1
        world.workers.release()
        assert (await later).base_offset == 2
        assert await world.values() == [b"x" * 300, b"a" * 300, b"b" * 300]

    scene(play, segment_bytes=500)


def test_acknowledgements_wait_for_the_fsync_and_share_it(scene: Callable[..., None]) -> None:
    async def play(world: World) -> None:
        partition = world.partition
        world.workers.hold()
        for value in (b"a", b"b", b"c"):
            await partition.append(world.batch(value))
        waits = [partition.committed(offset) for offset in range(3)]
        assert all(wait is not None and not wait.done() for wait in waits)
        assert partition.high_watermark == 0
        assert (await partition.read(0, 100, min_one_batch=True)).size == 0
        await turns()
        world.workers.release()
        for wait in waits:
            assert wait is not None
            await wait
        assert partition.high_watermark == 3
        assert world.workers.names.count("sync_files") <= 2

    scene(play, flush_messages=1)


def test_flush_ms_syncs_by_the_clock_and_delays_nobody(scene: Callable[..., None]) -> None:
    async def play(world: World) -> None:
        await world.partition.append(world.batch(b"a"))
        assert world.partition.high_watermark == 1
        assert world.partition.log.recovery_point == 0
        await asyncio.sleep(0.05)
        assert world.partition.log.recovery_point == 1

    scene(play, flush_ms=10)


def test_a_disk_that_stays_full_is_told_of_once_a_minute(
    scene: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    async def play(world: World) -> None:
        for _ in range(int(TELL_AGAIN_SECONDS) + 1):
            assert world.storage.refusal is None, "it is tried again every second"
            world.storage.on_error(OSError(errno.ENOSPC, "No space left on device"))
            world.clock.advance(RETRY_SECONDS)
        assert len([record for record in caplog.records if "refuses writes" in record.message]) == 2

    scene(play)


def test_a_full_disk_refuses_and_heals(scene: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    async def play(world: World) -> None:
        partition = world.partition
        await partition.append(world.batch(b"before"))
        full = True
        write = type(partition.log.active_segment).write

        def fail(self: Any, data: Any) -> int:
            if full:
                raise OSError(errno.ENOSPC, "No space left on device")
            return write(self, data)

        monkeypatch.setattr(type(partition.log.active_segment), "write", fail)
        with pytest.raises(ApiError) as refused:
            await partition.append(world.batch(b"lost"))
        assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        assert world.storage.is_full
        full = False
        with pytest.raises(ApiError):
            await partition.append(world.batch(b"too early"))
        assert await world.values() == [b"before"]
        world.clock.advance(RETRY_SECONDS)
        assert (await partition.append(world.batch(b"after"))).base_offset == 1
        assert await world.values() == [b"before", b"after"]

    scene(play)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE])
def test_what_passes_is_tried_again(scene: Callable[..., None], number: int) -> None:
    async def play(world: World) -> None:
        world.storage.on_error(OSError(number, "for now"))
        assert world.storage.refusal is not None and "by themselves" in world.storage.refusal
        world.clock.advance(RETRY_SECONDS)
        assert world.storage.refusal is None
        world.storage.on_error(OSError(errno.EIO, "for good"))
        world.storage.on_error(OSError(number, "for now"))
        world.clock.advance(3600)
        assert world.storage.refusal is not None and "restart" in world.storage.refusal

    scene(play)


def test_a_failed_fsync_acknowledges_nothing_and_is_final(
    scene: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play(world: World) -> None:
        partition = world.partition

        def fail(self: Any, up_to_offset: Any = None) -> int:
            raise OSError(errno.EIO, "Input/output error")

        monkeypatch.setattr(type(partition.log), "sync_files", fail)
        await partition.append(world.batch(b"a"))
        wait = partition.committed(0)
        assert wait is not None
        with pytest.raises(ApiError) as failed:
            await wait
        assert failed.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        assert partition.high_watermark == 0
        world.clock.advance(3600)
        with pytest.raises(ApiError):
            await partition.append(world.batch(b"b"))

    scene(play, flush_messages=1)


def test_no_room_for_what_lies_beside_the_records_is_not_final(
    scene: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play(world: World) -> None:
        partition = world.partition
        replace, full = RealDisk.replace, True

        def fail(self: Any, path: str, data: bytes) -> None:
            if full:
                raise OSError(errno.ENOSPC, "No space left on device")
            replace(self, path, data)

        monkeypatch.setattr(RealDisk, "replace", fail)
        await partition.append(world.batch(b"a"))
        wait = partition.committed(0)
        assert wait is not None
        with pytest.raises(ApiError):
            await wait
        assert partition.high_watermark == 0
        assert world.storage.is_full
        full = False
        world.clock.advance(RETRY_SECONDS)
        await partition.append(world.batch(b"b"))
        wait = partition.committed(1)
        if wait is not None:
            await wait
        assert partition.high_watermark == 2
        assert world.storage.refusal is None

    scene(play, flush_messages=1)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.ZSTD, Codec.NONE])
def test_other_codecs_are_recompressed(scene: Callable[..., None], codec: Codec) -> None:
    async def play(world: World) -> None:
        values = [b"value-%d" % number for number in range(50)]
        await world.partition.append(world.batch(*values, codec=codec))
        region = await world.partition.read(0, 1 << 20, min_one_batch=True)
        assert region.file is not None
        assert parse_header(region.file.pread(61, region.position)).codec is Codec.LZ4
        assert await world.values() == values

    scene(play, compression_type=Codec.LZ4)


def test_a_batch_that_lies_about_its_compression_is_refused(scene: Callable[..., None]) -> None:
    async def play(world: World) -> None:
        from ottla.wire.records import set_crc

        batch = world.batch(b"not gzip at all" * 10)
        batch[22] = batch[22] & ~7 | Codec.GZIP
        set_crc(batch)
        with pytest.raises(ApiError) as refused:
            await world.partition.append(batch)
        assert refused.value.code is ErrorCode.CORRUPT_MESSAGE
        assert (await world.partition.append(world.batch(b"fine"))).base_offset == 0

    scene(play, compression_type=Codec.LZ4)


def test_a_compacted_topic_wants_keys(scene: Callable[..., None]) -> None:
    async def play(world: World) -> None:
        with pytest.raises(ApiError) as refused:
            await world.partition.append(world.batch(b"keyless"))
        assert refused.value.code is ErrorCode.INVALID_RECORD
        builder = BatchBuilder()
        builder.append(world.clock.now_ms(), b"k", b"v")
        assert (await world.partition.append(memoryview(builder.build()))).base_offset == 0

    scene(play, cleanup_policy=frozenset({CleanupPolicy.COMPACT}))


def test_retention_takes_whole_segments_and_moves_the_start(scene: Callable[..., None]) -> None:
    async def play(world: World) -> None:
        partition = world.partition
        for number in range(6):
            await partition.append(world.batch(b"%d" % number * 200))
        world.clock.advance(10)
        expired = await partition.enforce_retention()
        assert expired
        assert partition.log.log_start_offset == partition.log.log_end_offset == 6  # The active one was rolled to go.
        with pytest.raises(ApiError) as gone:
            await partition.read(0, 100, min_one_batch=True)
        assert gone.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
        assert (await partition.append(world.batch(b"new"))).base_offset == 6

    scene(play, segment_bytes=500, retention_ms=5_000)


def test_delete_records_moves_the_start_but_not_past_the_watermark(scene: Callable[..., None]) -> None:
    async def play(world: World) -> None:
        await world.partition.append(world.batch(b"a", b"b", b"c"))
        assert await world.partition.delete_records_before(2) == 2
        assert await world.partition.delete_records_before(-1) == 3
        with pytest.raises(ApiError) as past:
            await world.partition.delete_records_before(4)
        assert past.value.code is ErrorCode.OFFSET_OUT_OF_RANGE

    scene(play)


def test_watchers_hear_of_appends_and_of_the_end(scene: Callable[..., None]) -> None:
    class Watcher:
        def __init__(self) -> None:
            self.heard: list[int] = []

        def on_partition_changed(self, appended_bytes: int) -> None:
            self.heard.append(appended_bytes)

        def on_watermark_moved(self) -> None:
            raise AssertionError("only those who watch the end hear this")

    async def play(world: World) -> None:
        watcher = Watcher()
        world.partition.watch(watcher)
        batch = world.batch(b"a")
        await world.partition.append(batch)
        world.partition.mark_deleted()
        assert watcher.heard == [len(batch), 0]
        world.partition.unwatch(watcher)
        with pytest.raises(ApiError) as deleted:
            await world.partition.append(world.batch(b"b"))
        assert deleted.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    scene(play)


def test_leader_epochs_are_fenced(scene: Callable[..., None]) -> None:
    async def play(world: World) -> None:
        world.partition.leader_epoch = 3
        assert world.partition.check_leader_epoch(-1) is ErrorCode.NONE
        assert world.partition.check_leader_epoch(3) is ErrorCode.NONE
        assert world.partition.check_leader_epoch(2) is ErrorCode.FENCED_LEADER_EPOCH
        assert world.partition.check_leader_epoch(4) is ErrorCode.UNKNOWN_LEADER_EPOCH

    scene(play)
