"""Opening a partition: what the files say, and after a crash what of it can be believed.

After a clean shutdown one listing and the tail of the last segment are enough. After a crash everything from the
segment with the recovery point on is read: batches are checked by CRC, the torn or rotten rest is cut off and named in
the log, later segments are removed, indexes, leader epochs and producer state are rebuilt. What lies below the recovery
point was synced and is never cut for a bad checksum: it is named, and followers and clients will refuse it.
"""

import logging
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from posixpath import join

from ottla.base.disk import Disk
from ottla.base.types import Offset, TimestampMs, TopicId
from ottla.log import file_names
from ottla.log.batch_scan import VerifiedBatch, scan_headers, scan_verified
from ottla.log.checkpoints import CorruptCheckpoint, decode_epochs
from ottla.log.config import LogConfig
from ottla.log.deletion import remove_files
from ottla.log.epoch_cache import EpochCache
from ottla.log.handles import HandleCache
from ottla.log.interrupted import settle_interrupted
from ottla.log.offset_index import RELATIVE_OFFSET_MAX
from ottla.log.partition_metadata import read_topic_id
from ottla.log.producer_replay import apply_batch, replay_file
from ottla.log.producer_state import ProducerState
from ottla.log.producer_tail import recall_batches
from ottla.log.segment import Segment
from ottla.log.snapshot_files import SnapshotFiles

logger = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class LoadedLog:
    segments: list[Segment]
    log_start_offset: Offset
    log_end_offset: Offset
    epochs: EpochCache
    snapshots: SnapshotFiles
    producer_state: ProducerState
    recovery_point: Offset
    topic_id: TopicId | None
    is_directory_synced: bool  # Whether the names of the files are surely on stable storage.


@dataclass(frozen=True, slots=True, kw_only=True)
class Loading:
    """The circumstances of one opening, shared by its steps."""

    disk: Disk
    directory: str
    config: LogConfig
    handles: HandleCache
    now_ms: TimestampMs


def load(loading: Loading, *, is_clean: bool, recovery_point: Offset, log_start_offset: Offset) -> LoadedLog:
    """Blocking. Brings the files into a state that the log can go on from."""
    if not loading.disk.exists(loading.directory):
        loading.disk.make_directory(loading.directory)
    names = settle_interrupted(loading.disk, loading.directory)
    segments, snapshots = _segments_and_snapshots(loading, names)
    epochs = _load_epochs(loading, names, segments)
    log_end_offset = _clean_end(loading, segments) if is_clean and segments else None
    if log_end_offset is not None:
        producer_state = rebuild_producers(loading, segments, snapshots, log_end_offset)
    elif segments:
        log_end_offset, producer_state = _recover(loading, segments, snapshots, epochs, recovery_point)
    if log_end_offset is None or log_end_offset < log_start_offset:
        is_clean = False
        segments, log_end_offset, producer_state = _start_over(loading, segments, snapshots, epochs, log_start_offset)
    snapshots.remove_above(log_end_offset)
    snapshots.remove_strays({segment.base_offset for segment in segments})
    log_start_offset = max(log_start_offset, segments[0].base_offset)
    epochs.truncate_end(log_end_offset)
    epochs.truncate_start(log_start_offset)
    return LoadedLog(
        segments=segments,
        log_start_offset=log_start_offset,
        log_end_offset=log_end_offset,
        epochs=epochs,
        snapshots=snapshots,
        producer_state=producer_state,
        recovery_point=log_end_offset if is_clean else min(recovery_point, log_end_offset),
        topic_id=read_topic_id(loading.disk, loading.directory) if names.get(file_names.PARTITION_METADATA) else None,
        is_directory_synced=is_clean and log_end_offset > 0,
    )


def rebuild_producers(
    loading: Loading,
    segments: list[Segment],
    snapshots: SnapshotFiles,
    up_to_offset: Offset,
) -> ProducerState:
    """The producers as of an offset: the newest snapshot before it, the last batches before that, and those since.

    A snapshot from before the first segment is of no use: what came between is gone, and an outdated sequence would
    refuse a producer where no state would accept it.
    """
    from_offset, state = snapshots.load(up_to_offset, loading.now_ms, loading.config.producer_id_expiration_ms)
    first_offset = segments[0].base_offset
    if from_offset is None or from_offset < first_offset:
        from_offset, state = first_offset, ProducerState()
    if state.producers and (earlier := segments[: bisect_left(segments, from_offset, key=_base_offset)]):
        last = earlier[-1]
        # Without a look-up where it can be spared: it would read the whole index.
        recall_batches(state, earlier, last.size if from_offset == up_to_offset else last.position_of(from_offset))
    first = bisect_right(segments, from_offset, key=_base_offset) - 1
    for segment in segments[first:]:
        if from_offset >= up_to_offset or segment.base_offset >= up_to_offset:
            break
        start = segment.position_of(max(from_offset, segment.base_offset))
        replay_file(state, segment.handle(), start, segment.position_of(up_to_offset), from_offset)
    return state


