"""Which partitions a broker holds, and which are not as they should be: without a leader, led by another, moving.

Without it the death of a broker would cost a look at every partition of the cluster. It is keyed by the replicas, which
seldom change, not by the ISR, which often does: replaying a change of the ISR costs nothing here. Only the active
controller asks, so that an image builds its index when first asked and keeps it up from then on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ottla.base.types import NodeId, TopicId
from ottla.metadata.image_parts import PartitionImage, TopicImage


class PartitionKey(NamedTuple):
    topic_id: TopicId
    number: int


class ReplicaIndex:
    """Everything is ordered: what is read from here becomes records."""

    __slots__ = ("_numbers", "unsettled")

    def __init__(self, topics: Iterable[TopicImage]) -> None:
        self._numbers: dict[NodeId, dict[TopicId, list[int]]] = {}
        self.unsettled: dict[PartitionKey, None] = {}
        for topic in topics:
            self._add_topic(topic)

    def held_by(self, broker_id: NodeId) -> Iterator[PartitionKey]:
        for topic_id, numbers in self._numbers.get(broker_id, {}).items():
            for number in numbers:
                yield PartitionKey(topic_id, number)

    def on_partition(self, topic_id: TopicId, number: int, old: PartitionImage | None, new: PartitionImage) -> None:
        old_replicas = () if old is None else old.replicas
        if old_replicas != new.replicas:
            self._move(topic_id, number, old_replicas, new.replicas)
        if not new.is_settled:
            self.unsettled[PartitionKey(topic_id, number)] = None
        elif self.unsettled:
            self.unsettled.pop(PartitionKey(topic_id, number), None)

    def on_topic_removed(self, topic: TopicImage) -> None:
        holders = {replica: None for partition in topic.partitions.values() for replica in partition.replicas}
        for broker_id in holders:
            self._numbers[broker_id].pop(topic.id, None)
        for number in topic.partitions:
            self.unsettled.pop(PartitionKey(topic.id, number), None)

    def _add_topic(self, topic: TopicImage) -> None:
        """As `on_partition` for each; at once, because a new controller of a large cluster must not stand still."""
        held: dict[NodeId, list[int]] = {}
        for number, partition in topic.partitions.items():
            for broker_id in partition.replicas:
                held.setdefault(broker_id, []).append(number)
            if not partition.is_settled:
                self.unsettled[PartitionKey(topic.id, number)] = None
        for broker_id, numbers in held.items():
            self._numbers.setdefault(broker_id, {})[topic.id] = numbers

    def _move(self, topic_id: TopicId, number: int, old: tuple[NodeId, ...], new: tuple[NodeId, ...]) -> None:
        for broker_id in old:
            if broker_id not in new:
                self._numbers[broker_id][topic_id].remove(number)
        for broker_id in new:
            if broker_id not in old:
                self._numbers.setdefault(broker_id, {}).setdefault(topic_id, []).append(number)
