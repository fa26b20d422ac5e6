"""A node's life: clean and unclean restarts, foreign directories, metadata applied to logs, housekeeping."""

import asyncio
import errno
import shutil
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from ottla.base.errors import ErrorCode
from ottla.broker.housekeeping import Housekeeping
from ottla.log.directory import LogDirectory
from ottla.log.meta_properties import WrongDirectory
from ottla.log.partition_metadata import encode_partition_metadata
from ottla.server.real_disk import RealDisk, RealFile
from ottla.wire import api
from ottla.wire.apis import ApiKey
from tests.unit.broker.real_node import RealNode, play, produce_request
from tests.unit.fakes import FakeClock


def test_a_clean_restart_keeps_everything_and_recovers_nothing(tmp_path: Path) -> None:
    async def run() -> None:
        node = await RealNode.open(tmp_path, {})
        topic_id = await node.create_topic("t", 3, retention_ms="12345")
        await node.produce("t", b"a", b"b", index=2)
        cluster_id = node.node.cluster_id
        await node.close()
        again = await RealNode.open(tmp_path, {})
        assert again.opened.storages[0].directory.was_clean_shutdown
        assert again.node.cluster_id == cluster_id
        assert again.node.image.topics["t"].id == topic_id
        partition = again.node.partitions.leader_of("t", 2)
        assert partition.high_watermark == 2
        assert partition.leader_epoch == 0
        assert partition.log.config.retention_ms == 12345
        assert (await again.produce("t", b"c", index=2)).base_offset == 2
        await again.close()

    asyncio.run(run())


def test_after_a_crash_logs_are_recovered_and_epochs_move(tmp_path: Path) -> None:
    async def run() -> None:
        node = await RealNode.open(tmp_path, {})
        await node.create_topic("t")
        await node.produce("t", b"a", b"b")
        with (tmp_path / "t-0" / "00000000000000000000.log").open("ab") as log:
            log.write(b"torn" * 10)  # What a power cut may leave of a batch.
        again = await RealNode.open(tmp_path, {})
        assert not again.opened.storages[0].directory.was_clean_shutdown
        partition = again.node.partitions.leader_of("t", 0)
        assert partition.high_watermark == 2
        assert partition.leader_epoch == 1
        assert (await again.produce("t", b"c")).base_offset == 2
        await again.close()

    asyncio.run(run())


def test_a_directory_of_another_node_is_refused(tmp_path: Path) -> None:
    async def run() -> None:
        node = await RealNode.open(tmp_path, {})
        await node.close()
        with pytest.raises(WrongDirectory, match="node 1, this is node 2"):
            await RealNode.open(tmp_path, {"node.id": "2"})

    asyncio.run(run())


def test_directories_of_two_clusters_are_refused(tmp_path: Path) -> None:
    async def run() -> None:
        for name in ("one", "two"):
            (tmp_path / name).mkdir()
            node = await RealNode.open(tmp_path / name, {})
            await node.close()
        properties = tmp_path / "two" / "meta.properties"
        lines = properties.read_text().splitlines()
        changed = ["cluster.id=AnotherClusterAltogethe" if line.startswith("cluster.id") else line for line in lines]
        properties.write_text("\n".join(changed))
        with pytest.raises(WrongDirectory, match="belongs to cluster"):
            await RealNode.open(tmp_path / "one", {"log.dirs": f"{tmp_path / 'one'},{tmp_path / 'two'}"})

    asyncio.run(run())


def test_partitions_spread_over_the_log_directories(tmp_path: Path) -> None:
    async def run() -> None:
        directories = {"log.dirs": f"{tmp_path / 'a'},{tmp_path / 'b'}"}
        node = await RealNode.open(tmp_path / "a", directories)
        await node.create_topic("t", 6)
        await node.produce("t", b"x", index=5)
        places = {path: len(node.node.partitions.in_directory(str(tmp_path / path))) for path in ("a", "b")}
        assert places == {"a": 3, "b": 3}
        await node.close()
        again = await RealNode.open(tmp_path / "a", directories)
        assert again.node.partitions.leader_of("t", 5).high_watermark == 1
        await again.close()

    asyncio.run(run())


def test_a_former_topics_directory_does_not_hide_the_log_of_the_name(tmp_path: Path) -> None:
    """Whichever of several log directories it lies in."""

    async def run() -> None:
        directories = {"log.dirs": f"{tmp_path / 'a'},{tmp_path / 'b'}"}
        node = await RealNode.open(tmp_path / "a", directories)
        await node.create_topic("t", 2)
        for index in (0, 1):
            await node.produce("t", b"x", index=index)
        await node.close()
        for log in sorted(tmp_path.glob("[ab]/t-?")):
            former = tmp_path / {"a": "b", "b": "a"}[log.parent.name] / log.name
            shutil.copytree(log, former)
            (former / "partition.metadata").write_bytes(encode_partition_metadata(UUID(int=5)))
        again = await RealNode.open(tmp_path / "a", directories)
        assert [again.node.partitions.leader_of("t", index).high_watermark for index in (0, 1)] == [1, 1]
        assert [len(list((tmp_path / path).glob("t-*-stray"))) for path in ("a", "b")] == [1, 1]
        await again.close()

    asyncio.run(run())


