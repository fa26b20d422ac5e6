"""The nouns every other room uses. Aliases, not classes: a wrapper per offset would cost more than it tells."""

from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

Offset: TypeAlias = int
LeaderEpoch: TypeAlias = int
NodeId: TypeAlias = int
ProducerId: TypeAlias = int
TimestampMs: TypeAlias = int
TopicId: TypeAlias = UUID

NO_OFFSET: Final = -1
NO_EPOCH: Final = -1
NO_TIMESTAMP: Final = -1
NO_PRODUCER_ID: Final = -1
NO_SEQUENCE: Final = -1
NO_NODE: Final = -1
ZERO_TOPIC_ID: Final = UUID(int=0)


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"
