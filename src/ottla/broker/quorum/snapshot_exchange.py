"""Snapshots between nodes: pieces of ours for who is behind the log, pieces of the leader's for us.

A piece is written before the next is asked for; when all are there, the file is checked and made durable, the log begins
anew behind it, and the image becomes what it says, in this order: a crash in between starts from the file.
"""

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from ottla.base.errors import ErrorCode, ProtocolError
from ottla.broker.quorum.image_following import ImageFollowing
from ottla.broker.quorum.store import QuorumStore
from ottla.metadata.snapshot import SnapshotId
from ottla.raft.control_records import voters_of
from ottla.raft.effects import AnswerSnapshot, InstallSnapshot, WriteSnapshotChunk
from ottla.raft.events import Event, SnapshotInstalled, SnapshotRefused
from ottla.raft.messages import FetchSnapshotReply
from ottla.raft.voters import VoterSet

logger = logging.getLogger(__name__)

PIECE_BYTES_MAX: Final = 1 << 20


async def read_piece(store: QuorumStore, effect: AnswerSnapshot) -> FetchSnapshotReply:
    """The reply with a piece of the file."""
    snapshot_id, position = SnapshotId(*effect.request.snapshot_id), effect.request.position
    found = None
    if position >= 0:
        found = await store.workers.run(store.snapshots.read_piece, snapshot_id, position, PIECE_BYTES_MAX)
    if found is None:
        return replace(effect.reply, error=ErrorCode.SNAPSHOT_NOT_FOUND)
    size, data = found
    if position >= size:
        return replace(effect.reply, error=ErrorCode.POSITION_OUT_OF_RANGE)
    return replace(effect.reply, size=size, position=position, data=data)


class SnapshotDownload:
    def __init__(self, store: QuorumStore, following: ImageFollowing, step: Callable[[Event], None]) -> None:
        self._store = store
        self._following = following
        self._step = step

    async def write(self, effect: WriteSnapshotChunk) -> None:
        await self._store.workers.run(
            self._store.snapshots.write_piece, SnapshotId(*effect.snapshot_id), effect.position, effect.data
        )

    async def install(self, effect: InstallSnapshot) -> None:
        """`OSError`: what is on the disk is unknown."""
        store = self._store
        try:
            snapshot = await store.workers.run(store.snapshots.complete, SnapshotId(*effect.snapshot_id))
        except ProtocolError as error:
            logger.warning("the leader's metadata snapshot %s is refused: %s", effect.snapshot_id, error)
            self._step(SnapshotRefused(snapshot_id=effect.snapshot_id))
            return
        await store.install(snapshot, lambda: self._following.replace(snapshot))
        logger.info("metadata snapshot of the leader's installed: offset %d", snapshot.image.offset)
        voters = voters_of(snapshot.controls) or VoterSet()
        self._step(SnapshotInstalled(snapshot_id=effect.snapshot_id, voters=voters))
