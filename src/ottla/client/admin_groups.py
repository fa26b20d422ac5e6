"""`Admin`'s calls about consumer groups: who is in them, and what they have committed.

librdkafka asks each group's coordinator. It has no call to delete single offsets (OffsetDelete), which is therefore
sent directly.
"""

from collections.abc import Iterable
from typing import Any, Final

from confluent_kafka import ConsumerGroupState, ConsumerGroupTopicPartitions, KafkaException

from ottla.base.errors import ErrorCode
from ottla.base.types import TopicPartition
from ottla.client.admin_base import AdminBase, finished, raise_failures
from ottla.client.errors import client_error, code_name, coded_error
from ottla.client.groups import GroupDescription, GroupListing, GroupMember
from ottla.client.offsets import librdkafka_offsets, positions
from ottla.client.raw.cluster import CoordinatorKind
from ottla.client.records import OffsetAndMetadata, Offsets, Partitions, partition_list
from ottla.client.text import c_text, c_texts
from ottla.wire import api
from ottla.wire.apis import ApiKey

NOT_FOUND: Final = ErrorCode.GROUP_ID_NOT_FOUND.name
IN_USE: Final = ErrorCode.UNKNOWN_MEMBER_ID.name  # What a coordinator calls a commit that no member of its group sent.
# As Kafka's own tools say it; librdkafka has constants of its own.
STATE_NAMES: Final = {
    ConsumerGroupState.PREPARING_REBALANCING: "PreparingRebalance",
    ConsumerGroupState.COMPLETING_REBALANCING: "CompletingRebalance",
    ConsumerGroupState.STABLE: "Stable",
    ConsumerGroupState.DEAD: "Dead",
    ConsumerGroupState.EMPTY: "Empty",
}


class GroupAdmin(AdminBase):
    def list_groups(self) -> list[GroupListing]:
        """Of the whole cluster, by name. A broker that does not answer fails the call: half a list reads as a whole."""
        try:
            found = self._kafka.list_consumer_groups(request_timeout=self._timeout_s).result()
        except KafkaException as error:
            raise client_error(error, "listing groups") from None
        for failure in found.errors or ():
            raise client_error(failure, "listing groups")
        listed = [
            GroupListing(
                group=each.group_id,
                state=state_name(each.state),
                type=each.type.name.lower(),
                is_simple=each.is_simple_consumer_group,
            )
            for each in found.valid
        ]
        return sorted(listed, key=lambda listing: listing.group)

    def describe_group(self, group: str) -> GroupDescription:
        return self.describe_groups([group])[group]

    def describe_groups(self, groups: Iterable[str], *, missing_ok: bool = False) -> dict[str, GroupDescription]:
        """Of groups that exist; a name that nobody has used is `GROUP_ID_NOT_FOUND`, or left out with `missing_ok`."""
        futures = self._kafka.describe_consumer_groups(c_texts(groups, "the group"), request_timeout=self._timeout_s)
        done, failures = finished("describing group", futures)
        found = {name: description(each) for name, each in done.items()}
        # Before Kafka 3.8 (DescribeGroups 6) a group that does not exist was described as a dead one.
        for name in [name for name, each in found.items() if each.state == "Dead"]:
            del found[name]
            failures[name] = coded_error(ErrorCode.GROUP_ID_NOT_FOUND, f"describing group {name}", "no such group")
        if missing_ok:
            failures = {name: each for name, each in failures.items() if each.code != NOT_FOUND}
        raise_failures(failures)
        return found

    def delete_group(self, group: str) -> None:
        self.delete_groups([group])

    def delete_groups(self, groups: Iterable[str]) -> None:
        """With all their offsets. A group with members is refused (`NON_EMPTY_GROUP`)."""
        futures = self._kafka.delete_consumer_groups(c_texts(groups, "the group"), request_timeout=self._timeout_s)
        self._finish("deleting group", futures)

    def list_group_offsets(self, group: str) -> dict[TopicPartition, OffsetAndMetadata]:
        """Everything that the group has committed; empty also where there is no such group."""
        futures = self._kafka.list_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(c_text(group, "the group"))], request_timeout=self._timeout_s
        )
        [found] = self._finish("listing offsets of group", futures).values()
        committed = positions(succeeded(found.topic_partitions, f"listing offsets of group {group}"))
        return {partition: offset for partition, offset in sorted(committed.items()) if offset is not None}

    def alter_group_offsets(self, group: str, offsets: Offsets) -> None:
        """Sets committed offsets of a group without members; a new group comes into being by it."""
        asked = ConsumerGroupTopicPartitions(c_text(group, "the group"), librdkafka_offsets(offsets))
        futures = self._kafka.alter_consumer_group_offsets([asked], request_timeout=self._timeout_s)
        [done] = self._finish("altering offsets of group", futures).values()
        doing = f"altering offsets of group {group}"
        if any(each.error is not None and code_name(each.error) == IN_USE for each in done.topic_partitions):
            raise coded_error(ErrorCode.NON_EMPTY_GROUP, doing, "the group has active members")
        succeeded(done.topic_partitions, doing)

    def delete_group_offsets(self, group: str, partitions: Partitions) -> None:
        """Forgets what the group has committed for these. Refused while members read the topic."""
        request = offset_delete_request(group, partition_list(partitions))
        with self._brokers() as cluster:
            coordinator = cluster.coordinator(CoordinatorKind.GROUP, group)
            answer = cluster.ask(ApiKey.OFFSET_DELETE, request, api.OffsetDeleteResponse, at=coordinator)
        doing = f"deleting offsets of group {group}"
        if answer.error_code != ErrorCode.NONE:
            raise coded_error(answer.error_code, doing)
        raise_failures(
            {
                f"{topic.name}-{partition.partition_index}": coded_error(
                    partition.error_code, f"{doing} for {topic.name}-{partition.partition_index}"
                )
                for topic in answer.topics
                for partition in topic.partitions
                if partition.error_code != ErrorCode.NONE
            }
        )


def state_name(state: ConsumerGroupState) -> str:
    return STATE_NAMES.get(state, "Unknown")


def description(found: Any) -> GroupDescription:
    return GroupDescription(
        group=found.group_id,
        state=state_name(found.state),
        type=found.type.name.lower(),
        assignor=found.partition_assignor,
        coordinator=None if found.coordinator is None else found.coordinator.id,
        members=tuple(
            GroupMember(
                member_id=member.member_id,
                instance_id=member.group_instance_id,
                client_id=member.client_id,
                host=member.host,
                partitions=tuple(sorted(positions(member.assignment.topic_partitions))),
            )
            for member in found.members
        ),
    )


def succeeded(listed: list[Any], doing: str) -> list[Any]:
    failures = {
        f"{each.topic}-{each.partition}": client_error(each.error, f"{doing} for {each.topic}-{each.partition}")
        for each in listed
        if each.error is not None
    }
    raise_failures(failures)
    return listed


def offset_delete_request(group: str, partitions: list[TopicPartition]) -> api.OffsetDeleteRequest:
    Request = api.OffsetDeleteRequest
    return Request(
        group_id=group,
        topics=[
            Request.OffsetDeleteRequestTopic(
                name=topic,
                partitions=[
                    Request.OffsetDeleteRequestPartition(partition_index=each.partition)
                    for each in partitions
                    if each.topic == topic
                ],
            )
            for topic in sorted({each.topic for each in partitions})
        ],
    )
