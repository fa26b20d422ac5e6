"""The group words of aiokafka's driver: a member is a task of the driver's own loop."""

import asyncio
from collections.abc import Callable
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment

from tests.conformance.drivers.loop import KafkaRefusal
from tests.conformance.drivers.members import POLL_S, Journal, Partition, state_name

SETTING_NAMES = {
    "client_id": "client_id",
    "instance": "group_instance_id",
    "session_ms": "session_timeout_ms",
    "heartbeat_ms": "heartbeat_interval_ms",
    "poll_interval_ms": "max_poll_interval_ms",
    "auto_commit": "enable_auto_commit",
    "auto_commit_ms": "auto_commit_interval_ms",
    "metadata_ms": "metadata_max_age_ms",
    "reset": "auto_offset_reset",
    "bootstrap": "bootstrap_servers",
}
ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
}


class Member(ConsumerRebalanceListener):
    def __init__(
        self, configuration: dict[str, Any], topics: list[str], code_of: Callable[[BaseException], int]
    ) -> None:
        self.journal = Journal(code_of)
        self.consumer = AIOKafkaConsumer(**configuration)
        self.consumer.subscribe(topics, listener=self)
        self._held_until = 0.0
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        clock = asyncio.get_running_loop().time
        await self.consumer.start()
        while True:
            await asyncio.sleep(max(0.0, self._held_until - clock()))
            try:
                for records in (await self.consumer.getmany(timeout_ms=int(POLL_S * 1000))).values():
                    for record in records:
                        self.journal.read(record.topic, record.partition, record.offset, record.value)
            except Exception as error:  # Whatever the client raises is what the test wants to know.
                self.journal.failed(error)
                await asyncio.sleep(POLL_S)

    def on_partitions_assigned(self, assigned: list[TopicPartition]) -> None:
        self.journal.told("assigned", [tuple(at) for at in assigned])

    def on_partitions_revoked(self, revoked: list[TopicPartition]) -> None:
        self.journal.told("revoked", [tuple(at) for at in revoked])

    def hold(self, ms: int) -> None:
        self._held_until = asyncio.get_running_loop().time() + ms / 1000

    def watch(self) -> dict[str, Any]:
        owned = sorted(tuple(at) for at in self.consumer.assignment())
        # What the client knows of its generation is not public.
        coordinator = self.consumer._coordinator
        return {**self.journal.news(), "owned": owned, "generation": getattr(coordinator, "generation", -1)}

    async def leave(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self.consumer.stop()


class Groups:
    def __init__(self, bootstrap: str, admin: Callable[[], Any], code_of: Callable[[BaseException], int]) -> None:
        """`admin` answers, when awaited, a connected AIOKafkaAdminClient."""
        self._bootstrap = bootstrap
        self._admin = admin
        self._code_of = code_of
        self._members: dict[str, Member] = {}

    def operations(self) -> dict[str, Callable[..., Any]]:
        words = (self.join, self.watch, self.commit, self.hold, self.leave, self.commit_alone, self.committed)
        return {word.__name__: word for word in (*words, self.list_groups, self.describe_group)}

    def _configuration(self, group: str, settings: dict[str, Any]) -> dict[str, Any]:
        named = {SETTING_NAMES[name]: value for name, value in settings.items() if name in SETTING_NAMES}
        if "assignor" in settings:
            named["partition_assignment_strategy"] = (ASSIGNORS[settings["assignor"]],)
        return {"bootstrap_servers": self._bootstrap, "group_id": group, **named}

    async def join(self, member: str, group: str, topics: list[str], **settings: Any) -> None:
        self._members[member] = Member(self._configuration(group, settings), topics, self._code_of)

    async def watch(self, member: str) -> dict[str, Any]:
        return self._members[member].watch()

    async def commit(self, member: str, offsets: list[dict[str, Any]] | None, asynchronous: bool) -> None:
        committing = self._members[member].consumer.commit(None if offsets is None else to_offsets(offsets))
        if asynchronous:
            self._under_way = asyncio.create_task(committing)
        else:
            await committing

    async def hold(self, member: str, ms: int) -> None:
        self._members[member].hold(ms)

    async def leave(self, member: str) -> None:
        await self._members.pop(member).leave()

    async def commit_alone(self, group: str, offsets: list[dict[str, Any]]) -> None:
        consumer = AIOKafkaConsumer(**self._configuration(group, {"auto_commit": False}))
        await consumer.start()
        try:
            consumer.assign([TopicPartition(offset["topic"], offset["partition"]) for offset in offsets])
            await consumer.commit(to_offsets(offsets))
        finally:
            await consumer.stop()

    async def committed(self, group: str, topic: str, partitions: list[int]) -> list[dict[str, Any]]:
        chosen = [TopicPartition(topic, index) for index in partitions]
        client: AIOKafkaAdminClient = await self._admin()
        found = await client.list_consumer_group_offsets(group, partitions=chosen)
        return [
            {"partition": at.partition, "offset": found[at].offset, "metadata": found[at].metadata, "leader_epoch": -1}
            for at in chosen
        ]

    async def list_groups(self) -> list[dict[str, Any]]:
        """The version of ListGroups that it speaks tells no states."""
        client: AIOKafkaAdminClient = await self._admin()
        return [{"group": name, "state": None} for name, _ in await client.list_consumer_groups()]

    async def describe_group(self, group: str) -> dict[str, Any]:
        client: AIOKafkaAdminClient = await self._admin()
        [response] = await client.describe_consumer_groups([group])
        [(code, _, state, _, protocol, members, *_)] = response.groups
        if code:
            raise KafkaRefusal(code)
        return {
            "state": state_name(state),
            "protocol": protocol,
            "members": [described(member) for member in members],
        }


def described(member: Any) -> dict[str, Any]:
    member_id, *instance, client_id, host, _, assignment = member
    return {
        "id": member_id,
        "client_id": client_id,
        "instance": instance[0] if instance else None,
        "host": host,
        "owned": owned_by(assignment),
    }


def owned_by(assignment: bytes) -> list[Partition]:
    decoded = ConsumerProtocolMemberAssignment.decode(assignment)
    return sorted((topic, index) for topic, indexes in decoded.assignment for index in indexes)


def to_offsets(offsets: list[dict[str, Any]]) -> dict[TopicPartition, tuple[int, str]]:
    return {
        TopicPartition(offset["topic"], offset["partition"]): (offset["offset"], offset.get("metadata") or "")
        for offset in offsets
    }
