"""The group words of kafka-python's driver."""

import time
from collections.abc import Callable
from typing import Any

import kafka.errors
from kafka import ConsumerRebalanceListener, KafkaAdminClient, KafkaConsumer, TopicPartition
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.errors import NoError
from kafka.structs import OffsetAndMetadata

from tests.conformance.drivers.members import POLL_S, Journal, Partition, ThreadedMember, state_name

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
SLOW_ASSIGNMENT_S = 1.5


class SlowAssignor(RangePartitionAssignor):
    """A leader that thinks for a while: meanwhile its group waits in CompletingRebalance."""

    @classmethod
    def assign(cls, *arguments: Any) -> Any:
        time.sleep(SLOW_ASSIGNMENT_S)
        return super().assign(*arguments)


ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "cooperative": CooperativeStickyAssignor,
    "slow range": SlowAssignor,
}


class Listener(ConsumerRebalanceListener):
    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def on_partitions_assigned(self, assigned: list[TopicPartition]) -> None:
        self._journal.told("assigned", [tuple(at) for at in assigned])

    def on_partitions_revoked(self, revoked: list[TopicPartition]) -> None:
        self._journal.told("revoked", [tuple(at) for at in revoked])

    def on_partitions_lost(self, lost: list[TopicPartition]) -> None:
        self._journal.told("lost", [tuple(at) for at in lost])


class KafkaPythonMember(ThreadedMember):
    def __init__(
        self, configuration: dict[str, Any], topics: list[str], code_of: Callable[[BaseException], int]
    ) -> None:
        super().__init__(code_of)
        self.consumer = KafkaConsumer(**configuration)
        self.consumer.subscribe(topics, listener=Listener(self.journal))

    def poll(self) -> None:
        for records in self.consumer.poll(timeout_ms=int(POLL_S * 1000)).values():
            for record in records:
                self.journal.read(record.topic, record.partition, record.offset, record.value)

    def close(self) -> None:
        self.consumer.close()

    def owned(self) -> list[Partition]:
        return sorted(tuple(at) for at in self.consumer.assignment())

    def generation(self) -> int:
        return int(self.consumer.group_metadata().generation_id)


class Groups:
    def __init__(self, bootstrap: str, admin: KafkaAdminClient, code_of: Callable[[BaseException], int]) -> None:
        self._bootstrap = bootstrap
        self._admin = admin
        self._code_of = code_of
        self._members: dict[str, KafkaPythonMember] = {}

    def operations(self) -> dict[str, Callable[..., Any]]:
        words = (self.join, self.watch, self.commit, self.hold, self.leave, self.commit_alone, self.committed)
        admin_words = (
            self.list_groups,
            self.describe_group,
            self.delete_group,
            self.alter_offsets,
            self.delete_offsets,
        )
        return {word.__name__: word for word in words + admin_words}

    def _configuration(self, group: str, settings: dict[str, Any]) -> dict[str, Any]:
        named = {SETTING_NAMES[name]: value for name, value in settings.items() if name in SETTING_NAMES}
        if "assignor" in settings:
            named["partition_assignment_strategy"] = (ASSIGNORS[settings["assignor"]],)
        return {"bootstrap_servers": self._bootstrap, "group_id": group, "reconnect_backoff_max_ms": 100, **named}

    def join(self, member: str, group: str, topics: list[str], **settings: Any) -> None:
        self._members[member] = KafkaPythonMember(self._configuration(group, settings), topics, self._code_of)
        self._members[member].start()

    def group_metadata(self, member: str) -> Any:
        """What a producer sends along with offsets in a transaction (KIP-447)."""
        of_member = self._members[member]
        return of_member.ask(of_member.consumer.group_metadata)

    def watch(self, member: str) -> dict[str, Any]:
        return self._members[member].watch()

    def commit(self, member: str, offsets: list[dict[str, Any]] | None, asynchronous: bool) -> None:
        of_member = self._members[member]
        chosen = None if offsets is None else to_offsets(offsets)
        commit = of_member.consumer.commit_async if asynchronous else of_member.consumer.commit
        of_member.ask(lambda: commit(chosen) and None)

    def hold(self, member: str, ms: int) -> None:
        self._members[member].hold(ms)

    def leave(self, member: str) -> None:
        self._members.pop(member).leave()

    def commit_alone(self, group: str, offsets: list[dict[str, Any]]) -> None:
        consumer = KafkaConsumer(**self._configuration(group, {"auto_commit": False}))
        try:
            chosen = to_offsets(offsets)
            consumer.assign(list(chosen))
            consumer.commit(chosen)
        finally:
            consumer.close()

    def committed(self, group: str, topic: str, partitions: list[int]) -> list[dict[str, Any]]:
        consumer = KafkaConsumer(**self._configuration(group, {"auto_commit": False}))
        try:
            found = [(index, consumer.committed(TopicPartition(topic, index), metadata=True)) for index in partitions]
        finally:
            consumer.close()
        nothing = OffsetAndMetadata(-1, "", -1)
        return [{"partition": index, **(offset or nothing)._asdict()} for index, offset in found]

    def list_groups(self) -> list[dict[str, Any]]:
        return [
            {"group": one["group_id"], "state": state_name(one["group_state"])} for one in self._admin.list_groups()
        ]

    def describe_group(self, group: str) -> dict[str, Any]:
        found = self._admin.describe_groups([group])[group]
        return {
            "state": state_name(found["group_state"]),
            "protocol": found["protocol_data"],
            "members": [
                {
                    "id": member["member_id"],
                    "client_id": member["client_id"],
                    "instance": member["group_instance_id"],
                    "host": member["client_host"],
                    "owned": owned_by(member["member_assignment"]),
                }
                for member in found["members"]
            ],
        }

    def delete_group(self, group: str) -> None:
        outcome = self._admin.delete_groups([group])[group]
        if outcome != "OK":
            raise getattr(kafka.errors, outcome)  # It answers the error's name.

    def alter_offsets(self, group: str, offsets: list[dict[str, Any]]) -> None:
        for outcome in self._admin.alter_group_offsets(group, to_offsets(offsets)).values():
            raise_error(outcome)

    def delete_offsets(self, group: str, topic: str, partitions: list[int]) -> None:
        chosen = [TopicPartition(topic, index) for index in partitions]
        for outcome in self._admin.delete_group_offsets(group, chosen).values():
            raise_error(outcome)


def raise_error(outcome: Any) -> None:
    """It hands an error over as its class."""
    if outcome is not NoError:
        raise outcome


def to_offsets(offsets: list[dict[str, Any]]) -> dict[TopicPartition, OffsetAndMetadata]:
    return {
        TopicPartition(offset["topic"], offset["partition"]): OffsetAndMetadata(
            offset["offset"], offset.get("metadata") or "", offset.get("leader_epoch", -1)
        )
        for offset in offsets
    }


def owned_by(assignment: Any) -> list[Partition]:
    return sorted(
        (topic["topic"], index) for topic in assignment["assigned_partitions"] for index in topic["partitions"]
    )
