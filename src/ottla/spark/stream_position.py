"""Where a streaming query is: what Spark keeps for it in the checkpoint, for ever, so the layout has a version.

    {"version": 1, "topics": {topic: {partition: next offset}}, "ids": {topic: its id}}

The ids tell a topic that was deleted and made anew from the one that was read before: its offsets begin again.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from ottla.base.types import Offset, TopicPartition

LAYOUT_VERSION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamPosition:
    offsets: Mapping[TopicPartition, Offset]
    topic_ids: Mapping[str, str]

    def at(self, offsets: Mapping[TopicPartition, Offset]) -> "StreamPosition":
        return StreamPosition(offsets=offsets, topic_ids=self.topic_ids)

    def has_same_topic(self, other: "StreamPosition", topic: str) -> bool:
        return self.topic_ids.get(topic) == other.topic_ids.get(topic)

    def to_json(self) -> dict[str, Any]:
        topics: dict[str, dict[str, int]] = {}
        for partition, offset in sorted(self.offsets.items()):
            topics.setdefault(partition.topic, {})[str(partition.partition)] = offset
        return {"version": LAYOUT_VERSION, "topics": topics, "ids": dict(sorted(self.topic_ids.items()))}

    @classmethod
    def from_json(cls, layout: Mapping[str, Any]) -> Self:
        if layout["version"] != LAYOUT_VERSION:
            raise ValueError(f"the checkpoint has offsets of version {layout['version']}: a newer Ottla wrote it")
        offsets = {
            TopicPartition(topic, int(index)): offset
            for topic, numbers in layout["topics"].items()
            for index, offset in numbers.items()
        }
        return cls(offsets=offsets, topic_ids=layout["ids"])
