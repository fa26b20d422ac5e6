"""The group words of confluent-kafka's driver: members, commits of others, administration of groups."""

from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer, ConsumerGroupState, ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.conformance.drivers.loop import KafkaRefusal
from tests.conformance.drivers.members import POLL_S, Partition, ThreadedMember

TIMEOUT_S = 30
SETTING_NAMES = {
    "client_id": "client.id",
    "instance": "group.instance.id",
    "session_ms": "session.timeout.ms",
    "heartbeat_ms": "heartbeat.interval.ms",
    "poll_interval_ms": "max.poll.interval.ms",
    "auto_commit": "enable.auto.commit",
    "auto_commit_ms": "auto.commit.interval.ms",
    "metadata_ms": "topic.metadata.refresh.interval.ms",
    "reset": "auto.offset.reset",
    "bootstrap": "bootstrap.servers",
}
ASSIGNORS = {"range": "range", "roundrobin": "roundrobin", "cooperative": "cooperative-sticky"}
GENERATION_AT = len(b"CGMDv2:")  # Where librdkafka writes it into the opaque group metadata.


class ConfluentMember(ThreadedMember):
    def __init__(
        self, configuration: dict[str, Any], topics: list[str], code_of: Callable[[BaseException], int]
    ) -> None:
        super().__init__(code_of)
        self.consumer = Consumer(
            {
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": 100,
                "error_cb": self._on_error,
                "on_commit": self._on_commit,
                **configuration,
            }
        )
        self.consumer.subscribe(
            topics,
            on_assign=self._teller("assigned"),
            on_revoke=self._teller("revoked"),
            on_lost=self._teller("lost"),
        )

    def _teller(self, kind: str) -> Callable[[Consumer, list[TopicPartition]], None]:
        return lambda _, partitions: self.journal.told(kind, [(at.topic, at.partition) for at in partitions])

    def _on_error(self, error: Any) -> None:
        if error.fatal():
            self.journal.failed(KafkaException(error))

    def _on_commit(self, error: Any, partitions: list[TopicPartition]) -> None:
        if error is not None:
            self.journal.failed(KafkaException(error))

    def poll(self) -> None:
        message = self.consumer.poll(POLL_S)
        if message is None:
            return
        if (error := message.error()) is not None:
            if not error.retriable():
                self.journal.failed(KafkaException(error))
            return
        self.journal.read(message.topic(), message.partition(), message.offset(), message.value())

    def close(self) -> None:
        self.consumer.close()

    def owned(self) -> list[Partition]:
        return sorted((at.topic, at.partition) for at in self.consumer.assignment())

    def generation(self) -> int:
        metadata = self.consumer.consumer_group_metadata()
        return int.from_bytes(metadata[GENERATION_AT : GENERATION_AT + 4], "little", signed=True)


