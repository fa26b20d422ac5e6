"""This node's own snapshots of the metadata: taken when the log has grown enough, and what lies before them goes.

Every node takes its own, of its committed image; with it go the quorum's voters at that offset (KIP-853), for the records
that named them go with the log.
"""

import logging

from ottla.base.clock import Clock
from ottla.base.types import Offset
from ottla.broker.quorum.driver import Quorum
from ottla.metadata.snapshot import ControlRecord
from ottla.raft.control_records import control_value
from ottla.raft.events import SnapshotTaken
from ottla.raft.leading import KRAFT_VERSION_WITH_VOTERS
from ottla.raft.log_view import KRaftVersion
from ottla.raft.messages import SnapshotId
from ottla.raft.voters import VoterSet

logger = logging.getLogger(__name__)


class OwnSnapshots:
    def __init__(self, quorum: Quorum, clock: Clock, *, snapshot_bytes: int, snapshot_seconds: float) -> None:
        self._quorum = quorum
        self._store = quorum.store
        self._clock = clock
        self._snapshot_bytes = snapshot_bytes
        self._snapshot_seconds = snapshot_seconds
        self._bytes_at_snapshot = self._store.log.size_bytes
        self._snapshot_at = clock.monotonic()

    async def maybe_take(self) -> bool:
        """`OSError`: tried again later."""
        end_offset = self._quorum.image.offset + 1
        if not self._is_due() or not self._is_possible(end_offset):
            return False
        store, now_ms = self._store, self._clock.now_ms()
        controls = _controls(self._quorum.voters_before(end_offset))
        copy = self._quorum.image.copy()
        written = await store.workers.run(store.snapshots.write, copy, now_ms, controls)
        needed_from = await store.workers.run(store.snapshots.remove_old)
        await self._drop_before(needed_from)
        log_start_offset = store.log.log_start_offset
        if log_start_offset <= written.end_offset:  # Else one of the leader's has overtaken it.
            self._quorum.step(SnapshotTaken(snapshot_id=SnapshotId(*written), log_start_offset=log_start_offset))
        self._bytes_at_snapshot = store.log.size_bytes
        self._snapshot_at = self._clock.monotonic()
        logger.info("metadata snapshot written up to offset %d", copy.offset)
        return True

    def _is_due(self) -> bool:
        """By what was appended since the last one, or by time if there was anything."""
        new_bytes = self._store.log.size_bytes - self._bytes_at_snapshot
        waited = self._clock.monotonic() - self._snapshot_at
        return new_bytes >= self._snapshot_bytes or (new_bytes > 0 and 0 < self._snapshot_seconds <= waited)

    def _is_possible(self, end_offset: Offset) -> bool:
        """What others have committed may not be on our disk yet; it is, a moment later."""
        return not self._quorum.is_installing and end_offset <= self._store.log.durable_end_offset

    async def _drop_before(self, offset: Offset) -> None:
        log, workers = self._store.log, self._store.workers
        async with self._store.upkeep:
            if self._quorum.is_installing:
                return
            # On the loop, though it makes a file: an append must not come between the two halves of a roll.
            log.roll()
            log.delete_records_before(offset)
            expired = await workers.run(log.plan_retention, self._clock.now_ms())
            log.detach(expired)
        await workers.run(log.rename_deleted, expired)
        await workers.run(log.delete_files, expired)


def _controls(voters: VoterSet) -> list[ControlRecord]:
    if not voters:
        return []
    return [control_value(KRaftVersion(level=KRAFT_VERSION_WITH_VOTERS)), control_value(voters)]