def test_what_belongs_to_no_topic_is_left_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        stray = tmp_path / "stranger-0"
        stray.mkdir(parents=True)
        (stray / "00000000000000000000.log").write_bytes(b"precious")
        node = await RealNode.open(tmp_path, {})
        assert "stranger-0" in caplog.text
        await node.close()
        assert (stray / "00000000000000000000.log").read_bytes() == b"precious"

    asyncio.run(run())


def test_a_log_that_cannot_be_opened_is_offline_and_the_others_serve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        node = await RealNode.open(tmp_path, {})
        await node.create_topic("t", 2)
        await node.close()
        listing = RealDisk.list_with_sizes

        def fail(self: RealDisk, path: str) -> list[tuple[str, int]]:
            if path.endswith("t-1"):
                raise OSError(errno.EIO, "Input/output error")
            return listing(self, path)

        monkeypatch.setattr(RealDisk, "list_with_sizes", fail)
        again = await RealNode.open(tmp_path, {})
        assert (await again.produce("t", b"fine", index=0)).error_code == 0
        assert (await again.produce("t", b"lost", index=1)).error_code == ErrorCode.KAFKA_STORAGE_ERROR

    asyncio.run(run())


# -- metadata applied -------------------------------------------------------------------------------------------------


async def alter(node: RealNode, topic: str, **configs: str) -> None:
    changes = [
        api.IncrementalAlterConfigsRequest.AlterableConfig(name=name.replace("_", "."), config_operation=0, value=value)
        for name, value in configs.items()
    ]
    resource = api.IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=2, resource_name=topic, configs=changes
    )
    request = api.IncrementalAlterConfigsRequest(resources=[resource])
    response = await node.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, request)
    assert response.responses[0].error_code == 0, response.responses[0].error_message


