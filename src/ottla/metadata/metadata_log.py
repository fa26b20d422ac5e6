"""The metadata log as the controller sees it, and the ports that its implementations need.

`append` is immediate and ordered; `committed` says when an offset can no longer be lost. Between the two the records
are this leader's opinion only: nothing that depends on them may leave the node. The simulator has an implementation of
its own, whose commits lag, fail and lose leadership.
"""

from collections.abc import Sequence
from typing import Protocol

from ottla.base.disk import File
from ottla.base.types import LeaderEpoch, Offset, TimestampMs
from ottla.metadata.image import MetadataBatch
from ottla.metadata.records import MetadataRecord


class CommitFailed(Exception):
    """The offset may or may not survive; this node does not lead any more. What it had appended is void to it."""


class MetadataLog(Protocol):
    def append(self, records: Sequence[MetadataRecord]) -> MetadataBatch:
        """One batch, all or nothing. `OSError`: nothing was appended."""
        ...

    async def committed(self, offset: Offset) -> None:
        """Returns once `offset` is committed; raises `CommitFailed` if that cannot be told any more."""
        ...


class SliceOfLog(Protocol):
    @property
    def file(self) -> File | None: ...
    @property
    def position(self) -> int: ...
    @property
    def size(self) -> int: ...


class Appended(Protocol):
    @property
    def last_offset(self) -> Offset: ...


class PartitionLogPort(Protocol):
    """What we need of a partition's log; `ottla.log` has it, and the layers forbid us to know that."""

    @property
    def log_start_offset(self) -> Offset: ...
    @property
    def log_end_offset(self) -> Offset: ...
    @property
    def durable_end_offset(self) -> Offset: ...
    @property
    def latest_epoch(self) -> LeaderEpoch: ...

    def append_own(self, batch: memoryview, *, leader_epoch: LeaderEpoch, now_ms: TimestampMs) -> Appended: ...

    def read(
        self, offset: Offset, max_bytes: int, *, up_to_offset: Offset | None = None, min_one_batch: bool = True
    ) -> SliceOfLog: ...

    def flush(self, up_to_offset: Offset | None = None, *, now_ms: TimestampMs = 0) -> Offset: ...

    def truncate_fully_at(self, offset: Offset) -> None: ...
