"""When committed offsets go: expired, deleted on request, or with their topic. Each leaves a tombstone in the log."""

from collections.abc import Iterable
from typing import Final

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.types import NO_TIMESTAMP, TimestampMs
from ottla.coordinator.groups.group import CONSUMER_PROTOCOL, Group, GroupState
from ottla.coordinator.groups.group_records import metadata_tombstone, offset_tombstone
from ottla.coordinator.groups.pending_offsets import PendingOffsets
from ottla.coordinator.groups.settings import GroupSettings
from ottla.coordinator.machine import Decision
from ottla.coordinator.records import CommittedOffset, CoordinatorRecord

TOMBSTONES_MAX: Final = 1_000  # Of one decision about expiry; the next one takes the rest.


class Forgetting:
    def __init__(self, settings: GroupSettings, pending: PendingOffsets) -> None:
        self._settings = settings
        self._pending = pending

    # -- on request --------------------------------------------------------------------------------------------------

    def decide_offsets(self, group: Group | None, wanted: Iterable[tuple[str, int]]) -> Decision[list[ErrorCode]]:
        """An outcome for each. `ApiError` for a group that does not exist or whose protocol we cannot read."""
        if group is None:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, "there is no such group")
        if group.state is not GroupState.EMPTY and group.protocol_type != CONSUMER_PROTOCOL:
            raise ApiError(ErrorCode.NON_EMPTY_GROUP, f"{group.group_id} has members")
        codes: list[ErrorCode] = []
        records: list[CoordinatorRecord] = []
        for topic, partition in wanted:
            if group.members and group.is_subscribed_to(topic):
                codes.append(ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)
                continue
            codes.append(ErrorCode.NONE)
            if group.offset(topic, partition) is not None or self._pending.has(group, topic, partition):
                records.append(offset_tombstone(group.group_id, topic, partition))
        return Decision(records, codes)

    def decide_group(self, group: Group | None) -> Decision[ErrorCode]:
        if group is None:
            return Decision((), ErrorCode.GROUP_ID_NOT_FOUND)
        if group.state is not GroupState.EMPTY:
            return Decision((), ErrorCode.NON_EMPTY_GROUP)
        records = [offset_tombstone(group.group_id, topic, partition) for topic, partition in self._keys(group)]
        return Decision([*records, metadata_tombstone(group.group_id)], ErrorCode.NONE)

    def topic_tombstones(self, groups: Iterable[Group], topic: str) -> list[CoordinatorRecord]:
        return [
            offset_tombstone(group.group_id, topic, partition)
            for group in groups
            for named, partition in self._keys(group)
            if named == topic
        ]

    def _keys(self, group: Group) -> list[tuple[str, int]]:
        committed = [(topic, partition) for topic, found in (group.offsets or {}).items() for partition in found]
        return list(dict.fromkeys(committed + self._pending.keys_of(group)))

    # -- by time -----------------------------------------------------------------------------------------------------

    def decide_expired(self, groups: Iterable[Group], now_ms: TimestampMs) -> Decision[bool]:
        """Whether there may be more."""
        records: list[CoordinatorRecord] = []
        for group in groups:
            expired = self._expired(group, now_ms)
            records += expired
            if self._is_over(group, len(expired)):
                records.append(metadata_tombstone(group.group_id))
            if len(records) >= TOMBSTONES_MAX:
                return Decision(records, True)
        return Decision(records, False)

    def _expired(self, group: Group, now_ms: TimestampMs) -> list[CoordinatorRecord]:
        """While a group lives its offsets stay, except those of topics that a consumer group has turned away from."""
        is_readable = group.state is GroupState.STABLE and group.protocol_type == CONSUMER_PROTOCOL
        if not group.offsets or not (group.state is GroupState.EMPTY or is_readable):
            return []
        return [
            offset_tombstone(group.group_id, topic, partition)
            for topic, partitions in group.offsets.items()
            if not (group.members and group.is_subscribed_to(topic))
            for partition, committed in partitions.items()
            if self._is_expired(group, committed, now_ms) and not self._pending.has(group, topic, partition)
        ]

    def _is_expired(self, group: Group, committed: CommittedOffset, now_ms: TimestampMs) -> bool:
        if committed.expire_timestamp != NO_TIMESTAMP:
            return now_ms >= committed.expire_timestamp
        since_ms = committed.commit_timestamp
        if group.protocol_type is not None and group.state is GroupState.EMPTY:
            since_ms = max(since_ms, group.state_timestamp_ms)  # Since its last member went.
        return now_ms - since_ms >= self._settings.offsets_retention_ms

    @staticmethod
    def _is_over(group: Group, expired_count: int) -> bool:
        """Nothing is left of it but its name."""
        kept_count = sum(len(partitions) for partitions in (group.offsets or {}).values()) - expired_count
        is_idle = group.state is GroupState.EMPTY and not group.pending_members and not group.open_producers
        return is_idle and kept_count == 0