def test_a_topic_created_is_there_when_its_answer_is(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        for number in range(20):
            await node.create_topic(f"t{number}", 3)
            assert (await node.produce(f"t{number}", b"x", index=2)).error_code == 0

    play(tmp_path, scene)


def test_partitions_added_are_served(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        await node.create_topic("t")
        more = api.CreatePartitionsRequest.CreatePartitionsTopic(name="t", count=3, assignments=None)
        response = await node.ask(ApiKey.CREATE_PARTITIONS, api.CreatePartitionsRequest(topics=[more], timeout_ms=1000))
        assert response.results[0].error_code == 0
        assert (await node.produce("t", b"x", index=2)).error_code == 0

    play(tmp_path, scene)


def test_a_live_change_takes_effect_with_the_next_append(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        await node.create_topic("t")
        assert (await node.produce("t", b"x" * 500)).error_code == 0
        await alter(node, "t", max_message_bytes="200")
        assert (await node.produce("t", b"x" * 500)).error_code == ErrorCode.MESSAGE_TOO_LARGE

    play(tmp_path, scene)


def test_retention_lowered_live_frees_the_log_at_once(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        housekeeping = Housekeeping(node.opened)
        housekeeping.start()
        await node.create_topic("t", segment_bytes="1048576", file_delete_delay_ms="0")
        for _ in range(4):
            await node.produce("t", b"x" * 400_000)
        node.clock.advance(60)
        await alter(node, "t", retention_ms="1000")
        for _ in range(100):
            await asyncio.sleep(0.005)
            if node.node.partitions.leader_of("t", 0).log.log_start_offset == 4:
                break
        assert node.node.partitions.leader_of("t", 0).log.log_start_offset == 4
        await asyncio.sleep(0.05)
        stored = sum(path.stat().st_size for path in (tmp_path / "t-0").glob("*.log*"))
        assert stored == 0
        assert (await node.produce("t", b"after")).base_offset == 4
        await housekeeping.stop()

    play(tmp_path, scene)


def test_a_deleted_topic_leaves_no_files(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        await node.create_topic("t", file_delete_delay_ms="0")
        await node.produce("t", b"x")
        await node.delete_topic("t")
        assert not (tmp_path / "t-0").exists()
        await asyncio.sleep(0.05)
        assert not list(tmp_path.glob("t-0*"))
        await node.create_topic("t")
        assert (await node.produce("t", b"new")).base_offset == 0

    play(tmp_path, scene)


def test_a_produce_that_waits_for_a_roll_survives_the_deletion_of_its_topic(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        await node.create_topic("t", segment_bytes="1048576")
        for _ in range(2):
            await node.produce("t", b"x" * 500_000)
        node.workers.hold()
        waiting = asyncio.create_task(node.ask(ApiKey.PRODUCE, produce_request("t", node.batch(b"y" * 200_000)), 9))
        await asyncio.sleep(0.01)
        node.node.partitions.leader_of("t", 0).mark_deleted()
        node.workers.release()
        outcome = (await asyncio.wait_for(waiting, 5)).responses[0].partition_responses[0]
        assert outcome.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert node.opened.storages[0].refusal is None  # A vanished file is not a broken disk.

    play(tmp_path, scene)


# -- housekeeping -----------------------------------------------------------------------------------------------------


def test_checkpoints_are_written(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        await node.create_topic("t")
        await node.produce("t", b"a", b"b")
        housekeeping = Housekeeping(node.opened)
        await housekeeping.write_high_watermarks()
        await housekeeping.write_recovery_points()
        await housekeeping.write_log_starts()
        assert "t 0 2" in (tmp_path / "replication-offset-checkpoint").read_text()
        assert "t 0 0" in (tmp_path / "recovery-point-offset-checkpoint").read_text()
        assert (tmp_path / "log-start-offset-checkpoint").exists()

    play(tmp_path, scene)


def test_metadata_snapshots_bound_the_log_and_carry_the_cluster(tmp_path: Path) -> None:
    async def run() -> None:
        clock = FakeClock()
        config = {"metadata.log.max.record.bytes.between.snapshots": "2000"}
        node = await RealNode.open(tmp_path, config, clock)
        housekeeping = Housekeeping(node.opened)
        for number in range(60):
            await node.create_topic(f"topic-{number}", 2)
            await housekeeping.snapshot_metadata()
        metadata = tmp_path / "__cluster_metadata-0"
        assert list(metadata.glob("*.checkpoint"))
        assert node.node.quorum.store.log.log_start_offset > 0
        await node.close()
        again = await RealNode.open(tmp_path, config, clock)
        assert len(again.node.image.topics) == 60
        await again.create_topic("one-more")
        await again.close()

    asyncio.run(run())


def test_a_full_disk_gets_retention_without_waiting(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        await node.create_topic("t", segment_bytes="1048576", retention_ms="1000", file_delete_delay_ms="60000")
        for _ in range(4):
            await node.produce("t", b"x" * 400_000)
        node.clock.advance(60)
        storage: Any = node.opened.storages[0]
        storage.on_error(OSError(errno.ENOSPC, "No space left on device"))
        await Housekeeping(node.opened).relieve_full_disks()
        await asyncio.sleep(0.05)
        stored = sum(path.stat().st_size for path in (tmp_path / "t-0").glob("*.log*"))
        assert stored == 0

    play(tmp_path, scene)


def test_what_a_full_disk_kept_from_opening_is_opened_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene(node: RealNode) -> None:
        make = RealDisk.make_directory
        full = True

        def fail(self: RealDisk, path: str) -> None:
            if full and path.endswith("t-0"):
                raise OSError(errno.ENOSPC, "No space left on device")
            make(self, path)

        monkeypatch.setattr(RealDisk, "make_directory", fail)
        await node.create_topic("t")
        assert (await node.produce("t", b"x")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        full = False
        await Housekeeping(node.opened).relieve_full_disks()
        assert (await node.produce("t", b"x")).base_offset == 0

    play(tmp_path, scene)


def test_what_a_full_disk_kept_from_opening_is_opened_where_it_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        directories = {"log.dirs": f"{tmp_path / 'a'},{tmp_path / 'b'}"}
        node = await RealNode.open(tmp_path / "a", directories)
        await node.create_topic("t", 4)
        for index in range(4):
            await node.produce("t", b"x", index=index)
        await node.close()

        def fail(*_: object, **__: object) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        with monkeypatch.context() as full:
            full.setattr(LogDirectory, "forget_absent", fail)
            again = await RealNode.open(tmp_path / "a", directories)
        assert list(again.node.partitions) == []
        await Housekeeping(again.opened).relieve_full_disks()
        assert [again.node.partitions.leader_of("t", index).high_watermark for index in range(4)] == [1] * 4
        await again.close()

    asyncio.run(run())


def test_the_reserve_records_the_change_that_frees_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene(node: RealNode) -> None:
        reserve = tmp_path / "__cluster_metadata-0" / "reserve"
        assert reserve.exists()
        await node.create_topic("t")
        write = RealFile.pwrite

        def fail(self: RealFile, data: Any, position: int) -> None:
            if reserve.exists() and "__cluster_metadata" in self.path:
                raise OSError(errno.ENOSPC, "No space left on device")
            write(self, data, position)

        monkeypatch.setattr(RealFile, "pwrite", fail)
        await alter(node, "t", retention_ms="1000")
        assert not reserve.exists()
        assert node.node.partitions.leader_of("t", 0).log.config.retention_ms == 1000
        monkeypatch.undo()
        await Housekeeping(node.opened).relieve_full_disks()
        assert reserve.exists()

    play(tmp_path, scene)


def test_a_clean_stop_leaves_word_of_what_was_committed(tmp_path: Path) -> None:
    """Else records of the last seconds that an unclean election loses would not count as lost."""

    async def scene(node: RealNode) -> None:
        await node.create_topic("t")
        await node.produce("t", b"x")

    play(tmp_path, scene)
    assert "t 0 1" in (tmp_path / "replication-offset-checkpoint").read_text().splitlines()
