"""Records that wait for a worker, in lanes: within a lane one at a time and in order, lanes beside each other.

Not thread-safe: `ParallelConsumer` holds its lock around every call.
"""

from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable, Mapping
from enum import StrEnum
from typing import Final, TypeAlias

from ottla.base.types import TopicPartition
from ottla.client.records import ConsumerRecord

Lane: TypeAlias = tuple[str, int, Hashable]


class Ordering(StrEnum):
    """What must not be handled at the same time, nor out of order."""

    PARTITION = "partition"
    KEY = "key"
    UNORDERED = "unordered"


# A record without a key has no order to keep: it is a lane of its own, as every record is without any ordering.
LANES: Final[Mapping[Ordering, Callable[[ConsumerRecord], Hashable]]] = {
    Ordering.PARTITION: lambda record: None,
    Ordering.KEY: lambda record: record.offset if record.key is None else ("key", _hashable(record.key)),
    Ordering.UNORDERED: lambda record: record.offset,
}


def _hashable(key: object) -> Hashable:
    """A deserializer may make anything of a key, a dict for one: equal ones look equal."""
    try:
        hash(key)
    except TypeError:
        return repr(key)
    return key


class OrderedWork:
    def __init__(self, ordering: Ordering) -> None:
        self._lane_of = LANES[ordering]
        self._lanes: dict[Lane, deque[ConsumerRecord]] = {}  # of every lane with a record that waits or runs
        self._ready: deque[Lane] = deque()  # lanes with a record that waits and none that runs
        self._running: Counter[TopicPartition] = Counter()
        self._count = 0

    @property
    def count(self) -> int:
        """Records that wait or run."""
        return self._count

    def running_count(self, partitions: Iterable[TopicPartition] | None = None) -> int:
        return self._running.total() if partitions is None else sum(self._running[each] for each in partitions)

    def add(self, record: ConsumerRecord) -> None:
        lane = self._lane(record)
        if lane not in self._lanes:
            self._lanes[lane] = deque()
            self._ready.append(lane)
        self._lanes[lane].append(record)
        self._count += 1

    def start_next(self) -> ConsumerRecord | None:
        if not self._ready:
            return None
        record = self._lanes[self._ready.popleft()].popleft()
        self._running[record.topic_partition] += 1
        return record

    def finish(self, record: ConsumerRecord) -> None:
        lane = self._lane(record)
        if self._lanes[lane]:
            self._ready.append(lane)
        else:
            del self._lanes[lane]
        self._running[record.topic_partition] -= 1
        self._count -= 1

    def drop_waiting(self, partitions: Iterable[TopicPartition]) -> None:
        """What has not begun. A lane that runs stays, so that its next record waits for that one."""
        gone = set(partitions)
        for lane, waiting in self._lanes.items():
            if TopicPartition(*lane[:2]) in gone:
                self._count -= len(waiting)
                waiting.clear()
        emptied = {lane for lane in self._ready if not self._lanes[lane]}
        self._ready = deque(lane for lane in self._ready if lane not in emptied)
        for lane in emptied:
            del self._lanes[lane]

    def _lane(self, record: ConsumerRecord) -> Lane:
        return (record.topic, record.partition, self._lane_of(record))
