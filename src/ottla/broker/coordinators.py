"""The coordinators of this broker: one runtime for groups, one for transactions, over the partitions that it has.

`follow` compares the runtimes with the partitions after every change of metadata: where this broker leads, it coordinates;
where it has a copy, it replays that copy, to coordinate at once when it comes to lead. The internal topics come to be when
somebody first asks for a coordinator: `find` is that question.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final
from uuid import UUID

from ottla.base.clock import Clock
from ottla.base.errors import ApiError, ErrorCode
from ottla.base.types import NO_NODE, NodeId
from ottla.base.workers import Workers
from ottla.broker.coordinator_log import FollowedCoordinatorLog, LedCoordinatorLog
from ottla.broker.neighbours import Neighbours
from ottla.coordinator.groups.machine import GroupMachine
from ottla.coordinator.groups.settings import GroupSettings
from ottla.coordinator.loading import Turns
from ottla.coordinator.placement import partition_for
from ottla.coordinator.records import GROUP_RECORDS, TRANSACTION_RECORDS, fits_record
from ottla.coordinator.runtime import CoordinatorRuntime
from ottla.coordinator.transactions.machine import TransactionMachine
from ottla.metadata.configs import BrokerConfig
from ottla.metadata.controller.topics import CREATE_TOPICS_VERSION
from ottla.metadata.image import MetadataImage
from ottla.metadata.topic_names import GROUP_TOPIC, TRANSACTION_TOPIC
from ottla.replica.partition import Partition
from ottla.replica.partitions import Partitions
from ottla.wire import api
from ottla.wire.apis import ApiKey
from ottla.wire.message import Message

ChangeMetadata = Callable[[ApiKey, int, Message], Awaitable[Any]]

READY_LOOK_SECONDS: Final = 0.01
READY_LOOKS_MAX: Final = 50

# Topic -> the prefix of its broker configurations.
_PREFIXES: Final = {GROUP_TOPIC: "offsets.topic", TRANSACTION_TOPIC: "transaction.state.log"}


class Coordinators:
    def __init__(
        self,
        *,
        partitions: Partitions,
        image: MetadataImage,
        config: BrokerConfig,
        clock: Clock,
        workers: Workers,
        neighbours: Neighbours,
        change_metadata: ChangeMetadata,
        new_uuid: Callable[[], UUID],
        new_transaction_machine: Callable[[], TransactionMachine],
    ) -> None:
        self._node_id = config.integer("node.id")
        self._neighbours = neighbours
        self._partitions = partitions
        self._image = image
        self._config = config
        self._workers = workers
        self._change_metadata = change_metadata
        group_settings = GroupSettings.of(config)
        turns = Turns()
        self.groups = CoordinatorRuntime[GroupMachine](
            topic=GROUP_TOPIC,
            record_types=GROUP_RECORDS,
            new_machine=lambda submit: GroupMachine(
                clock=clock,
                submit=submit,
                settings=group_settings,
                new_member_id=lambda name: f"{name}-{new_uuid()}",
            ),
            clock=clock,
            turns=turns,
        )
        self.transactions = CoordinatorRuntime[TransactionMachine](
            topic=TRANSACTION_TOPIC,
            record_types=TRANSACTION_RECORDS,
            new_machine=lambda _: new_transaction_machine(),
            clock=clock,
            turns=turns,
        )
        self._runtimes: Mapping[str, CoordinatorRuntime[Any]] = {
            GROUP_TOPIC: self.groups,
            TRANSACTION_TOPIC: self.transactions,
        }
        self._logs: dict[str, dict[int, LedCoordinatorLog | FollowedCoordinatorLog]] = {
            GROUP_TOPIC: {},
            TRANSACTION_TOPIC: {},
        }
        self._is_closed = False

    def follow(self) -> None:
        """Leads or follows what has become ours, and lets go of what is no more; in another epoch of leadership the log
        is another, too."""
        if self._is_closed:
            return
        for topic, runtime in self._runtimes.items():
            logs = self._logs[topic]
            here = {partition.topic_partition.partition: partition for partition in self._partitions.of_topic(topic)}
            for index in [index for index, log in logs.items() if log.partition is not here.get(index)]:
                runtime.resign(index)
                del logs[index]
            for index, partition in here.items():
                if index not in logs or not logs[index].is_of(partition):
                    logs[index] = self._take_role(runtime, index, partition)

    def _take_role(
        self, runtime: CoordinatorRuntime[Any], index: int, partition: Partition
    ) -> LedCoordinatorLog | FollowedCoordinatorLog:
        if partition.is_leading:
            led = LedCoordinatorLog(partition, self._workers)
            runtime.lead(index, led)
            return led
        followed = FollowedCoordinatorLog(partition, self._workers)
        runtime.follow(index, followed)
        return followed

    def on_topics_deleted(self, topics: Iterable[str]) -> None:
        """Offsets of a topic go with it: they mean nothing for another of the same name."""
        for topic in topics:
            for machine in self.groups.machines().values():
                machine.on_topic_deleted(topic)

    def close(self) -> None:
        self._is_closed = True
        self.groups.close()
        self.transactions.close()

    # -- finding -----------------------------------------------------------------------------------------------------

    def group_partition(self, group_id: str) -> int:
        """Where in `__consumer_offsets` a group lives."""
        _check_length(group_id, ErrorCode.INVALID_GROUP_ID)
        return partition_for(group_id, self._partition_count(GROUP_TOPIC))

    def transaction_partition(self, transactional_id: str) -> int:
        """Where in `__transaction_state` a transactional id lives."""
        _check_length(transactional_id, ErrorCode.INVALID_REQUEST)
        return partition_for(transactional_id, self._partition_count(TRANSACTION_TOPIC))

    def _partition_count(self, topic: str) -> int:
        """Of the whole topic, however many of its partitions are led here just now."""
        found = self._image.topics.get(topic)
        return len(found.partitions) if found else self._config.integer(f"{_PREFIXES[topic]}.num.partitions")

    async def find(self, topic: str, key: str) -> NodeId:
        """The broker that coordinates `key`; makes the internal topic first where nobody has needed it yet."""
        is_new = topic not in self._image.topics
        if is_new:
            await self._create(topic)
        index = partition_for(key, self._partition_count(topic))
        leader = self._leader(topic, index)
        if leader not in self._image.brokers:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"the partition of {key!r} has no leader")
        if leader == self._node_id and (is_new or index not in self._logs[topic]):
            await self._wait_ready(topic, index)
        return leader

    async def _wait_ready(self, topic: str, index: int) -> None:
        """Until this broker coordinates partition `index`, if that is soon: a new topic is in the image a moment before
        its partitions are open, and who is sent here too early gives up (librdkafka's commit after three tries)."""
        for _ in range(READY_LOOKS_MAX):
            if index in self._logs[topic]:
                await self._runtimes[topic].wait_loaded(index)
                return
            await asyncio.sleep(READY_LOOK_SECONDS)

    async def find_living(self, topic: str, key: str) -> NodeId:
        """As `find`, for clients, who ask when they have lost their coordinator."""
        coordinator = await self.find(topic, key)
        if await self._neighbours.wait_replaced((coordinator,)):
            coordinator = await self.find(topic, key)
        return coordinator

    def _leader(self, topic: str, index: int) -> NodeId:
        found = self._image.topics.get(topic)
        return NO_NODE if found is None else found.partitions[index].leader

    async def _create(self, topic: str) -> None:
        prefix = _PREFIXES[topic]
        replicas = min(self._config.integer(f"{prefix}.replication.factor"), len(self._image.brokers))
        configs = {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(self._config.integer(f"{prefix}.segment.bytes")),
        }
        creation = api.CreateTopicsRequest(
            topics=[
                api.CreateTopicsRequest.CreatableTopic(
                    name=topic,
                    num_partitions=self._config.integer(f"{prefix}.num.partitions"),
                    replication_factor=replicas,
                    configs=[
                        api.CreateTopicsRequest.CreatableTopicConfig(name=name, value=value)
                        for name, value in configs.items()
                    ],
                )
            ]
        )
        response = await self._change_metadata(ApiKey.CREATE_TOPICS, CREATE_TOPICS_VERSION, creation)
        outcome = response.topics[0]
        if outcome.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, outcome.error_message or f"{topic} cannot be created")


def _check_length(name: str, code: ErrorCode) -> None:
    if not fits_record(name):
        raise ApiError(code, f"a name of {len(name)} characters is longer than its record can hold")
