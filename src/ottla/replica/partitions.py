"""All partitions of this broker, by topic name and by topic id, kept as the cluster image says.

`apply` follows a metadata delta: it opens logs of partitions that are new here, takes away deleted ones and those that
are no longer ours, tells the others their roles and in-sync replicas, hands out changed configurations. Logs are opened
and deleted by workers; a partition is found only once its log is open.

`start_replication` connects it with the rest of the cluster: from then on followers fetch and leaders propose ISRs.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple, Protocol, TypeAlias
from uuid import UUID

from ottla.base.clock import Clock
from ottla.base.errors import ApiError, ErrorCode
from ottla.base.types import NodeId, TopicPartition
from ottla.base.workers import Workers
from ottla.log.config import LogConfig
from ottla.log.directory import LogDirectory
from ottla.log.partition_log import PartitionLog
from ottla.metadata.config_key import ConfigValue
from ottla.metadata.configs import BrokerLayers, broker_key, log_config_for, log_defaults, resolve_broker_config
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataImage
from ottla.metadata.image_parts import ConfigResourceType, PartitionImage, TopicImage
from ottla.metadata.min_isr import effective_min_isr
from ottla.metadata.topic_names import METADATA_TOPIC
from ottla.replica import strays
from ottla.replica.cluster_view import LAG_SECONDS_DEFAULT, ClusterView
from ottla.replica.log_settings import log_config_of
from ottla.replica.partition import Partition
from ottla.replica.removal import Removal
from ottla.replica.storage import Storage, is_passing
from ottla.replica.throttle import FOLLOWER_RATE, FOLLOWER_REPLICAS, LEADER_RATE, LEADER_REPLICAS, is_throttled

logger = logging.getLogger(__name__)

LOGS_PER_WORK_ITEM_MAX: Final = 200  # Opened in one go by a worker; the loop gets its turns in between.


_Opened: TypeAlias = PartitionLog | OSError | ApiError


class _Opening(NamedTuple):
    """A partition whose log is about to be opened."""

    topic: TopicImage
    number: int
    state: PartitionImage
    storage: Storage
    config: LogConfig

    @property
    def place(self) -> TopicPartition:
        return TopicPartition(self.topic.name, self.number)


class Fetchers(Protocol):
    """Who copies from the leaders (fetcher.py)."""

    def on_role_changed(self, partition: Partition) -> None: ...


class Partitions:
    def __init__(
        self,
        *,
        node_id: NodeId,
        storages: Sequence[Storage],
        clock: Clock,
        workers: Workers,
        producer_id_expiration_ms: int,
        replica_lag_seconds: float = LAG_SECONDS_DEFAULT,
    ) -> None:
        self._node_id = node_id
        self.cluster = ClusterView(node_id, replica_lag_seconds)
        self.removal = Removal(workers)
        self._fetchers: Fetchers | None = None
        self._storages = storages
        self._clock = clock
        self._workers = workers
        self._producer_id_expiration_ms = producer_id_expiration_ms
        self._layers = BrokerLayers()
        self._topics: dict[str | bytes, dict[int, Partition]] = {}  # Each topic twice: by name and by id.
        self._offline: dict[TopicPartition, OSError | ApiError] = {}
        self._on_disk: dict[TopicPartition, Storage] = {}
        self._is_current = False
        self._counts: dict[str, int] = {storage.path: 0 for storage in storages}
        self._shared_configs: dict[LogConfig, LogConfig] = {}
        self.on_retention_changed: Callable[[Partition], None] = lambda partition: None

    # -- finding -----------------------------------------------------------------------------------------------------

    def find(self, topic: str | bytes, index: int) -> Partition | None:
        """By name, or by the 16 bytes of the topic id."""
        partitions = self._topics.get(topic)
        return None if partitions is None else partitions.get(index)

    def leader_of(self, topic: str | bytes, index: int) -> Partition:
        """For what only a leader may do; `ApiError` where we do not lead the partition, or nobody knows it."""
        partitions = self._topics.get(topic)
        partition = None if partitions is None else partitions.get(index)
        if partition is not None and partition.is_leading:
            return partition
        raise self.refusal(topic, index)

    def refusal(self, topic: str | bytes, index: int) -> ApiError:
        """Why the partition is not served here."""
        image = self.cluster.image
        found = image.topics.get(topic) if isinstance(topic, str) else image.topics_by_id.get(UUID(bytes=topic))
        if found is None and isinstance(topic, bytes):
            return ApiError(ErrorCode.UNKNOWN_TOPIC_ID, f"no topic has the id {topic.hex()}")
        if found is None or index not in found.partitions:
            return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {index} of topic {topic!r}")
        place = TopicPartition(found.name, index)
        if (reason := self._offline.get(place)) is not None:
            return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{place} is offline: {reason}")
        leader = found.partitions[index].leader
        return ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{place} is led by node {leader}")

    def __iter__(self) -> Iterator[Partition]:
        for topic, partitions in self._topics.items():
            if isinstance(topic, str):
                yield from partitions.values()

    def of_topic(self, topic: str) -> list[Partition]:
        return list(self._topics.get(topic, {}).values())

    def in_directory(self, path: str) -> list[Partition]:
        return [partition for partition in self if partition.storage.path == path]

    async def write_high_watermarks(self, storage: Storage) -> None:
        """From them a restart tells what of a log was committed."""
        async with storage.upkeep:  # What is deleted meanwhile must not be written down again.
            marks = {one.topic_partition: one.high_watermark for one in self.in_directory(storage.path)}
            if marks != storage.directory.high_watermarks:
                await self._workers.run(storage.directory.write_high_watermarks, marks)

    # -- following the metadata --------------------------------------------------------------------------------------

    async def load(self, image: MetadataImage, layers: BrokerLayers, *, is_current: bool) -> None:
        """At start: every partition of ours in the image. What lies on disk besides is set aside or left alone, and named.

        `is_current`: the image has this process's registration, so that it is newer than anything a former one has left
        on disk. Without that nothing is set aside.
        """
        self._adopt_layers(layers)
        self._is_current = is_current
        self.cluster.image = image
        doubles = await self._look_on_disk(image)
        await self._open(
            [(topic, index, state) for topic in image.topics.values() for index, state in topic.partitions.items()],
            image,
        )
        for place, storage in [*self._on_disk.items(), *doubles]:
            if place.topic != METADATA_TOPIC and place not in self._offline:
                async with storage.upkeep:
                    await self._workers.run(self._settle_stray, storage, place)

    async def _look_on_disk(self, image: MetadataImage) -> list[tuple[TopicPartition, Storage]]:
        """Which directory holds what. Returns those that lie in another one too, and are not the image's there."""
        doubles = []
        for storage in self._storages:
            await self._workers.run(strays.name_former, storage.directory)
            await self.removal.remove_left_over(storage)
            for found in await self._workers.run(storage.directory.find_partitions):
                other = self._on_disk.get(found)
                topic = image.topics.get(found.topic)
                if other is None:
                    self._on_disk[found] = storage
                elif topic is None or topic.id == await self._workers.run(other.directory.topic_id_of, found):
                    doubles.append((found, storage))
                else:
                    doubles.append((found, other))
                    self._on_disk[found] = storage
        return doubles

    def _settle_stray(self, storage: Storage, place: TopicPartition) -> None:
        """Blocking."""
        try:
            if self._maybe_set_aside(storage.directory, place):
                return
        except OSError as error:
            logger.error("cannot set %s aside: %s", place, error)
        logger.warning("directory %s in %s is of no partition of this node; it is left alone", place, storage.path)

    def _maybe_set_aside(self, directory: LogDirectory, place: TopicPartition) -> bool:
        """Blocking. Only if we know enough to do it (strays.py)."""
        topic_id = strays.former_topic_id(directory, place, self.cluster.image, self._node_id)
        if topic_id is None or not self._is_current:
            return False
        strays.set_aside(directory, place, topic_id, self._clock.now_ms())
        return True

    async def apply(self, image: MetadataImage, delta: MetadataDelta, layers: BrokerLayers) -> None:
        self.cluster.image = image
        if layers != self._layers:
            self._adopt_layers(layers)
            await self._reconfigure(image, image.topics)
        for topic in delta.topics_deleted:
            await self._delete_topic(topic)
        new = [
            (topic, index, partition) for topic in delta.topics_created for index, partition in topic.partitions.items()
        ]
        for (name, index), topic in delta.partitions_changed.items():
            known = self.find(name, index)
            state = topic.partitions[index]
            if known is None:
                new.append((topic, index, state))
            elif self._node_id in state.replicas:
                await self._change_role(known, topic, state)
            else:
                await self._give_up(known)
        await self._open(new, image)
        await self._reconfigure(
            image, [resource.name for resource in delta.configs_changed if resource.type is ConfigResourceType.TOPIC]
        )

        if delta.brokers_changed:
            for partition in self:
                partition.maybe_expand_isr()  # Who has come back may be in sync already.

    def start_replication(self, *, fetchers: Fetchers, propose: Callable[[Partition], None]) -> None:
        """`propose`: where proposals for an ISR go (`IsrChanges.propose`). Called once, after `load`."""
        self._fetchers = fetchers
        self.cluster.propose = propose
        for partition in self:
            fetchers.on_role_changed(partition)
            if partition.proposal is not None:
                propose(partition)

    async def _change_role(self, partition: Partition, topic: TopicImage, state: PartitionImage) -> None:
        await partition.wait_untruncated()
        self._follow_image(partition, topic, state)

    def _follow_image(self, partition: Partition, topic: TopicImage, state: PartitionImage) -> None:
        texts = self.cluster.image.configs_of(ConfigResourceType.TOPIC, topic.name)
        number = partition.topic_partition.partition
        partition.is_sending_throttled = is_throttled(texts.get(LEADER_REPLICAS), number, self._node_id)
        partition.is_receiving_throttled = is_throttled(texts.get(FOLLOWER_REPLICAS), number, self._node_id)
        min_isr = effective_min_isr(texts, self._layers, state.replication_factor)
        if partition.follow_image(state, min_isr=min_isr) and self._fetchers is not None:
            self._fetchers.on_role_changed(partition)

    async def reopen_offline(self, image: MetadataImage) -> None:
        """Tries again what a full disk kept from being opened. Anything else needs a person and a restart."""
        full = [place for place, error in self._offline.items() if isinstance(error, OSError) and is_passing(error)]
        wanted = [
            (topic, place.partition, topic.partitions[place.partition])
            for place in full
            if (topic := image.topics.get(place.topic)) is not None
        ]
        await self._open(wanted, image)

    async def _open(self, wanted: Iterable[tuple[TopicImage, int, PartitionImage]], image: MetadataImage) -> None:
        batch: list[_Opening] = []
        defaults: dict[int, dict[str, ConfigValue]] = {}
        configs: dict[str, LogConfig] = {}
        for topic, index, state in wanted:
            if self._node_id not in state.replicas or self.find(topic.name, index) is not None:
                continue
            config = configs.get(topic.name)
            if config is None:
                config = configs[topic.name] = self._config_of(image, topic, defaults)
            storage = self._choose_storage(TopicPartition(topic.name, index))
            batch.append(_Opening(topic, index, state, storage, config))
            if len(batch) == LOGS_PER_WORK_ITEM_MAX:
                await self._open_batch(batch)
                batch = []
        await self._open_batch(batch)

    async def _open_batch(self, batch: list[_Opening]) -> None:
        for storage in self._storages:
            here = [opening for opening in batch if opening.storage is storage]
            if here:
                async with storage.upkeep:  # It may write checkpoints.
                    opened = await self._workers.run(self._open_logs, storage.directory, here)
                self._add(here, opened)

    def _open_logs(self, directory: LogDirectory, openings: list[_Opening]) -> list[_Opened]:
        """Blocking. A log that cannot be opened leaves the others alone."""
        try:
            directory.forget_absent(opening.place for opening in openings)
        except OSError as error:
            return [error] * len(openings)
        opened: list[_Opened] = []
        for opening in openings:
            try:
                opened.append(self._open_log(directory, opening))
            except (OSError, ApiError) as error:
                opened.append(error)
        return opened

    def _open_log(self, directory: LogDirectory, opening: _Opening) -> PartitionLog:
        place, config, topic_id = opening.place, opening.config, opening.topic.id
        try:
            return directory.open_partition(place, config, self._clock.now_ms(), topic_id=topic_id)
        except ApiError as error:
            # Deleted and created again while we were down?
            if error.code is not ErrorCode.INCONSISTENT_TOPIC_ID or not self._maybe_set_aside(directory, place):
                raise
        return directory.open_partition(place, config, self._clock.now_ms(), topic_id=topic_id)

    def _add(self, batch: list[_Opening], opened: list[_Opened]) -> None:
        for opening, log in zip(batch, opened, strict=True):
            topic, index, state, storage, _ = opening
            # Name and id lead to the same partitions, and a topic is known even where all its logs are offline.
            partitions = self._topics.setdefault(topic.name, {})
            self._topics[topic.id.bytes] = partitions
            if not isinstance(log, PartitionLog):
                self._counts[storage.path] -= 1
                if opening.place not in self._offline:
                    logger.error("partition %s is offline: %s", opening.place, log)
                self._offline[opening.place] = log
                continue
            self._offline.pop(opening.place, None)
            self._on_disk.pop(opening.place, None)
            partition = partitions[index] = Partition(log, topic.id, storage, self.cluster)
            # It may have been changed while a worker opened the log: what holds is the state of now.
            self._follow_image(partition, topic, topic.partitions.get(index, state))

    def _choose_storage(self, topic_partition: TopicPartition) -> Storage:
        """Where it lies already, else the healthy directory with the fewest partitions."""
        storage = self._on_disk.get(topic_partition) or min(
            self._storages, key=lambda one: (one.refusal is not None, self._counts[one.path])
        )
        self._counts[storage.path] += 1
        return storage

    async def _delete_topic(self, topic: TopicImage) -> None:
        partitions = self._topics.pop(topic.name, {})
        self._topics.pop(topic.id.bytes, None)
        for index in topic.partitions:
            self._offline.pop(TopicPartition(topic.name, index), None)
        await self._delete(list(partitions.values()))

    async def _give_up(self, partition: Partition) -> None:
        """The partition goes on, but not here any more."""
        topic, index = partition.topic_partition
        partitions = self._topics[topic]
        del partitions[index]
        if not partitions:
            del self._topics[topic], self._topics[partition.topic_id.bytes]
        logger.info("%s is no longer of this node: its log is deleted", partition.topic_partition)
        await self._delete([partition])

    async def _delete(self, partitions: Sequence[Partition]) -> None:
        for partition in partitions:
            partition.mark_deleted()
            self._counts[partition.storage.path] -= 1
            if self._fetchers is not None:
                self._fetchers.on_role_changed(partition)
        for partition in partitions:
            await self.removal.remove(partition)

    # -- configuration -----------------------------------------------------------------------------------------------

    def _adopt_layers(self, layers: BrokerLayers) -> None:
        self._layers = layers
        for throttle, name in ((self.cluster.sending, LEADER_RATE), (self.cluster.receiving, FOLLOWER_RATE)):
            rate_bytes = resolve_broker_config(broker_key(name), layers).value
            assert isinstance(rate_bytes, int)
            throttle.set_rate(rate_bytes)

    def _config_of(
        self, image: MetadataImage, topic: TopicImage, defaults: dict[int, dict[str, ConfigValue]]
    ) -> LogConfig:
        factor = topic.replication_factor
        if factor not in defaults:
            defaults[factor] = log_defaults(self._layers, factor)
        values = log_config_for(image.configs_of(ConfigResourceType.TOPIC, topic.name), defaults[factor])
        config = log_config_of(values, producer_id_expiration_ms=self._producer_id_expiration_ms)
        return self._shared_configs.setdefault(config, config)

    async def _reconfigure(self, image: MetadataImage, names: Iterable[str]) -> None:
        defaults: dict[int, dict[str, ConfigValue]] = {}
        for name in list(names):
            topic = image.topics.get(name)
            if topic is not None:
                config = self._config_of(image, topic, defaults)
                for partition in self.of_topic(name):
                    if partition.log.config != config:
                        partition.update_config(config)
                        self.on_retention_changed(partition)
                    # With another min.insync.replicas the watermark has another rule.
                    await self._change_role(partition, topic, topic.partitions[partition.topic_partition.partition])
