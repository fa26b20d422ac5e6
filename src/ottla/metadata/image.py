"""The cluster as the metadata log tells it. `replay` is the only mutator, live and at start-up alike.

Invariants: a topic is found by name and by id or by neither; every record refers to what exists; epochs of a partition
only grow. A record that breaks one stops the controller. Two images live in a node: the controller's, which runs ahead
with what is appended, and the broker's, which follows what is committed (`runtime.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple
from uuid import UUID

from ottla.base.errors import invariant, violated
from ottla.base.types import NO_NODE, LeaderEpoch, NodeId, Offset, TimestampMs, TopicId, TopicPartition
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image_parts import (
    UNASSIGNED_DIRECTORY,
    BrokerImage,
    ConfigResource,
    ConfigResourceType,
    ControllerImage,
    Endpoint,
    FeatureRange,
    PartitionImage,
    PartitionRef,
    TopicImage,
)
from ottla.metadata.records import MetadataRecord
from ottla.metadata.replica_index import PartitionKey, ReplicaIndex
from ottla.metadata.scram import ScramCredential, ScramIdentity, ScramMechanism
from ottla.metadata.topic_names import collision_key
from ottla.wire import api

NO_LEADER_CHANGE: Final = -2
NO_RECOVERY_STATE_CHANGE: Final = -1
_RECOVERING: Final = 1  # `RecoveryState` of the controller.


class MetadataBatch(NamedTuple):
    """Records that were appended together: they are replayed together or not at all."""

    records: Sequence[MetadataRecord]
    last_offset: Offset
    epoch: LeaderEpoch
    timestamp_ms: TimestampMs


class MetadataImage:
    __slots__ = (
        "_delta",
        "_index",
        "_names_by_collision_key",
        "_shared",
        "brokers",
        "configs",
        "controllers",
        "epoch",
        "features",
        "next_producer_id",
        "offset",
        "scram_credentials",
        "timestamp_ms",
        "topics",
        "topics_by_id",
    )

    def __init__(self) -> None:
        self.topics: dict[str, TopicImage] = {}
        self.topics_by_id: dict[TopicId, TopicImage] = {}
        self.configs: dict[ConfigResource, dict[str, str]] = {}
        self.brokers: dict[NodeId, BrokerImage] = {}
        self.controllers: dict[NodeId, ControllerImage] = {}
        self.features: dict[str, int] = {}
        self.next_producer_id = 0
        self.scram_credentials: dict[ScramIdentity, ScramCredential] = {}
        self.offset: Offset = -1
        """Of the last record replayed; also the epoch of the finalized features."""
        self.epoch: LeaderEpoch = 0
        self.timestamp_ms: TimestampMs = 0
        self._delta = MetadataDelta()
        self._index: ReplicaIndex | None = None
        self._names_by_collision_key: dict[str, list[str]] = {}
        self._shared: dict[tuple[Any, ...], tuple[Any, ...]] = {}

    def copy(self) -> MetadataImage:
        """An independent image that shares the immutable parts; its delta is empty, its index not built."""
        twin = MetadataImage()
        for topic in self.topics.values():
            twin.topics[topic.name] = twin.topics_by_id[topic.id] = topic.copy()
        twin._names_by_collision_key = {key: names.copy() for key, names in self._names_by_collision_key.items()}
        twin.configs = {resource: texts.copy() for resource, texts in self.configs.items()}
        twin.brokers = self.brokers.copy()
        twin.controllers = self.controllers.copy()
        twin.features = self.features.copy()
        twin.next_producer_id = self.next_producer_id
        twin.scram_credentials = self.scram_credentials.copy()
        twin.offset, twin.epoch, twin.timestamp_ms = self.offset, self.epoch, self.timestamp_ms
        return twin

    def become(self, other: MetadataImage) -> None:
        """All that `other` says, in this object, which others hold. `other` is not to be used any more."""
        for name in MetadataImage.__slots__:
            setattr(self, name, getattr(other, name))

    def take_delta(self) -> MetadataDelta:
        taken, self._delta = self._delta, MetadataDelta()
        return taken

    def configs_of(self, resource_type: ConfigResourceType, name: str) -> dict[str, str]:
        """Read only."""
        return self.configs.get(ConfigResource(resource_type, name), {})

    def colliding_topic(self, name: str) -> str | None:
        """An existing topic whose name differs from `name` only in '.' and '_'."""
        key = collision_key(name)
        names = self._names_by_collision_key.get(key, ()) if key is not None else ()
        return next((other for other in names if other != name), None)

    # ---- partitions by what they have in common; the controller alone asks ----

    def partition_of(self, topic_name: str, number: int) -> PartitionRef | None:
        topic = self.topics.get(topic_name)
        partition = None if topic is None else topic.partitions.get(number)
        return None if topic is None or partition is None else PartitionRef(topic, number, partition)

    def partitions_on(self, broker_id: NodeId) -> Iterator[PartitionRef]:
        """Those with a replica on the broker, in sync or not."""
        return self._refs(self._indexed().held_by(broker_id))

    def partitions_unsettled(self) -> Iterator[PartitionRef]:
        """Those that are not led by their first replica, or are being reassigned."""
        return self._refs(self._indexed().unsettled)

    def partitions_without_leader(self) -> Iterator[PartitionRef]:
        return (ref for ref in self.partitions_unsettled() if ref.partition.leader == NO_NODE)

    def _indexed(self) -> ReplicaIndex:
        if self._index is None:
            self._index = ReplicaIndex(self.topics.values())
        return self._index

    def _refs(self, keys: Iterable[PartitionKey]) -> Iterator[PartitionRef]:
        for topic_id, number in keys:
            topic = self.topics_by_id[topic_id]
            yield PartitionRef(topic, number, topic.partitions[number])

    # ---- replay ----

    def replay_batch(self, batch: MetadataBatch) -> None:
        invariant(batch.last_offset > self.offset, "metadata goes forward", batch=batch.last_offset, image=self.offset)
        self.replay_all(batch.records)
        self.offset, self.epoch, self.timestamp_ms = batch.last_offset, batch.epoch, batch.timestamp_ms

    def replay_all(self, records: Iterable[MetadataRecord]) -> None:
        for record in records:
            self.replay(record)

    def replay(self, record: MetadataRecord) -> None:
        replay = _REPLAY.get(type(record).__name__)
        if replay is None:
            violated("a metadata record that this version cannot apply", record=type(record).__name__)
        replay(self, record)

    def _replay_topic(self, record: api.TopicRecord) -> None:
        invariant(record.name not in self.topics, "a topic's name is free", name=record.name)
        invariant(record.topic_id not in self.topics_by_id, "a topic's id is new", topic_id=record.topic_id)
        topic = TopicImage(record.name, record.topic_id)
        self.topics[record.name] = self.topics_by_id[record.topic_id] = topic
        if (key := collision_key(record.name)) is not None:
            self._names_by_collision_key.setdefault(key, []).append(record.name)
        self._delta.on_topic_created(topic)

    def _replay_remove_topic(self, record: api.RemoveTopicRecord) -> None:
        topic = self.topics_by_id.pop(record.topic_id, None)
        if topic is None:
            violated("a removed topic exists", topic_id=record.topic_id)
        del self.topics[topic.name]
        if (key := collision_key(topic.name)) is not None:
            self._names_by_collision_key[key].remove(topic.name)
        self.configs.pop(ConfigResource(ConfigResourceType.TOPIC, topic.name), None)
        if self._index is not None:
            self._index.on_topic_removed(topic)
        self._delta.on_topic_deleted(topic)

    def _replay_partition(self, record: api.PartitionRecord) -> None:
        topic = self._topic_of(record.topic_id)
        partition = PartitionImage(
            self._tuple(record.replicas),
            self._tuple(record.isr),
            record.leader,
            record.leader_epoch,
            record.partition_epoch,
            self._tuple(record.directories),
            self._tuple(record.removing_replicas),
            self._tuple(record.adding_replicas),
            self._tuple(record.eligible_leader_replicas or ()),
            self._tuple(record.last_known_elr or ()),
            record.leader_recovery_state,
        )
        self._put_partition(topic, record.partition_id, partition)

    def _replay_partition_change(self, record: api.PartitionChangeRecord) -> None:
        topic = self._topic_of(record.topic_id)
        partition = topic.partitions.get(record.partition_id)
        if partition is None:
            violated("a changed partition exists", topic=topic.name, partition=record.partition_id)
        after = self._changed(partition, record)
        self._put_partition(topic, record.partition_id, after)
        if record.leader not in (NO_LEADER_CHANGE, NO_NODE) and after.leader_recovery_state == _RECOVERING:
            place = TopicPartition(topic.name, record.partition_id)
            self._delta.unclean_elections.append(place)
            if partition.directory_of(after.leader) not in (UNASSIGNED_DIRECTORY, after.directory_of(after.leader)):
                self._delta.begun_empty.append(place)

    def _changed(self, partition: PartitionImage, record: api.PartitionChangeRecord) -> PartitionImage:
        changes: dict[str, Any] = {"partition_epoch": partition.partition_epoch + 1}
        for name in CHANGEABLE_LISTS:
            if (items := getattr(record, name)) is not None:
                changes[name] = self._tuple(items)
        if record.leader != NO_LEADER_CHANGE:
            # Naming a leader, be it the same one, starts a new epoch: that is what fences the old one.
            changes.update(leader=record.leader, leader_epoch=partition.leader_epoch + 1)
        if record.leader_recovery_state != NO_RECOVERY_STATE_CHANGE:
            changes["leader_recovery_state"] = record.leader_recovery_state
        return partition._replace(**changes)

    def _replay_clear_elr(self, record: api.ClearElrRecord) -> None:
        """Written with another `min.insync.replicas`: from then on a leader may commit without those who were eligible.

        Without a leader nothing was committed meanwhile, and they are the only ones who can lead again.
        """
        topics = [self.topics[record.topic_name]] if record.topic_name else self.topics.values()
        for topic in topics:
            for number, partition in topic.partitions.items():
                if partition.isr and (partition.eligible_leader_replicas or partition.last_known_elr):
                    changed = partition._replace(
                        eligible_leader_replicas=(), last_known_elr=(), partition_epoch=partition.partition_epoch + 1
                    )
                    self._put_partition(topic, number, changed)

    def _replay_config(self, record: api.ConfigRecord) -> None:
        resource = ConfigResource(ConfigResourceType(record.resource_type), record.resource_name)
        texts = self.configs.setdefault(resource, {})
        if record.value is None:
            texts.pop(record.name, None)
            if not texts:
                del self.configs[resource]
        else:
            texts[record.name] = record.value
        self._delta.configs_changed[resource] = None

    def _replay_feature_level(self, record: api.FeatureLevelRecord) -> None:
        if record.feature_level == 0:
            self.features.pop(record.name, None)
        else:
            self.features[record.name] = record.feature_level
        self._delta.features_changed = True

    def _replay_producer_ids(self, record: api.ProducerIdsRecord) -> None:
        invariant(record.next_producer_id > self.next_producer_id or self.next_producer_id == 0,
                  "producer ids are given once", next=record.next_producer_id, had=self.next_producer_id)  # fmt: skip
        self.next_producer_id = record.next_producer_id
        self._delta.producer_ids_changed = True

    def _replay_scram_credential(self, record: api.UserScramCredentialRecord) -> None:
        identity = ScramIdentity(record.name, ScramMechanism(record.mechanism))
        self.scram_credentials[identity] = ScramCredential(
            salt=record.salt, stored_key=record.stored_key, server_key=record.server_key, iterations=record.iterations
        )
        self._delta.scram_changed[identity] = None

    def _replay_remove_scram_credential(self, record: api.RemoveUserScramCredentialRecord) -> None:
        identity = ScramIdentity(record.name, ScramMechanism(record.mechanism))
        invariant(identity in self.scram_credentials, "a removed credential exists", identity=identity)
        del self.scram_credentials[identity]
        self._delta.scram_changed[identity] = None

    def _replay_register_broker(self, record: api.RegisterBrokerRecord) -> None:
        self._put_broker(
            BrokerImage(
                id=record.broker_id,
                epoch=record.broker_epoch,
                incarnation_id=record.incarnation_id,
                endpoints=_endpoints(record.end_points),
                features=_features(record.features),
                rack=record.rack,
                fenced=record.fenced,
                in_controlled_shutdown=record.in_controlled_shutdown,
                log_directories=tuple(record.log_dirs),
            )
        )

    def _replay_unregister_broker(self, record: api.UnregisterBrokerRecord) -> None:
        self._broker_of(record.broker_id, record.broker_epoch)
        del self.brokers[record.broker_id]
        self._delta.brokers_changed[record.broker_id] = None

    def _replay_broker_change(self, record: api.BrokerRegistrationChangeRecord) -> None:
        broker = self._broker_of(record.broker_id, record.broker_epoch)
        shutting_down = broker.in_controlled_shutdown or record.in_controlled_shutdown > 0
        directories = tuple(record.log_dirs) or broker.log_directories
        # 1 fences, -1 unfences, 0 says nothing.
        fenced = broker.fenced if record.fenced == 0 else record.fenced > 0
        self._put_broker(_with(broker, fenced, shutting_down, directories))

    def _replay_fence_broker(self, record: api.FenceBrokerRecord) -> None:
        broker = self._broker_of(record.id, record.epoch)
        self._put_broker(_with(broker, True, broker.in_controlled_shutdown, broker.log_directories))

    def _replay_unfence_broker(self, record: api.UnfenceBrokerRecord) -> None:
        broker = self._broker_of(record.id, record.epoch)
        self._put_broker(_with(broker, False, broker.in_controlled_shutdown, broker.log_directories))

    def _replay_register_controller(self, record: api.RegisterControllerRecord) -> None:
        self.controllers[record.controller_id] = ControllerImage(
            id=record.controller_id,
            incarnation_id=record.incarnation_id,
            endpoints=_endpoints(record.end_points),
            features=_features(record.features),
        )

    def _replay_nothing(self, record: object) -> None:
        """No-op records keep the log moving; the ZooKeeper migration state has no meaning here."""

    # ---- look-ups of replay ----

    def _topic_of(self, topic_id: TopicId) -> TopicImage:
        topic = self.topics_by_id.get(topic_id)
        if topic is None:
            violated("a partition's topic exists", topic_id=topic_id)
        return topic

    def _broker_of(self, broker_id: NodeId, epoch: int) -> BrokerImage:
        broker = self.brokers.get(broker_id)
        if broker is None or broker.epoch != epoch:
            violated("a changed broker is registered", broker=broker_id, epoch=epoch, registered=broker)
        return broker

    def _put_broker(self, broker: BrokerImage) -> None:
        self.brokers[broker.id] = broker
        self._delta.brokers_changed[broker.id] = None

    def _put_partition(self, topic: TopicImage, number: int, partition: PartitionImage) -> None:
        if self._index is not None:
            self._index.on_partition(topic.id, number, topic.partitions.get(number), partition)
        topic.partitions[number] = partition
        self._delta.on_partition_changed(topic, number)

    def _tuple(self, items: Iterable[Any]) -> tuple[Any, ...]:
        """Thousands of partitions have the same few replica lists: one tuple serves them all."""
        found = tuple(items)
        return self._shared.setdefault(found, found)


CHANGEABLE_LISTS: Final = (
    "isr",
    "replicas",
    "removing_replicas",
    "adding_replicas",
    "directories",
    "eligible_leader_replicas",
    "last_known_elr",
)

_REPLAY: Final[dict[str, Callable[[MetadataImage, Any], None]]] = {
    "TopicRecord": MetadataImage._replay_topic,
    "RemoveTopicRecord": MetadataImage._replay_remove_topic,
    "PartitionRecord": MetadataImage._replay_partition,
    "PartitionChangeRecord": MetadataImage._replay_partition_change,
    "ClearElrRecord": MetadataImage._replay_clear_elr,
    "ConfigRecord": MetadataImage._replay_config,
    "FeatureLevelRecord": MetadataImage._replay_feature_level,
    "ProducerIdsRecord": MetadataImage._replay_producer_ids,
    "UserScramCredentialRecord": MetadataImage._replay_scram_credential,
    "RemoveUserScramCredentialRecord": MetadataImage._replay_remove_scram_credential,
    "RegisterBrokerRecord": MetadataImage._replay_register_broker,
    "UnregisterBrokerRecord": MetadataImage._replay_unregister_broker,
    "BrokerRegistrationChangeRecord": MetadataImage._replay_broker_change,
    "FenceBrokerRecord": MetadataImage._replay_fence_broker,
    "UnfenceBrokerRecord": MetadataImage._replay_unfence_broker,
    "RegisterControllerRecord": MetadataImage._replay_register_controller,
    "NoOpRecord": MetadataImage._replay_nothing,
    "ZkMigrationStateRecord": MetadataImage._replay_nothing,
}


def _endpoints(end_points: Iterable[Any]) -> tuple[Endpoint, ...]:
    return tuple(Endpoint(item.name, item.host, item.port, item.security_protocol) for item in end_points)


def _features(features: Iterable[Any]) -> dict[str, FeatureRange]:
    return {item.name: FeatureRange(item.min_supported_version, item.max_supported_version) for item in features}


def _with(broker: BrokerImage, fenced: bool, shutting_down: bool, directories: tuple[UUID, ...]) -> BrokerImage:
    return replace(broker, fenced=fenced, in_controlled_shutdown=shutting_down, log_directories=directories)
