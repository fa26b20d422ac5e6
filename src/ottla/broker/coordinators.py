"""The coordinators of this broker: one runtime for groups, one for transactions, over the partitions that it has.

`follow` compares the runtimes with the partitions after every change of metadata: where this broker leads, it coordinates;
where it has a copy, it replays that copy, to coordinate at once when it comes to lead. The internal topics come to be when
somebody first asks for a coordinator: `find` is that question.
"""

import asyncio
import logging
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

logger = logging.getLogger(__name__)

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
        is_blind: Callable[[], bool] = lambda: False,
    ) -> None:
        self._node_id = config.integer("node.id")
        self._told: set[str] = set()
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
            commit_timeout_seconds=config.integer("offsets.commit.timeout.ms") / 1000,
            is_blind=is_blind,
        )
        self.transactions = CoordinatorRuntime[TransactionMachine](
            topic=TRANSACTION_TOPIC,
            record_types=TRANSACTION_RECORDS,
            new_machine=lambda _: new_transaction_machine(),
            clock=clock,
            turns=turns,
            is_blind=is_blind,
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
        if not fits_record(group_id):
            raise _too_long(group_id, ErrorCode.INVALID_GROUP_ID)
        return partition_for(group_id, self._partition_count(GROUP_TOPIC))

    async def wait_group_partition(self, group_id: str) -> int:
        """As `group_partition`; if this broker is about to coordinate it, once it does."""
        await self._wait_ready(GROUP_TOPIC, self.group_partition(group_id))
        return self.group_partition(group_id)  # The topic may have come to be meanwhile.

    def transaction_partition(self, transactional_id: str) -> int:
        """Where in `__transaction_state` a transactional id lives."""
        if not fits_record(transactional_id):
            raise _too_long(transactional_id, ErrorCode.INVALID_REQUEST)
        return partition_for(transactional_id, self._partition_count(TRANSACTION_TOPIC))

    async def wait_transaction_partition(self, transactional_id: str) -> int:
        await self._wait_ready(TRANSACTION_TOPIC, self.transaction_partition(transactional_id))
        return self.transaction_partition(transactional_id)

    def _partition_count(self, topic: str) -> int:
        """Of the whole topic, however many of its partitions are led here just now."""
        found = self._image.topics.get(topic)
        return len(found.partitions) if found else self._config.integer(f"{_PREFIXES[topic]}.num.partitions")

    async def find(self, topic: str, key: str) -> NodeId:
        """The broker that coordinates `key`; makes the internal topic first where nobody has needed it yet."""
        if topic not in self._image.topics:
            await self._create(topic)
        index = partition_for(key, self._partition_count(topic))
        leader = self._leader(topic, index)
        if leader not in self._image.brokers:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"the partition of {key!r} has no leader")
        return leader

    async def _wait_ready(self, topic: str, index: int) -> None:
        """Until this broker coordinates partition `index`, if it is about to: clients are sent here when a new topic, or
        a new leader, is in some broker's image, before our partitions are open and loaded, and give up soon (librdkafka's
        commit after three tries)."""
        runtime = self._runtimes[topic]
        if not runtime.is_ready(index):  # Who sent the client here may have learned sooner whom we follow.
            await self._neighbours.wait_replaced((self._leader(topic, index),))
        for _ in range(READY_LOOKS_MAX):
            if runtime.is_ready(index):
                return
            if topic in self._image.topics and self._leader(topic, index) != self._node_id:
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
        configs = {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(self._config.integer(f"{prefix}.segment.bytes")),
        }
        if topic == TRANSACTION_TOPIC:
            configs["min.insync.replicas"] = str(self._config.integer(f"{prefix}.min.isr"))
        creation = api.CreateTopicsRequest(
            topics=[
                api.CreateTopicsRequest.CreatableTopic(
                    name=topic,
                    num_partitions=self._config.integer(f"{prefix}.num.partitions"),
                    replication_factor=self._replication_factor(f"{prefix}.replication.factor"),
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
            reason = f"{topic} cannot be created: {outcome.error_message or ErrorCode(outcome.error_code).name}"
            if reason not in self._told:  # Clients ask again and again.
                self._told.add(reason)
                logger.warning("no group or transaction is coordinated yet: %s", reason)
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, reason)

    def _replication_factor(self, setting: str) -> int:
        """What was set holds, and the topic waits for brokers: made with what there is while the first node of three is
        alone, it would be lost to every group with that node. The default gives way to a cluster that is smaller, but not
        than its `default.replication.factor` says."""
        wanted = self._config.integer(setting)
        if setting in self._config.texts:
            return wanted
        return min(wanted, max(len(self._image.brokers), self._config.integer("default.replication.factor")))


def _too_long(name: str, code: ErrorCode) -> ApiError:
    return ApiError(code, f"a name of {len(name)} characters is longer than its record can hold")
