"""The metadata log of a single node: it leads itself, and what is on its disk is committed.

Every start is a new epoch: `quorum-state` first, then a LeaderChange control batch, as Kafka writes for a static
quorum. What the log holds then is committed with it. A commit is an fsync; how many waiters one fsync serves is the
business of `wait_durable`, which the node supplies. Called by `runtime.py`; opened by the node before it serves.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from ottla.base.clock import Clock
from ottla.base.disk import Disk
from ottla.base.errors import ProtocolError, invariant, violated
from ottla.base.types import NO_NODE, LeaderEpoch, NodeId, Offset, TimestampMs
from ottla.metadata.bootstrap import bootstrap_records
from ottla.metadata.image import MetadataBatch, MetadataImage
from ottla.metadata.metadata_log import CommitFailed, PartitionLogPort
from ottla.metadata.quorum_state import QuorumState, read_quorum_state, write_quorum_state
from ottla.metadata.records import MetadataRecord, decode_record, encode_record
from ottla.metadata.snapshot import SnapshotFiles
from ottla.wire import api
from ottla.wire.codec import codec_for
from ottla.wire.records import BatchBuilder, ControlType, batches, check_crc, control_batch, records_of

logger = logging.getLogger(__name__)

LEADER_CHANGE_VERSION: Final = 0
READ_BYTES: Final = 4 << 20


class QuorumOfOne:
    """Implements `MetadataLog`."""

    def __init__(
        self, log: PartitionLogPort, clock: Clock, epoch: LeaderEpoch, wait_durable: Callable[[Offset], Awaitable[None]]
    ) -> None:
        self._log = log
        self._clock = clock
        self._wait_durable = wait_durable
        self.epoch: Final = epoch

    @property
    def end_offset(self) -> Offset:
        return self._log.log_end_offset

    @property
    def committed_end_offset(self) -> Offset:
        return self._log.durable_end_offset

    def append(self, records: Sequence[MetadataRecord]) -> MetadataBatch:
        return append_records(self._log, records, self.epoch, self._clock.now_ms())

    async def committed(self, offset: Offset) -> None:
        if self._log.durable_end_offset > offset:
            return
        try:
            await self._wait_durable(offset + 1)
        except OSError as error:
            # What a failed fsync left on the disk is unknown: asking again could answer yes without it being true.
            raise CommitFailed(f"the metadata log could not be synced: {error}") from error
        invariant(self._log.durable_end_offset > offset, "a commit is durable", offset=offset)


def append_records(
    log: PartitionLogPort, records: Sequence[MetadataRecord], epoch: LeaderEpoch, now_ms: TimestampMs
) -> MetadataBatch:
    builder = BatchBuilder()
    for record in records:
        builder.append(now_ms, None, encode_record(record))
    batch = builder.build()
    appended = log.append_own(memoryview(batch), leader_epoch=epoch, now_ms=now_ms)
    return MetadataBatch(records, appended.last_offset, epoch, now_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedQuorum:
    epoch: LeaderEpoch
    image: MetadataImage
    """All that the log holds, every bit of it durable."""


def open_quorum_of_one(
    *, disk: Disk, directory: str, log: PartitionLogPort, node_id: NodeId, clock: Clock
) -> OpenedQuorum:
    """Blocking: loads the newest snapshot and the log behind it, starts a new epoch, bootstraps a new cluster."""
    state = read_quorum_state(disk, directory)
    invariant(not state.voters or state.voters == (node_id,), "this node is the only voter", voters=state.voters)
    image = load_image(disk, directory, log)
    epoch = max(state.leader_epoch, log.latest_epoch, image.epoch) + 1
    write_quorum_state(disk, directory, QuorumState(node_id, epoch, NO_NODE, (node_id,)))
    now_ms = clock.now_ms()
    log.append_own(memoryview(_leader_change(node_id, now_ms)), leader_epoch=epoch, now_ms=now_ms)
    image.replay_batch(MetadataBatch((), log.log_end_offset - 1, epoch, now_ms))
    if not image.features:
        image.replay_batch(append_records(log, bootstrap_records(), epoch, now_ms))
    log.flush(now_ms=now_ms)
    image.take_delta()
    logger.info("metadata loaded: epoch %d, offset %d, %d topics", epoch, image.offset, len(image.topics))
    return OpenedQuorum(epoch=epoch, image=image)


def load_image(disk: Disk, directory: str, log: PartitionLogPort) -> MetadataImage:
    """Blocking. The newest valid snapshot, then every batch of the log after it."""
    newest = SnapshotFiles(disk, directory).load_newest()
    image = MetadataImage() if newest is None else newest[1]
    next_offset = image.offset + 1
    if log.log_end_offset < next_offset:
        # The snapshot holds all that the log has and more: the log begins anew behind it.
        log.truncate_fully_at(next_offset)
    invariant(log.log_start_offset <= next_offset, "the log goes on where the snapshot ends",
              log_start=log.log_start_offset, snapshot_end=next_offset)  # fmt: skip
    while next_offset < log.log_end_offset:
        for batch in _read_batches(log, next_offset):
            image.replay_batch(batch)
        invariant(image.offset >= next_offset, "reading the metadata log goes on", offset=next_offset)
        next_offset = image.offset + 1
    return image


def _read_batches(log: PartitionLogPort, offset: Offset) -> list[MetadataBatch]:
    """Whole batches from `offset` on. Committed bytes that are no batches stop the controller."""
    region = log.read(offset, READ_BYTES)
    invariant(region.file is not None, "committed metadata is in the log", offset=offset)
    assert region.file is not None
    data = memoryview(region.file.pread(region.size, region.position))
    found: list[MetadataBatch] = []
    try:
        for batch in batches(data, stop_at_partial=True):
            check_crc(batch.view)
            header = batch.header
            if header.last_offset < offset:
                continue
            records = [] if header.is_control else [decode_record(record.value) for record in records_of(batch.view)]
            found.append(
                MetadataBatch(records, header.last_offset, header.partition_leader_epoch, header.max_timestamp)
            )
    except ProtocolError as error:
        violated("the committed metadata log can be read", offset=offset, reason=str(error))
    return found


def _leader_change(node_id: NodeId, now_ms: TimestampMs) -> bytearray:
    voter = api.LeaderChangeMessage.Voter(voter_id=node_id)
    message = api.LeaderChangeMessage(version=0, leader_id=node_id, voters=[voter], granting_voters=[voter])
    value = codec_for(api.LeaderChangeMessage, LEADER_CHANGE_VERSION).encode(message)
    return control_batch(ControlType.LEADER_CHANGE, value, timestamp=now_ms)
