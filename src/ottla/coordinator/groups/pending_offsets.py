"""Offsets that transactions have committed and that are not decided yet, by producer and group (KIP-98, KIP-447)."""

from collections.abc import Iterator, Mapping
from typing import TypeAlias

from ottla.base.types import ProducerId
from ottla.coordinator.groups.group import Group
from ottla.coordinator.records import CommittedOffset

GroupOffsets: TypeAlias = dict[tuple[str, int], CommittedOffset]
"""By topic and partition."""


class PendingOffsets:
    def __init__(self) -> None:
        self._by_producer: dict[ProducerId, dict[str, GroupOffsets]] = {}

    def add(
        self, producer_id: ProducerId, group: Group, topic: str, partition: int, committed: CommittedOffset
    ) -> None:
        groups = self._by_producer.setdefault(producer_id, {})
        groups.setdefault(group.group_id, {})[topic, partition] = committed
        if group.open_producers is None:
            group.open_producers = {}
        group.open_producers[producer_id] = None

    def drop(self, group: Group, topic: str, partition: int) -> None:
        for pending in self._of(group):
            pending.pop((topic, partition), None)

    def end(self, producer_id: ProducerId, groups: Mapping[str, Group], *, is_commit: bool) -> list[Group]:
        """The groups that it had committed for. Where another commit came later than its own, that one stays."""
        ended: list[Group] = []
        for group_id, pending in self._by_producer.pop(producer_id, {}).items():
            group = groups[group_id]
            ended.append(group)
            if group.open_producers is not None:
                group.open_producers.pop(producer_id, None)
                group.open_producers = group.open_producers or None
            if is_commit:
                for (topic, partition), committed in pending.items():
                    there = group.offset(topic, partition)
                    if there is None or committed.record_offset > there.record_offset:
                        group.set_offset(topic, partition, committed)
        return ended

    def has(self, group: Group, topic: str, partition: int) -> bool:
        return any((topic, partition) in pending for pending in self._of(group))

    def keys_of(self, group: Group) -> list[tuple[str, int]]:
        return [key for pending in self._of(group) for key in pending]

    def _of(self, group: Group) -> Iterator[GroupOffsets]:
        for producer_id in group.open_producers or ():
            pending = self._by_producer[producer_id].get(group.group_id)
            if pending is not None:
                yield pending
