"""The quorum of a node from its configuration and its metadata directory."""

from collections.abc import Callable, Iterable
from typing import Final

from ottla.base.clock import Clock
from ottla.base.disk import Disk
from ottla.base.types import NodeId, TopicPartition
from ottla.base.workers import Workers
from ottla.broker.quorum.driver import Quorum
from ottla.broker.quorum.opening import OpenedQuorum, open_quorum
from ottla.broker.quorum.reserve import Reserve
from ottla.broker.quorum.store import QuorumStore
from ottla.log.config import FOREVER, LogConfig
from ottla.log.directory import LogDirectory
from ottla.log.partition_log import PartitionLog
from ottla.metadata.configs import BrokerConfig
from ottla.metadata.topic_names import METADATA_TOPIC
from ottla.raft.settings import RaftSettings
from ottla.raft.voters import Voter

METADATA_BATCH_BYTES_MAX: Final = 64 << 20  # One decision is one batch; ten thousand records fit.


async def build_quorum(
    *,
    config: BrokerConfig,
    cluster_id: str,
    me: Voter,
    bootstrap_ids: Iterable[NodeId],
    may_found: bool,
    directory: LogDirectory,
    disk: Disk,
    clock: Clock,
    workers: Workers,
    chance: Callable[[], float],
) -> Quorum:
    def open_files() -> tuple[PartitionLog, OpenedQuorum]:
        log = directory.open_partition(TopicPartition(METADATA_TOPIC, 0), _log_config(config), clock.now_ms())
        return log, open_quorum(disk, log, me, may_found=may_found)

    log, opened = await workers.run(open_files)
    return Quorum(
        opened=opened,
        settings=raft_settings(config, me, bootstrap_ids),
        cluster_id=cluster_id,
        store=QuorumStore(log=log, log_directory=directory, disk=disk, clock=clock, workers=workers),
        reserve=Reserve(disk, workers, log.directory),
        clock=clock,
        chance=chance,
    )


def raft_settings(config: BrokerConfig, me: Voter, bootstrap_ids: Iterable[NodeId]) -> RaftSettings:
    fetch_timeout_ms = config.integer("controller.quorum.fetch.timeout.ms")
    return RaftSettings(
        me=me.key,
        endpoints=me.endpoints,
        bootstrap_ids=tuple(bootstrap_ids),
        fetch_timeout_ms=fetch_timeout_ms,
        election_timeout_ms=config.integer("controller.quorum.election.timeout.ms"),
        election_backoff_ms_max=config.integer("controller.quorum.election.backoff.max.ms"),
        # One lost message is no reason for an election, whatever the configuration says.
        request_timeout_ms=min(config.integer("controller.quorum.request.timeout.ms"), fetch_timeout_ms // 2),
        retry_backoff_ms=config.integer("controller.quorum.retry.backoff.ms"),
        fetch_wait_ms_max=fetch_timeout_ms // 4,
    )


def _log_config(config: BrokerConfig) -> LogConfig:
    """Every append is synced before it counts; nothing expires but by a snapshot."""
    return LogConfig(
        segment_bytes=config.integer("metadata.log.segment.bytes"),
        flush_messages=1,
        retention_ms=FOREVER,
        retention_bytes=FOREVER,
        max_message_bytes=METADATA_BATCH_BYTES_MAX,
    )
