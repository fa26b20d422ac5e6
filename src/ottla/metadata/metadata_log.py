"""The metadata log as the controller sees it.

`append` is immediate and ordered; `committed` says when an offset can no longer be lost. Between the two the records
are this leader's opinion only: nothing that depends on them may leave the node. The quorum is the implementation
(`broker/quorum/driver.py`); the simulator has another, whose commits lag, fail and lose leadership.
"""

from collections.abc import Sequence
from typing import Protocol

from ottla.base.types import Offset
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
