"""What groups write into `__consumer_offsets`, in the versions that Kafka 4.3 writes."""

from typing import Final

from ottla.base.types import NO_TIMESTAMP, TimestampMs
from ottla.coordinator.groups.group import Group
from ottla.coordinator.groups.member import Client, Member
from ottla.coordinator.records import OFFSET_VERSION, CommittedOffset, CoordinatorRecord, offset_key
from ottla.wire import api

METADATA_VERSION: Final = 3
OFFSET_VERSION_WITH_EXPIRY: Final = 1  # The only one that has the field, for clients that name a retention time.


def metadata_record(
    group: Group, *, generation: int, assignments: dict[str, bytes], now_ms: TimestampMs
) -> CoordinatorRecord:
    value = api.GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=generation,
        protocol=group.protocol_name if group.members else None,
        leader=group.leader_id,
        current_state_timestamp=now_ms,
        members=[
            api.GroupMetadataValue.MemberMetadata(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client.client_id,
                client_host=member.client.host,
                rebalance_timeout=member.rebalance_timeout_ms,
                session_timeout=member.session_timeout_ms,
                subscription=member.metadata_for(group.protocol_name),
                assignment=assignments.get(member.member_id, b""),
            )
            for member in group.members.values()
        ],
    )
    return CoordinatorRecord(api.GroupMetadataKey(group=group.group_id), value, METADATA_VERSION)


def metadata_tombstone(group_id: str) -> CoordinatorRecord:
    return CoordinatorRecord(api.GroupMetadataKey(group=group_id), None)


def recorded_member(group: Group, protocol_name: str | None, recorded: api.GroupMetadataValue.MemberMetadata) -> Member:
    """A member as the log knows it: of its protocols only the chosen one."""
    return Member(
        group,
        recorded.member_id,
        client=Client(recorded.client_id, recorded.client_host),
        instance_id=recorded.group_instance_id,
        protocols=() if protocol_name is None else ((protocol_name, recorded.subscription),),
        rebalance_timeout_ms=recorded.session_timeout
        if recorded.rebalance_timeout == -1
        else recorded.rebalance_timeout,
        session_timeout_ms=recorded.session_timeout,
    )


def offset_record(group_id: str, topic: str, partition: int, committed: CommittedOffset) -> CoordinatorRecord:
    version = OFFSET_VERSION if committed.expire_timestamp == NO_TIMESTAMP else OFFSET_VERSION_WITH_EXPIRY
    return CoordinatorRecord(offset_key(group_id, topic, partition), committed, version)


def offset_tombstone(group_id: str, topic: str, partition: int) -> CoordinatorRecord:
    return CoordinatorRecord(offset_key(group_id, topic, partition), None)


def committed_offset(value: api.OffsetCommitValue) -> CommittedOffset:
    """Of a record that was read."""
    return CommittedOffset(
        value.offset,
        value.leader_epoch,
        value.metadata,
        value.commit_timestamp,
        value.expire_timestamp,
        value.topic_id,
    )
