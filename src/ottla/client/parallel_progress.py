"""How far a partition is done when its records are not done in order.

Only a prefix may be committed: the position is the offset after the last record before which nothing is unfinished.
Offsets need not be dense (compaction, markers): what counts is the order in which records were taken.
"""

from collections import deque

from ottla.client.records import ConsumerRecord, OffsetAndMetadata, position_after


class PartitionProgress:
    def __init__(self) -> None:
        self._unfinished: deque[ConsumerRecord] = deque()  # in the order of the partition; done ones wait in `_done`
        self._done: set[int] = set()
        self._position: OffsetAndMetadata | None = None
        self._committed: OffsetAndMetadata | None = None

    def take(self, record: ConsumerRecord) -> None:
        self._unfinished.append(record)

    def finish(self, record: ConsumerRecord) -> None:
        self._done.add(record.offset)
        while self._unfinished and self._unfinished[0].offset in self._done:
            first = self._unfinished.popleft()
            self._done.remove(first.offset)
            self._position = position_after(first)

    def to_commit(self) -> OffsetAndMetadata | None:
        """The position, unless `committed` has said it already."""
        return None if self._position == self._committed else self._position

    def committed(self, position: OffsetAndMetadata) -> None:
        self._committed = position
