"""Opening and closing a node over its ports, in the one order that is safe.

Open: identities of the log directories (another cluster's or node's is refused), the metadata log and a new epoch,
registration, then the partitions. Close: no flush is under way any more, logs first, the clean-shutdown markers last.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from posixpath import join
from typing import Final

from ottla.base.types import TopicPartition
from ottla.broker.dispatch import APIS
from ottla.broker.metadata_store import MetadataStore
from ottla.broker.node import Node, World
from ottla.broker.peers import Loopback
from ottla.log.config import FOREVER, LogConfig
from ottla.log.directory import LogDirectory, read_identity
from ottla.log.handles import HandleCache
from ottla.log.partition_log import PartitionLog
from ottla.metadata.bootstrap import new_cluster_id, usable_uuid
from ottla.metadata.configs import BrokerConfig
from ottla.metadata.controller.brokers import (
    decide_register_broker,
    decide_register_controller,
    decide_unfence_broker,
)
from ottla.metadata.controller.decision import ControllerSettings, broker_layers
from ottla.metadata.features import SUPPORTED_FEATURES
from ottla.metadata.quorum_of_one import QuorumOfOne, open_quorum_of_one
from ottla.metadata.runtime import ControllerRuntime
from ottla.metadata.topic_names import METADATA_TOPIC
from ottla.replica.partitions import Partitions
from ottla.replica.storage import Storage
from ottla.wire import api

logger = logging.getLogger(__name__)

PLAINTEXT: Final = 0
METADATA_BATCH_BYTES_MAX: Final = 64 << 20  # One decision is one batch; ten thousand records fit.


class StartRefused(Exception):
    """The node does not start rather than guess with data at stake; the text says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdvertisedListener:
    name: str
    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenNode:
    node: Node
    metadata: MetadataStore
    storages: Sequence[Storage]


async def open_node(
    world: World, config: BrokerConfig, listeners: Sequence[AdvertisedListener], handles: HandleCache
) -> OpenNode:
    node_id = config.integer("node.id")
    cluster_id, directories = await world.workers.run(_open_directories, world, config, handles)
    storages = [Storage(directory, world.clock) for directory in directories]
    metadata_directory = _metadata_directory(config, directories)
    log = await world.workers.run(_open_metadata_log, world, config, metadata_directory)
    opened = await world.workers.run(
        open_quorum_of_one, disk=world.disk, directory=log.directory, log=log, node_id=node_id, clock=world.clock
    )
    store = MetadataStore(
        log=log,
        disk=world.disk,
        clock=world.clock,
        workers=world.workers,
        snapshot_bytes=config.integer("metadata.log.max.record.bytes.between.snapshots"),
        snapshot_seconds=config.integer("metadata.log.max.snapshot.interval.ms") / 1000,
    )
    runtime = ControllerRuntime(QuorumOfOne(log, world.clock, opened.epoch, store.wait_durable), opened.image)
    settings = ControllerSettings(
        node_id=node_id,
        new_uuid=lambda: usable_uuid(world.new_uuid),
        default_partition_count=config.integer("num.partitions"),
        default_replication_factor=config.integer("default.replication.factor"),
        topic_deletion_enabled=config.flag("delete.topic.enable"),
        static_broker_configs=config.texts,
    )
    clean = all(directory.was_clean_shutdown for directory in directories)
    broker_epoch = await _register(world, config, runtime, cluster_id, listeners, directories, clean=clean)
    partitions = Partitions(
        node_id=node_id,
        storages=storages,
        clock=world.clock,
        workers=world.workers,
        producer_id_expiration_ms=config.integer("producer.id.expiration.ms"),
    )
    await partitions.load(runtime.image, broker_layers(runtime.image, settings, node_id))
    node = Node(
        world=world,
        config=config,
        cluster_id=cluster_id,
        broker_epoch=broker_epoch,
        runtime=runtime,
        settings=settings,
        storages=storages,
        partitions=partitions,
        make_room=store.make_room,
        connect_peers=lambda node: world.wrap_peers(Loopback(node, APIS)),
    )
    await store.keep_reserve()
    node.coordinators.follow()
    return OpenNode(node=node, metadata=store, storages=storages)


def log_dirs(config: BrokerConfig) -> tuple[str, ...]:
    return config.listing("log.dirs") or config.listing("log.dir")