def _base_offset(segment: Segment) -> Offset:
    return segment.base_offset


def _segments_and_snapshots(loading: Loading, names: dict[str, int]) -> tuple[list[Segment], SnapshotFiles]:
    log_sizes: dict[Offset, int] = {}
    snapshot_offsets: list[Offset] = []
    others: list[tuple[Offset, str]] = []
    for name, size in names.items():
        match file_names.split_name(name):
            case offset, file_names.LOG:
                log_sizes[offset] = size
            case offset, file_names.PRODUCER_SNAPSHOT:
                snapshot_offsets.append(offset)
            case offset, _:
                others.append((offset, name))
    for offset, name in others:
        if offset not in log_sizes and name.endswith(file_names.SEGMENT_SUFFIXES):
            logger.warning("removing %s: there is no log file to this index", join(loading.directory, name))
            loading.disk.remove(join(loading.directory, name))
    segments = [_segment(loading, offset, size) for offset, size in sorted(log_sizes.items())]
    for segment in segments[:-1]:
        segment.is_sealed = True
    return segments, SnapshotFiles(loading.disk, loading.directory, snapshot_offsets)


def _segment(loading: Loading, base_offset: Offset, size: int) -> Segment:
    return Segment(
        loading.disk,
        loading.directory,
        base_offset,
        loading.handles,
        index_interval_bytes=loading.config.index_interval_bytes,
        size=size,
    )


def _load_epochs(loading: Loading, names: dict[str, int], segments: list[Segment]) -> EpochCache:
    """From the checkpoint file or, where that is unreadable, from every batch there is."""
    if not names.get(file_names.LEADER_EPOCH_CHECKPOINT):
        return EpochCache()
    path = join(loading.directory, file_names.LEADER_EPOCH_CHECKPOINT)
    try:
        return EpochCache(decode_epochs(loading.disk.read(path), path))
    except CorruptCheckpoint as error:
        logger.error("leader epochs are read from the log again: %s", error)
    epochs = EpochCache()
    for segment in segments:
        for _, header in scan_headers(segment.handle(), 0, segment.size):
            if header.partition_leader_epoch > epochs.latest_epoch:
                epochs.assign(header.partition_leader_epoch, header.base_offset)
    return epochs


def _clean_end(loading: Loading, segments: list[Segment]) -> Offset | None:
    """The end of a log that was closed cleanly; `None` if it looks otherwise after all."""
    active = segments[-1]
    if active.size == 0:
        is_ours = len(segments) == 1 or _begins_at_end_of(segments[-2], active)
        return active.base_offset if is_ours else None
    end_offset = _tail_end(active)
    if end_offset is None:
        logger.warning("%s does not end with a whole batch in spite of a clean shutdown", active.path(file_names.LOG))
        return None
    _, first = next(scan_headers(active.handle(), 0, active.size))
    _note_first_append(active, first.max_timestamp, loading.now_ms)
    return end_offset


def _begins_at_end_of(before: Segment, segment: Segment) -> bool:
    """Whether an empty segment belongs where it is: a roll that failed may have left it in front of later appends."""
    return segment.size > 0 or _tail_end(before) == segment.base_offset


def _tail_end(segment: Segment) -> Offset | None:
    """Where a segment ends, by its batches from the last indexed one on; `None` if they do not end with the file."""
    next_offset = None
    entries = segment.last_indexed(1)
    end = start = entries[0][1] if entries else 0
    for position, header in scan_headers(segment.handle(), start, segment.size):
        next_offset = header.next_offset
        end = position + header.size_bytes
    return next_offset if end == segment.size else None


def _note_first_append(segment: Segment, timestamp: TimestampMs, now_ms: TimestampMs) -> None:
    """When the segment was begun is not recorded; its first batch's time is the nearest to it, if it can be true."""
    segment.first_append_ms = timestamp if 0 <= timestamp <= now_ms else now_ms


