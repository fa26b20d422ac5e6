"""Opening and closing a node over its ports, in the one order that is safe.

Open: identities of the log directories (another cluster's or node's is refused), the metadata log and a new epoch,
registration, then the partitions. Close: no flush is under way any more, logs first, the clean-shutdown markers last.
"""

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from posixpath import join
from typing import Final

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.owned_tasks import OwnedTasks
from ottla.base.types import NO_NODE, NodeId
from ottla.broker.bootstrap_servers import SETTING as BOOTSTRAP_SETTING
from ottla.broker.bootstrap_servers import Address, BadAddress, ask_cluster_id, bootstrap_servers, find_cluster_id
from ottla.broker.dispatch import APIS
from ottla.broker.node import AddressOf, Node, World
from ottla.broker.peers import Loopback, Nobody
from ottla.broker.quorum.building import build_quorum
from ottla.broker.quorum.driver import Quorum
from ottla.broker.quorum.membership import Membership
from ottla.broker.quorum.own_snapshots import OwnSnapshots
from ottla.broker.registration import NodeIdentity, previous_broker_epoch
from ottla.log.directory import LogDirectory, read_identity
from ottla.log.handles import HandleCache
from ottla.metadata.bootstrap import new_cluster_id, usable_uuid
from ottla.metadata.configs import MIN_INSYNC_REPLICAS, BrokerConfig
from ottla.metadata.controller.decision import ControllerSettings
from ottla.metadata.features import SUPPORTED_FEATURES
from ottla.metadata.image import MetadataImage
from ottla.metadata.image_parts import ConfigResourceType
from ottla.metadata.image_parts import Endpoint as BrokerEndpoint
from ottla.metadata.min_isr import setting_without_effect
from ottla.metadata.topic_names import METADATA_TOPIC
from ottla.raft.voters import Endpoint, ReplicaKey, Voter
from ottla.replica.partitions import Partitions
from ottla.replica.storage import Storage

logger = logging.getLogger(__name__)

PLAINTEXT: Final = 0


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
    directories: Sequence[LogDirectory]
    storages: Sequence[Storage]
    metadata_snapshots: OwnSnapshots
    listeners: Sequence[AdvertisedListener]
    membership: Membership
    tasks: OwnedTasks


async def open_node(
    world: World, config: BrokerConfig, listeners: Sequence[AdvertisedListener], handles: HandleCache
) -> OpenNode:
    """A node that serves clients."""
    opened = await prepare_node(world, config, listeners, handles)
    await start_node(opened)
    return opened


