"""All partitions of this broker, by topic name and by topic id, kept as the cluster image says.

`apply` follows a metadata delta: it opens logs of new partitions, takes deleted ones away, hands out changed
configurations. Logs are opened and deleted by workers; a partition is found only once its log is open.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple, NoReturn

from ottla.base.clock import Clock
from ottla.base.errors import ApiError, ErrorCode
from ottla.base.types import NodeId, TopicPartition
from ottla.base.workers import Workers
from ottla.log.config import LogConfig
from ottla.log.partition_log import PartitionLog
from ottla.metadata.config_key import ConfigValue
from ottla.metadata.configs import BrokerLayers, log_config_for, log_defaults
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataImage
from ottla.metadata.image_parts import ConfigResourceType, PartitionImage, TopicImage
from ottla.replica.log_settings import log_config_of
from ottla.replica.partition import Partition
from ottla.replica.storage import Storage, is_passing

logger = logging.getLogger(__name__)

LOGS_PER_WORK_ITEM_MAX: Final = 200  # Opened in one go by a worker; the loop gets its turns in between.


class _Opening(NamedTuple):
    """A partition whose log is about to be opened."""

    topic: TopicImage
    number: int
    state: PartitionImage
    storage: Storage
    config: LogConfig


class Partitions:
    def __init__(
        self,
        *,
        node_id: NodeId,
        storages: Sequence[Storage],
        clock: Clock,
        workers: Workers,
        producer_id_expiration_ms: int,
    ) -> None:
        self._node_id = node_id
        self._storages = storages
        self._clock = clock
        self._workers = workers
        self._producer_id_expiration_ms = producer_id_expiration_ms
        self._layers = BrokerLayers()
        self._topics: dict[str | bytes, dict[int, Partition]] = {}  # Each topic twice: by name and by id.
        self._offline: dict[TopicPartition, OSError | ApiError] = {}
        self._on_disk: dict[TopicPartition, Storage] = {}
        self._counts: dict[str, int] = {storage.path: 0 for storage in storages}
        self._shared_configs: dict[LogConfig, LogConfig] = {}
        self.on_retention_changed: Callable[[Partition], None] = lambda partition: None

    # -- finding -----------------------------------------------------------------------------------------------------

    def find(self, topic: str | bytes, index: int) -> Partition | None:
        """By name, or by the 16 bytes of the topic id."""
        partitions = self._topics.get(topic)
        return None if partitions is None else partitions.get(index)

    def leader_of(self, topic: str | bytes, index: int) -> Partition:
        partitions = self._topics.get(topic)
        partition = None if partitions is None else partitions.get(index)
        return partition if partition is not None else self._missing(topic, index)

    def _missing(self, topic: str | bytes, index: int) -> NoReturn:
        partitions = self._topics.get(topic)
        if partitions is None and isinstance(topic, bytes):
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID, f"no topic has the id {topic.hex()}")
        names = (
            {topic} if isinstance(topic, str) else {one.topic_partition.topic for one in (partitions or {}).values()}
        )
        for offline, reason in self._offline.items():
            if offline.partition == index and offline.topic in names:
                raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{offline} is offline: {reason}")
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"no partition {index} of topic {topic!r} here")

    def __iter__(self) -> Iterator[Partition]:
        for topic, partitions in self._topics.items():
            if isinstance(topic, str):
                yield from partitions.values()

    def of_topic(self, topic: str) -> list[Partition]:
        return list(self._topics.get(topic, {}).values())

    def in_directory(self, path: str) -> list[Partition]:
        return [partition for partition in self if partition.storage.path == path]

    # -- following the metadata --------------------------------------------------------------------------------------

    async def load(self, image: MetadataImage, layers: BrokerLayers) -> None:
        """At start: every partition of ours in the image. What lies on disk besides is left alone and named."""
        self._layers = layers
        for storage in self._storages:
            for found in await self._workers.run(storage.directory.find_partitions):
                self._on_disk[found] = storage
        await self._open(
            [(topic, index, state) for topic in image.topics.values() for index, state in topic.partitions.items()],
            image,
        )
        for stray in self._on_disk:
            if stray.topic not in image.topics and not stray.topic.startswith("__cluster_metadata"):
                logger.warning("directory %s belongs to no topic of this cluster; it is left alone", stray)
        self._on_disk.clear()

    async def apply(self, image: MetadataImage, delta: MetadataDelta, layers: BrokerLayers) -> None:
        if layers != self._layers:
            self._layers = layers
            self._reconfigure(image, image.topics)
        for topic in delta.topics_deleted:
            await self._delete(topic)
        new = [
            (topic, index, partition) for topic in delta.topics_created for index, partition in topic.partitions.items()
        ]
        for (name, index), topic in delta.partitions_changed.items():
            known = self.find(name, index)
            state = topic.partitions[index]
            if known is None:
                new.append((topic, index, state))
            else:
                known.leader_id, known.leader_epoch = state.leader, state.leader_epoch
                known.tell_watchers()
        await self._open(new, image)
        self._reconfigure(
            image, [resource.name for resource in delta.configs_changed if resource.type is ConfigResourceType.TOPIC]
        )

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
                self._add(batch, await self._workers.run(self._open_logs, batch))
                batch = []
        if batch:
            self._add(batch, await self._workers.run(self._open_logs, batch))

    def _open_logs(self, batch: list[_Opening]) -> list[PartitionLog | None]:
        """Blocking. A log that cannot be opened stays offline (None) and is named; the others go on."""
        logs: list[PartitionLog | None] = []
        for topic, index, _, storage, config in batch:
            topic_partition = TopicPartition(topic.name, index)
            try:
                logs.append(
                    storage.directory.open_partition(topic_partition, config, self._clock.now_ms(), topic_id=topic.id)
                )
            except (OSError, ApiError) as error:
                if topic_partition not in self._offline:
                    logger.error("partition %s is offline: %s", topic_partition, error)
                self._offline[topic_partition] = error
                logs.append(None)
        return logs

    def _add(self, batch: list[_Opening], logs: list[PartitionLog | None]) -> None:
        for (topic, index, state, storage, _), log in zip(batch, logs, strict=True):
            # Name and id lead to the same partitions, and a topic is known even where all its logs are offline.
            partitions = self._topics.setdefault(topic.name, {})
            self._topics[topic.id.bytes] = partitions
            if log is None:
                self._counts[storage.path] -= 1
                continue
            self._offline.pop(log.topic_partition, None)
            partitions[index] = Partition(
                topic_partition=log.topic_partition,
                topic_id=topic.id,
                log=log,
                leader_id=state.leader,
                leader_epoch=state.leader_epoch,
                clock=self._clock,
                workers=self._workers,
                storage=storage,
            )

    def _choose_storage(self, topic_partition: TopicPartition) -> Storage:
        """Where it lies already, else the healthy directory with the fewest partitions."""
        storage = self._on_disk.pop(topic_partition, None) or min(
            self._storages, key=lambda one: (one.refusal is not None, self._counts[one.path])
        )
        self._counts[storage.path] += 1
        return storage

    async def _delete(self, topic: TopicImage) -> None:
        partitions = self._topics.pop(topic.name, {})
        self._topics.pop(topic.id.bytes, None)
        for index in topic.partitions:
            self._offline.pop(TopicPartition(topic.name, index), None)
        for partition in partitions.values():
            partition.mark_deleted()
            self._counts[partition.storage.path] -= 1
        for partition in partitions.values():
            storage = partition.storage
            try:
                async with storage.upkeep:
                    path = await self._workers.run(storage.directory.rename_deleted, partition.log, topic.id.hex)
            except OSError as error:
                logger.error("cannot delete %s: %s", partition.topic_partition, error)
                continue
            self._remove_later(partition, path)

    def _remove_later(self, partition: Partition, path: str) -> None:
        """After `file.delete.delay.ms`, or at once where the disk is full."""
        delay_ms = 0 if partition.storage.refusal is not None else partition.log.config.file_delete_delay_ms
        loop = asyncio.get_running_loop()

        tasks = partition.storage.tasks
        loop.call_later(delay_ms / 1000, lambda: tasks.spawn(self._remove(partition, path), name=f"delete {path}"))

    async def _remove(self, partition: Partition, path: str) -> None:
        await self._workers.run(partition.storage.directory.remove_deleted, path)

    # -- configuration -----------------------------------------------------------------------------------------------

    def _config_of(
        self, image: MetadataImage, topic: TopicImage, defaults: dict[int, dict[str, ConfigValue]]
    ) -> LogConfig:
        factor = topic.replication_factor
        if factor not in defaults:
            defaults[factor] = log_defaults(self._layers, factor)
        values = log_config_for(image.configs_of(ConfigResourceType.TOPIC, topic.name), defaults[factor])
        config = log_config_of(values, producer_id_expiration_ms=self._producer_id_expiration_ms)
        return self._shared_configs.setdefault(config, config)

    def _reconfigure(self, image: MetadataImage, names: Iterable[str]) -> None:
        defaults: dict[int, dict[str, ConfigValue]] = {}
        for name in names:
            topic = image.topics.get(name)
            if topic is not None:
                config = self._config_of(image, topic, defaults)
                for partition in self.of_topic(name):
                    if partition.log.config != config:
                        partition.update_config(config)
                        self.on_retention_changed(partition)