def _recover(
    loading: Loading,
    segments: list[Segment],
    snapshots: SnapshotFiles,
    epochs: EpochCache,
    recovery_point: Offset,
) -> tuple[Offset, ProducerState]:
    first = max(bisect_right(segments, recovery_point, key=_base_offset) - 1, 0)
    if first > 0 and not _begins_at_end_of(segments[first - 1], segments[first]):
        first -= 1
    producer_state = rebuild_producers(loading, segments, snapshots, segments[first].base_offset)
    log_end_offset = segments[first].base_offset
    kept_count = first
    for segment in segments[first:]:
        # Beyond the recovery point segments join. After a gap the end of the one before was lost; a base before its end
        # is of a roll that failed, and appends went on in front of it.
        if segment.base_offset != log_end_offset:
            break
        log_end_offset, is_whole = _recover_segment(loading, segment, epochs, producer_state, recovery_point)
        kept_count += 1
        if not is_whole:
            break
    if kept_count < len(segments):
        _remove_segments(loading, segments[kept_count:], f"the log ends at {log_end_offset}")
        loading.disk.sync_directory(loading.directory)
        del segments[kept_count:]
    segments[-1].is_sealed = False
    return log_end_offset, producer_state


def _recover_segment(
    loading: Loading, segment: Segment, epochs: EpochCache, producer_state: ProducerState, recovery_point: Offset
) -> tuple[Offset, bool]:
    """Reads a whole segment again. Returns where it ends, and whether nothing had to be cut."""
    segment.reset_indexes()
    next_offset = segment.base_offset
    good_bytes = 0
    for batch in scan_verified(segment.handle(), 0, segment.size):
        header = batch.header
        if not _is_believable(segment, batch, next_offset, recovery_point):
            break
        if batch.position == 0:
            _note_first_append(segment, header.max_timestamp, loading.now_ms)
        if header.base_offset != next_offset:
            segment.forget_recent()  # Compaction has left a gap.
        segment.index_batch(
            batch.position, header.size_bytes, header.base_offset, header.last_offset, header.max_timestamp
        )
        if header.partition_leader_epoch > epochs.latest_epoch:
            epochs.assign(header.partition_leader_epoch, header.base_offset)
        if header.producer_id >= 0 and batch.is_crc_valid:
            completed = apply_batch(producer_state, header, batch.data)
            if completed is not None and completed.is_aborted:
                segment.note_aborted(completed, producer_state.last_stable_after(completed))
        next_offset = header.next_offset
        good_bytes = batch.position + header.size_bytes
    if good_bytes == segment.size:
        return next_offset, True
    logger.warning(
        "cutting %s at position %d (offset %d): %d bytes behind it are no whole batches",
        segment.path(file_names.LOG),
        good_bytes,
        next_offset,
        segment.size - good_bytes,
    )
    segment.cut(good_bytes)
    return next_offset, False


def _is_believable(segment: Segment, batch: VerifiedBatch, next_offset: Offset, recovery_point: Offset) -> bool:
    header = batch.header
    relative_offset = header.last_offset - segment.base_offset
    if header.base_offset < next_offset or header.last_offset_delta < 0 or relative_offset > RELATIVE_OFFSET_MAX:
        return False
    if batch.is_crc_valid:
        return True
    is_synced = header.last_offset < recovery_point
    logger.error(
        "rotten batch in %s at position %d (offsets %d to %d): its checksum does not match%s",
        segment.path(file_names.LOG),
        batch.position,
        header.base_offset,
        header.last_offset,
        ", kept because it lies below the recovery point" if is_synced else "",
    )
    return is_synced


def _start_over(
    loading: Loading,
    segments: list[Segment],
    snapshots: SnapshotFiles,
    epochs: EpochCache,
    log_start_offset: Offset,
) -> tuple[list[Segment], Offset, ProducerState]:
    """An empty log at its start offset: it is new, or its files ended before that offset."""
    if segments:
        _remove_segments(loading, segments, f"the log starts at {log_start_offset}, behind their end")
        epochs.clear()
    snapshots.remove_above(-1)
    segment = Segment.create(
        loading.disk,
        loading.directory,
        log_start_offset,
        loading.handles,
        index_interval_bytes=loading.config.index_interval_bytes,
    )
    if segments:
        loading.disk.sync_directory(loading.directory)
    return [segment], log_start_offset, ProducerState()


def _remove_segments(loading: Loading, segments: list[Segment], reason: str) -> None:
    for segment in segments:
        logger.warning("removing segment %s: %s", segment.path(file_names.LOG), reason)
    remove_files(loading.disk, segments)