async def prepare_node(
    world: World, config: BrokerConfig, listeners: Sequence[AdvertisedListener], handles: HandleCache
) -> OpenNode:
    """A node that takes part in the metadata quorum: its peers' requests can be answered from here on."""
    node_id = config.integer("node.id")
    own_addresses = [(listener.host, listener.port) for listener in listeners]
    try:
        servers = bootstrap_servers(config, own_addresses)
    except BadAddress as error:
        raise StartRefused(str(error)) from None
    cluster_id = await _cluster_id(world, config, servers)
    directories = await world.workers.run(_open_directories, world, config, cluster_id, handles)
    metadata_directory = _metadata_directory(config, directories)
    me = Voter(
        key=ReplicaKey(node_id, metadata_directory.directory_id),
        endpoints=tuple(Endpoint(one.name, one.host, one.port) for one in listeners),
    )
    is_controller = "controller" in config.listing("process.roles")
    quorum = await build_quorum(
        config=config,
        cluster_id=cluster_id,
        me=me,
        bootstrap_ids=servers,
        may_found=is_controller and not config.listing(BOOTSTRAP_SETTING),
        directory=metadata_directory,
        disk=world.disk,
        clock=world.clock,
        workers=world.workers,
        chance=world.chance,
    )
    if not quorum.voters and not servers:
        raise StartRefused(f"{metadata_directory.path} belongs to a node of a cluster: set {BOOTSTRAP_SETTING}")
    settings = ControllerSettings(
        node_id=node_id,
        new_uuid=lambda: usable_uuid(world.new_uuid),
        default_partition_count=config.integer("num.partitions"),
        default_replication_factor=config.integer("default.replication.factor"),
        topic_deletion_enabled=config.flag("delete.topic.enable"),
        static_broker_configs=config.texts,
    )
    storages = [Storage(directory, world.clock, world.workers) for directory in directories]
    partitions = Partitions(
        node_id=node_id,
        storages=storages,
        clock=world.clock,
        workers=world.workers,
        producer_id_expiration_ms=config.integer("producer.id.expiration.ms"),
        replica_lag_seconds=config.integer("replica.lag.time.max.ms") / 1000,
    )
    node = Node(
        world=world,
        config=config,
        cluster_id=cluster_id,
        quorum=quorum,
        settings=settings,
        identity=NodeIdentity(
            node_id=node_id,
            cluster_id=cluster_id,
            incarnation_id=usable_uuid(world.new_uuid),
            endpoints=[
                BrokerEndpoint(name=one.name, host=one.host, port=one.port, security_protocol=PLAINTEXT)
                for one in listeners
            ],
            rack=config.string("broker.rack"),
            directory_ids=[directory.directory_id for directory in directories],
            previous_broker_epoch=previous_broker_epoch(directories),
            is_controller=is_controller,
            is_broker="broker" in config.listing("process.roles"),
        ),
        storages=storages,
        partitions=partitions,
        connect_peers=lambda node: world.connect_peers(node_id, Loopback(node, APIS), _address_of(quorum, servers)),
    )
    quorum.start(node.peers)
    return OpenNode(
        node=node,
        directories=directories,
        storages=storages,
        metadata_snapshots=OwnSnapshots(
            quorum,
            world.clock,
            snapshot_bytes=config.integer("metadata.log.max.record.bytes.between.snapshots"),
            snapshot_seconds=config.integer("metadata.log.max.snapshot.interval.ms") / 1000,
        ),
        listeners=listeners,
        membership=Membership(
            quorum,
            node.peers,
            me=me,
            cluster_id=cluster_id,
            may_join=is_controller and config.flag("controller.quorum.auto.join.enable"),
        ),
        tasks=OwnedTasks(),
    )


async def start_node(opened: OpenNode) -> None:
    """Finds the controller, registers, opens the partitions; then the node serves clients."""
    node = opened.node
    try:
        await node.quorum.wait_leader()
        opened.tasks.spawn(opened.membership.settle(), name="join the quorum")
        await node.lifecycle.register()
    except ApiError as error:
        text = _refusal_text(error, node.image)
        if node.quorum.leader_id == NO_NODE and error.code is ErrorCode.INCONSISTENT_CLUSTER_ID:
            text = await _wrong_cluster_text(opened)
        await opened.tasks.cancel()
        await node.quorum.close()
        raise StartRefused(text) from error
    if node.lifecycle.is_broker:
        await node.wait_registered()
        await node.load()
        node.lifecycle.start()
        await node.lifecycle.wait_unfenced()
    else:
        await node.load()
    await node.quorum.reserve.keep()
    node.on_ready()
    _tell_settings_without_effect(node)


def _tell_settings_without_effect(node: Node) -> None:
    cluster = node.image.configs_of(ConfigResourceType.BROKER, "").get(MIN_INSYNC_REPLICAS)
    text = setting_without_effect(node.config.texts.get(MIN_INSYNC_REPLICAS), cluster)
    is_about_to_count = node.is_active_controller and cluster is None and len(node.image.brokers) == 1
    if text is not None and not is_about_to_count:
        logger.warning(text)


async def _wrong_cluster_text(opened: OpenNode) -> str:
    node = opened.node
    voters = [node_id for node_id in node.quorum.foreign_ids if node_id >= 0]
    who = f"the nodes {', '.join(map(str, voters))}" if voters else f"the nodes of {BOOTSTRAP_SETTING}"
    theirs = "another"
    for node_id in voters or node.quorum.foreign_ids:
        with suppress(ApiError):
            theirs = await ask_cluster_id(node.peers, node_id)
            break
    return (
        f"{who} answer INCONSISTENT_CLUSTER_ID: their cluster is {theirs}, and {opened.directories[0].path} belongs to "
        f"cluster {node.cluster_id}. Set log.dirs to the directory of this node in their cluster, or "
        f"{BOOTSTRAP_SETTING} to nodes of its own; with an empty directory it joins them as a new node"
    )


