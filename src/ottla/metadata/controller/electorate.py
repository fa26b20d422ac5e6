"""Who may lead, and by which rules: the cluster as one decision about partitions sees it.

A broker may lead while it is active and the directory of its replica is online. `joining` and `leaving` name brokers
whose change is part of the decision itself, which the image does not show yet, `refusing` those who take no writes. The
two topic configurations that matter here are looked up once for all topics that set them alike.

A broker whose disk was replaced has other directories than the image names. That its copy is gone must be known, not
concluded from silence: a directory that failed is not among its own either, and may come back with everything.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple
from uuid import UUID

from ottla.base.types import NO_EPOCH, NO_NODE, NO_OFFSET, LeaderEpoch, NodeId, Offset, TopicId
from ottla.metadata.configs import MIN_INSYNC_REPLICAS, TOPIC_CONFIGS, BrokerLayers, resolve_topic_config
from ottla.metadata.image import MetadataImage
from ottla.metadata.image_parts import (
    UNASSIGNED_DIRECTORY,
    BrokerImage,
    ConfigResourceType,
    PartitionImage,
    PartitionRef,
    TopicImage,
)
from ottla.metadata.min_isr import effective_min_isr

UNCLEAN_ELECTION: Final = "unclean.leader.election.enable"

StaticConfigs = Mapping[str, str]
NO_STATIC_CONFIGS: Final[StaticConfigs] = MappingProxyType({})


class LogEnd(NamedTuple):
    """How far a replica's log goes. The greater one holds all that the smaller one does, and more (KIP-101)."""

    leader_epoch: LeaderEpoch
    """Of its last record."""
    offset: Offset


UNKNOWN_LOG_END: Final = LogEnd(NO_EPOCH, NO_OFFSET)
LogEnds = Mapping[tuple[TopicId, int], Mapping[NodeId, LogEnd]]
NO_LOG_ENDS: Final[LogEnds] = MappingProxyType({})
OfflineDirectories = Mapping[NodeId, Collection[UUID]]
"""Of each broker that has said so, and is the same process still: its directories that failed."""
NOTHING_SAID: Final[OfflineDirectories] = MappingProxyType({})


class TopicRules(NamedTuple):
    min_isr: int
    unclean_elections: bool


class Electorate:
    def __init__(
        self,
        image: MetadataImage,
        static_configs: StaticConfigs,
        *,
        joining: NodeId = NO_NODE,
        leaving: NodeId = NO_NODE,
        refusing: Collection[NodeId] = (),
        log_ends: LogEnds = NO_LOG_ENDS,
        offline_directories: OfflineDirectories = NOTHING_SAID,
    ) -> None:
        self._image = image
        self._offline_directories = offline_directories
        self._log_ends = log_ends
        self._active = {broker.id for broker in image.brokers.values() if broker.is_active or broker.id == joining}
        self._active.difference_update((leaving, *refusing))
        self._layers = BrokerLayers(
            dynamic_default=image.configs_of(ConfigResourceType.BROKER, ""), static=static_configs
        )
        self._rules: dict[tuple[int, str | None, str | None], TopicRules] = {}

    def may_lead(self, partition: PartitionImage, broker_id: NodeId) -> bool:
        if broker_id not in self._active or broker_id not in partition.replicas:
            return False
        directory = partition.directory_of(broker_id)
        return directory == UNASSIGNED_DIRECTORY or directory in self._image.brokers[broker_id].log_directories

    def has_lost_copy(self, partition: PartitionImage, broker_id: NodeId) -> bool:
        """The broker is there, and the directory of its copy neither is nor failed: its disk was replaced."""
        if broker_id not in self._active or self.may_lead(partition, broker_id):
            return False
        failed = self._offline_directories.get(broker_id)
        return failed is not None and partition.directory_of(broker_id) not in failed

    def log_end(self, ref: PartitionRef, broker_id: NodeId) -> LogEnd:
        return self._log_ends.get((ref.topic.id, ref.number), {}).get(broker_id, UNKNOWN_LOG_END)

    def rules(self, topic: TopicImage, partition: PartitionImage) -> TopicRules:
        texts = self._image.configs_of(ConfigResourceType.TOPIC, topic.name)
        key = (partition.replication_factor, texts.get(MIN_INSYNC_REPLICAS), texts.get(UNCLEAN_ELECTION))
        found = self._rules.get(key)
        if found is None:
            found = self._rules[key] = TopicRules(
                min_isr=effective_min_isr(texts, self._layers, partition.replication_factor),
                unclean_elections=self._unclean_elections(texts, partition.replication_factor),
            )
        return found

    def directory_for(self, broker_id: NodeId) -> UUID:
        """Where a new replica goes: a broker with several directories chooses itself."""
        broker = self._image.brokers.get(broker_id)
        return UNASSIGNED_DIRECTORY if broker is None else default_directory(broker)

    def _unclean_elections(self, texts: Mapping[str, str], replication_factor: int) -> bool:
        key = TOPIC_CONFIGS[UNCLEAN_ELECTION]
        return resolve_topic_config(key, texts, self._layers, replication_factor).value is True


def default_directory(broker: BrokerImage) -> UUID:
    return broker.log_directories[0] if len(broker.log_directories) == 1 else UNASSIGNED_DIRECTORY