class Groups:
    """The operations; `configuration` makes librdkafka's settings of the suite's words."""

    def __init__(self, bootstrap: str, admin: AdminClient, code_of: Callable[[BaseException], int]) -> None:
        self._bootstrap = bootstrap
        self._admin = admin
        self._code_of = code_of
        self._members: dict[str, ConfluentMember] = {}

    def operations(self) -> dict[str, Callable[..., Any]]:
        words = (self.join, self.watch, self.commit, self.hold, self.leave, self.commit_alone, self.committed)
        admin_words = (self.list_groups, self.describe_group, self.delete_group, self.alter_offsets)
        return {word.__name__: word for word in words + admin_words}

    def _configuration(self, group: str, settings: dict[str, Any]) -> dict[str, Any]:
        named = {SETTING_NAMES[name]: value for name, value in settings.items() if name in SETTING_NAMES}
        if "assignor" in settings:
            named["partition.assignment.strategy"] = ASSIGNORS[settings["assignor"]]
        if settings.get("reset") == "none":
            named["auto.offset.reset"] = "error"
        return {"bootstrap.servers": self._bootstrap, "group.id": group, **named, **settings.get("raw", {})}

    def join(self, member: str, group: str, topics: list[str], **settings: Any) -> None:
        self._members[member] = ConfluentMember(self._configuration(group, settings), topics, self._code_of)
        self._members[member].start()

    def group_metadata(self, member: str) -> Any:
        """What a producer sends along with offsets in a transaction (KIP-447)."""
        of_member = self._members[member]
        return of_member.ask(of_member.consumer.consumer_group_metadata)

    def watch(self, member: str) -> dict[str, Any]:
        return self._members[member].watch()

    def commit(self, member: str, offsets: list[dict[str, Any]] | None, asynchronous: bool) -> None:
        chosen = {} if offsets is None else {"offsets": to_partitions(offsets)}
        of_member = self._members[member]
        raise_first(of_member.ask(lambda: of_member.consumer.commit(**chosen, asynchronous=asynchronous)) or [])

    def hold(self, member: str, ms: int) -> None:
        self._members[member].hold(ms)

    def leave(self, member: str) -> None:
        self._members.pop(member).leave()

    def commit_alone(self, group: str, offsets: list[dict[str, Any]]) -> None:
        consumer = Consumer({**self._configuration(group, {}), "enable.auto.commit": False})
        try:
            partitions = to_partitions(offsets)
            consumer.assign(partitions)
            raise_first(consumer.commit(offsets=partitions, asynchronous=False))
        finally:
            consumer.close()

    def committed(self, group: str, topic: str, partitions: list[int]) -> list[dict[str, Any]]:
        consumer = Consumer(self._configuration(group, {}))
        try:
            found = consumer.committed([TopicPartition(topic, index) for index in partitions], TIMEOUT_S)
        finally:
            consumer.close()
        raise_first(found)
        return [
            {
                "partition": at.partition,
                "offset": max(at.offset, -1),  # librdkafka has a number of its own for none.
                "metadata": at.metadata or "",
                "leader_epoch": -1 if at.leader_epoch is None else at.leader_epoch,
            }
            for at in found
        ]

    def list_groups(self) -> list[dict[str, Any]]:
        listed = self._admin.list_consumer_groups(request_timeout=TIMEOUT_S).result(TIMEOUT_S)
        return [{"group": one.group_id, "state": state_name(one.state)} for one in listed.valid]

    def describe_group(self, group: str) -> dict[str, Any]:
        found = self._admin.describe_consumer_groups([group])[group].result(TIMEOUT_S)
        return {
            "state": state_name(found.state),
            "protocol": found.partition_assignor,
            "members": [
                {
                    "id": member.member_id,
                    "client_id": member.client_id,
                    "instance": member.group_instance_id,
                    "host": member.host,
                    "owned": sorted((at.topic, at.partition) for at in member.assignment.topic_partitions),
                }
                for member in found.members
            ],
        }

    def delete_group(self, group: str) -> None:
        self._admin.delete_consumer_groups([group])[group].result(TIMEOUT_S)

    def alter_offsets(self, group: str, offsets: list[dict[str, Any]]) -> None:
        wanted = ConsumerGroupTopicPartitions(group, to_partitions(offsets))
        result = self._admin.alter_consumer_group_offsets([wanted])[group].result(TIMEOUT_S)
        raise_first(result.topic_partitions)


def to_partitions(offsets: list[dict[str, Any]]) -> list[TopicPartition]:
    return [
        TopicPartition(
            offset["topic"],
            offset["partition"],
            offset["offset"],
            offset.get("metadata") or "",
            offset.get("leader_epoch", -1),
        )
        for offset in offsets
    ]


def state_name(state: ConsumerGroupState) -> str:
    """It alone says PREPARING_REBALANCING for Kafka's PreparingRebalance."""
    return str(state.name).replace("REBALANCING", "REBALANCE")


def raise_first(partitions: list[TopicPartition]) -> None:
    for at in partitions:
        if at.error is not None:
            raise KafkaRefusal(at.error.code(), at.error.str())