def _open_directories(world: World, config: BrokerConfig, handles: HandleCache) -> tuple[str, list[LogDirectory]]:
    """Blocking. The cluster id is that of the first directory that has one; a new node makes one up."""
    paths = log_dirs(config)
    found = [identity for path in paths if (identity := read_identity(world.disk, path)) is not None]
    cluster_id = found[0].cluster_id if found else new_cluster_id(world.new_uuid)
    return cluster_id, [
        LogDirectory.open(
            world.disk,
            path,
            cluster_id=cluster_id,
            node_id=config.integer("node.id"),
            new_directory_id=usable_uuid(world.new_uuid),
            handles=handles,
        )
        for path in paths
    ]


def _metadata_directory(config: BrokerConfig, directories: Sequence[LogDirectory]) -> LogDirectory:
    wanted = config.string("metadata.log.dir")
    if wanted is None:
        return directories[0]
    for directory in directories:
        if directory.path == wanted:
            return directory
    raise StartRefused(f"metadata.log.dir {wanted} is not one of log.dirs")


def _open_metadata_log(world: World, config: BrokerConfig, directory: LogDirectory) -> PartitionLog:
    """Blocking. Every append is synced before it counts; nothing expires but by a snapshot."""
    log_config = LogConfig(
        segment_bytes=config.integer("metadata.log.segment.bytes"),
        flush_messages=1,
        retention_ms=FOREVER,
        retention_bytes=FOREVER,
        max_message_bytes=METADATA_BATCH_BYTES_MAX,
    )
    return directory.open_partition(TopicPartition(METADATA_TOPIC, 0), log_config, world.clock.now_ms())


async def _register(
    world: World,
    config: BrokerConfig,
    runtime: ControllerRuntime,
    cluster_id: str,
    listeners: Sequence[AdvertisedListener],
    directories: Sequence[LogDirectory],
    *,
    clean: bool,
) -> int:
    """This node as the cluster's controller and as its broker; returns the broker epoch."""
    node_id = config.integer("node.id")
    incarnation_id = usable_uuid(world.new_uuid)
    controller = api.ControllerRegistrationRequest(
        controller_id=node_id,
        incarnation_id=incarnation_id,
        listeners=[
            api.ControllerRegistrationRequest.Listener(
                name=one.name, host=one.host, port=one.port, security_protocol=PLAINTEXT
            )
            for one in listeners
        ],
        features=[
            api.ControllerRegistrationRequest.Feature(
                name=name, min_supported_version=feature.min_version, max_supported_version=feature.max_version
            )
            for name, feature in SUPPORTED_FEATURES.items()
        ],
    )
    broker = api.BrokerRegistrationRequest(
        broker_id=node_id,
        cluster_id=cluster_id,
        incarnation_id=incarnation_id,
        listeners=[
            api.BrokerRegistrationRequest.Listener(
                name=one.name, host=one.host, port=one.port, security_protocol=PLAINTEXT
            )
            for one in listeners
        ],
        features=[
            api.BrokerRegistrationRequest.Feature(
                name=name, min_supported_version=feature.min_version, max_supported_version=feature.max_version
            )
            for name, feature in SUPPORTED_FEATURES.items()
        ],
        rack=config.string("broker.rack"),
        log_dirs=[directory.directory_id for directory in directories],
    )
    await runtime.submit(lambda image: decide_register_controller(image, controller))
    broker_epoch = await runtime.submit(lambda image: decide_register_broker(image, broker))
    await runtime.submit(lambda image: decide_unfence_broker(image, node_id, broker_epoch, new_leader_epochs=not clean))
    return broker_epoch


async def close_node(opened: OpenNode) -> None:
    """A clean shutdown; requests have ended before. A directory that failed gets no marker and is recovered."""
    node = opened.node
    node.coordinators.close()
    await node.verification.close()
    await node.transactions.close()
    for storage in opened.storages:
        await storage.tasks.settle()
    for storage in opened.storages:
        if storage.refusal is not None:
            continue
        logs = [partition.log for partition in node.partitions.in_directory(storage.path)]
        if opened.metadata.log.directory == join(storage.path, f"{METADATA_TOPIC}-0"):
            logs.append(opened.metadata.log)
        try:
            await node.workers.run(storage.directory.close, logs, broker_epoch=node.broker_epoch)
        except OSError as error:
            logger.error("log directory %s was not closed cleanly: %s", storage.path, error)