def _refusal_text(error: ApiError, image: MetadataImage) -> str:
    """The controller's answer is a code; what it means to whoever started an older version is told here."""
    for name, level in image.features.items():
        supported = SUPPORTED_FEATURES.get(name)
        low, high = (0, 0) if supported is None else supported.range
        if error.code is ErrorCode.UNSUPPORTED_VERSION and not low <= level <= high:
            return (
                f"the cluster's {name} is {level}, and this version of Ottla supports {low} to {high}: "
                "start the version that the other nodes run"
            )
    return f"the cluster does not take this node: {error.code.name}: {error.message}"


def _address_of(quorum: Quorum, servers: Mapping[NodeId, Address]) -> AddressOf:
    def address_of(node_id: NodeId) -> Address | None:
        if node_id < 0:
            return servers.get(node_id)
        known = quorum.address_of(node_id)
        broker = quorum.image.brokers.get(node_id)
        if known is None and broker is not None and broker.endpoints:
            known = (broker.endpoints[0].host, broker.endpoints[0].port)
        return known

    return address_of


def log_dirs(config: BrokerConfig) -> tuple[str, ...]:
    return config.listing("log.dirs") or config.listing("log.dir")


async def _cluster_id(world: World, config: BrokerConfig, servers: Mapping[NodeId, Address]) -> str:
    """That of the first directory that has one; else that of the cluster which this node joins, or a new one."""
    found = await world.workers.run(_read_cluster_id, world, config)
    if found is not None:
        return found
    if not config.listing(BOOTSTRAP_SETTING):
        return new_cluster_id(world.new_uuid)
    peers = world.connect_peers(config.integer("node.id"), Nobody(), servers.get)
    try:
        return await find_cluster_id(peers, servers)
    finally:
        peers.close()


def _read_cluster_id(world: World, config: BrokerConfig) -> str | None:
    identities = (read_identity(world.disk, path) for path in log_dirs(config))
    return next((identity.cluster_id for identity in identities if identity is not None), None)


def _open_directories(world: World, config: BrokerConfig, cluster_id: str, handles: HandleCache) -> list[LogDirectory]:
    """Blocking."""
    return [
        LogDirectory.open(
            world.disk,
            path,
            cluster_id=cluster_id,
            node_id=config.integer("node.id"),
            new_directory_id=usable_uuid(world.new_uuid),
            handles=handles,
        )
        for path in log_dirs(config)
    ]


def _metadata_directory(config: BrokerConfig, directories: Sequence[LogDirectory]) -> LogDirectory:
    wanted = config.string("metadata.log.dir")
    if wanted is None:
        return directories[0]
    for directory in directories:
        if directory.path == wanted:
            return directory
    raise StartRefused(f"metadata.log.dir {wanted} is not one of log.dirs")


async def close_node(opened: OpenNode) -> None:
    """A clean shutdown; requests have ended before. A directory that failed gets no marker and is recovered."""
    node = opened.node
    node.coordinators.close()
    await opened.tasks.cancel()
    await node.replication.close()
    await node.quorum.close()
    await node.verification.close()
    await node.transactions.close()
    await node.partitions.removal.close()
    for storage in opened.storages:
        await storage.tasks.settle()
    for storage in opened.storages:
        if storage.refusal is not None:
            continue
        logs = [partition.log for partition in node.partitions.in_directory(storage.path)]
        if node.quorum.store.log.directory == join(storage.path, f"{METADATA_TOPIC}-0"):
            logs.append(node.quorum.store.log)
        try:
            await node.partitions.write_high_watermarks(storage)
            await node.workers.run(storage.directory.close, logs, broker_epoch=node.broker_epoch)
        except OSError as error:
            logger.error("log directory %s was not closed cleanly: %s", storage.path, error)
