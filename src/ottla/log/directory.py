"""One log directory of a node: its identity, its checkpoints, its partitions.

`open` refuses a directory of another cluster or node and takes the clean-shutdown marker; `open_partition` is then
called for each partition found, in workers as many as the caller likes. Checkpoints are written from time to time and
at a clean `close`, which ends with the marker. They go by the partition's name, and a name may be given again: what they
say of a former partition is gone (`forget_absent`) before a new one of its name is made. Everything here blocks.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Set
from itertools import chain, count
from posixpath import basename, join
from uuid import UUID

from ottla.base.disk import Disk
from ottla.base.types import NodeId, Offset, TimestampMs, TopicId, TopicPartition
from ottla.log import clean_shutdown, file_names, meta_properties
from ottla.log.checkpoints import CorruptCheckpoint, OffsetCheckpoint, read_offsets, write_offsets
from ottla.log.config import LogConfig
from ottla.log.handles import HandleCache
from ottla.log.meta_properties import MetaProperties, WrongDirectory
from ottla.log.partition_log import PartitionLog
from ottla.log.partition_metadata import read_topic_id

logger = logging.getLogger(__name__)


class LogDirectory:
    __slots__ = (
        "_disk",
        "_handles",
        "_log_starts",
        "_recovery_points",
        "cleaned_ends",
        "directory_id",
        "high_watermarks",
        "last_broker_epoch",
        "path",
        "was_clean_shutdown",
    )

    def __init__(self, disk: Disk, path: str, directory_id: UUID, handles: HandleCache) -> None:
        self._disk = disk
        self._handles = handles
        self.path = path
        self.directory_id = directory_id
        self.last_broker_epoch = clean_shutdown.take_marker(disk, path)
        self.was_clean_shutdown = self.last_broker_epoch is not None
        self._recovery_points = self._read_checkpoint(OffsetCheckpoint.RECOVERY_POINT)
        self._log_starts = self._read_checkpoint(OffsetCheckpoint.LOG_START)
        self.high_watermarks = self._read_checkpoint(OffsetCheckpoint.REPLICATION)
        self.cleaned_ends = self._read_checkpoint(OffsetCheckpoint.CLEANER)

    @classmethod
    def open(
        cls,
        disk: Disk,
        path: str,
        *,
        cluster_id: str,
        node_id: NodeId,
        new_directory_id: UUID,
        handles: HandleCache | None = None,
    ) -> "LogDirectory":
        """Formats an empty directory with `new_directory_id`; raises `WrongDirectory` for anybody else's."""
        disk.make_directory(path)
        found = read_identity(disk, path)
        if found is None:
            found = MetaProperties(cluster_id=cluster_id, node_id=node_id, directory_id=new_directory_id)
            disk.replace(join(path, meta_properties.FILE_NAME), found.encode())
        if found.cluster_id != cluster_id:
            raise WrongDirectory(f"{path} belongs to cluster {found.cluster_id}, this node to {cluster_id}")
        if found.node_id != node_id:
            raise WrongDirectory(f"{path} belongs to node {found.node_id}, this is node {node_id}")
        return cls(disk, path, found.directory_id, HandleCache() if handles is None else handles)

    def _read_checkpoint(self, which: OffsetCheckpoint) -> dict[TopicPartition, Offset]:
        """A checkpoint is a shortcut: without it recovery starts further back and watermarks are found anew."""
        try:
            return read_offsets(self._disk, self.path, which)
        except CorruptCheckpoint as error:
            logger.warning("checkpoint ignored: %s", error)
            self.was_clean_shutdown = self.was_clean_shutdown and which is not OffsetCheckpoint.RECOVERY_POINT
            return {}

    # Partitions

    def find_partitions(self) -> list[TopicPartition]:
        """The partitions on disk, sorted."""
        files = {name for name, _ in self._disk.list_with_sizes(self.path)}
        names = (name for name in self._disk.list(self.path) if name not in files)
        found = (file_names.parse_directory_name(name) for name in names)
        return sorted(topic_partition for topic_partition in found if topic_partition is not None)

    def find_deleted(self) -> list[str]:
        """For `remove_deleted`: paths of partitions that are deleted and, if this is asked at the start, left by a crash."""
        return [
            join(self.path, name) for name in self._disk.list(self.path) if name.endswith(file_names.DELETED_DIRECTORY)
        ]

    def find_strays(self) -> list[str]:
        """The names of directories that were set aside, now or by a former start."""
        return [name for name in self._disk.list(self.path) if name.endswith(file_names.STRAY_DIRECTORY)]

    def topic_id_of(self, topic_partition: TopicPartition) -> TopicId | None:
        """Of a partition on disk, whatever its name says; `None` where that cannot be read."""
        try:
            return read_topic_id(self._disk, self._path_of(topic_partition))
        except (OSError, ValueError):
            return None

    def _path_of(self, topic_partition: TopicPartition) -> str:
        return join(self.path, str(topic_partition))

    def open_partition(
        self,
        topic_partition: TopicPartition,
        config: LogConfig,
        now_ms: TimestampMs,
        *,
        topic_id: TopicId | None = None,
    ) -> PartitionLog:
        """A partition that is there, as its last shutdown left it, or a new one."""
        recovery_point = self._recovery_points.get(topic_partition, 0)
        log = PartitionLog.open(
            self._disk,
            self._path_of(topic_partition),
            topic_partition,
            config,
            now_ms,
            clean_shutdown=self.was_clean_shutdown,
            recovery_point=recovery_point,
            log_start_offset=self._log_starts.get(topic_partition, 0),
            topic_id=topic_id,
            handles=self._handles,
        )
        if log.recovery_point < recovery_point:
            # A truncation came before the crash, or data is lost. What is appended now was never synced up to there.
            self.write_recovery_point(log)
        self.cut_cleaned_end(log)
        return log

    def rename_deleted(self, log: PartitionLog, unique: str) -> str:
        """First half of a deletion: the name is free for a new partition. Returns the path for `remove_deleted`."""
        log.close(clean=False)
        target = self._rename(log.topic_partition, file_names.deleted_directory_name, unique)
        # At once, as nothing else takes it out; the other checkpoints are written anew from the logs that there are.
        self.cleaned_ends = self._without({log.topic_partition}, OffsetCheckpoint.CLEANER, self.cleaned_ends)
        return target

    def set_aside(self, topic_partition: TopicPartition, unique: str) -> str:
        """Keeps a directory that is of no partition of this node under a name that is in nobody's way; returns that."""
        target = self._rename(topic_partition, file_names.stray_directory_name, unique)
        self._disk.sync_directory(self.path)  # Else a crash might give the name back after it was taken anew.
        self.forget_absent([topic_partition])
        return basename(target)

    def _rename(
        self, topic_partition: TopicPartition, name_for: Callable[[TopicPartition, str], str], unique: str
    ) -> str:
        """Returns the new path, which has a number where a former one of that name is still there."""
        endings = chain([unique], (f"{unique}-{number}" for number in count(2)))
        paths = (join(self.path, name_for(topic_partition, ending)) for ending in endings)
        free = next(path for path in paths if not self._disk.exists(path))
        self._disk.rename(self._path_of(topic_partition), free)
        return free

    def forget_absent(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Drops what the checkpoints say of partitions that have no directory.

        A log start or a recovery point of a former topic would cost a new one of its name records after a crash.
        """
        known = (self._recovery_points, self._log_starts, self.high_watermarks, self.cleaned_ends)
        absent = {
            one
            for one in topic_partitions
            if any(one in offsets for offsets in known) and not self._disk.exists(self._path_of(one))
        }
        self._recovery_points = self._without(absent, OffsetCheckpoint.RECOVERY_POINT, self._recovery_points)
        self._log_starts = self._without(absent, OffsetCheckpoint.LOG_START, self._log_starts)
        self.high_watermarks = self._without(absent, OffsetCheckpoint.REPLICATION, self.high_watermarks)
        self.cleaned_ends = self._without(absent, OffsetCheckpoint.CLEANER, self.cleaned_ends)

    def _without(
        self, absent: Set[TopicPartition], which: OffsetCheckpoint, offsets: dict[TopicPartition, Offset]
    ) -> dict[TopicPartition, Offset]:
        if absent.isdisjoint(offsets):
            return offsets
        kept = {place: offset for place, offset in offsets.items() if place not in absent}
        write_offsets(self._disk, self.path, which, kept)
        return kept

    def remove_deleted(self, path: str) -> None:
        self._disk.remove_tree(path)

    # Checkpoints

    def write_recovery_points(self, logs: Iterable[PartitionLog]) -> None:
        self._recovery_points = {log.topic_partition: log.recovery_checkpoint for log in logs}
        write_offsets(self._disk, self.path, OffsetCheckpoint.RECOVERY_POINT, self._recovery_points)

    def write_recovery_point(self, log: PartitionLog) -> None:
        """Of one log, before it is appended to: a truncation has moved it back."""
        self._recovery_points = {**self._recovery_points, log.topic_partition: log.recovery_point}
        write_offsets(self._disk, self.path, OffsetCheckpoint.RECOVERY_POINT, self._recovery_points)

    def write_log_starts(self, logs: Iterable[PartitionLog]) -> None:
        """Only where the first segment's name does not say it."""
        self._log_starts = {
            log.topic_partition: log.log_start_offset
            for log in logs
            if log.log_start_offset > log.segments.first.base_offset
        }
        write_offsets(self._disk, self.path, OffsetCheckpoint.LOG_START, self._log_starts)

    def write_high_watermarks(self, high_watermarks: Mapping[TopicPartition, Offset]) -> None:
        self.high_watermarks = dict(high_watermarks)
        write_offsets(self._disk, self.path, OffsetCheckpoint.REPLICATION, high_watermarks)

    def write_cleaned_end(self, topic_partition: TopicPartition, offset: Offset) -> None:
        """How far compaction has come in a log: below it every key occurs once."""
        self.cleaned_ends = {**self.cleaned_ends, topic_partition: offset}
        write_offsets(self._disk, self.path, OffsetCheckpoint.CLEANER, self.cleaned_ends)

    def cut_cleaned_end(self, log: PartitionLog) -> None:
        """Before a log that was cut is appended to: what comes after its end was never cleaned."""
        if self.cleaned_ends.get(log.topic_partition, 0) > log.log_end_offset:
            self.write_cleaned_end(log.topic_partition, log.log_end_offset)

    def close(self, logs: Iterable[PartitionLog], *, broker_epoch: int) -> None:
        """A clean shutdown: logs first, then their checkpoints, the marker last."""
        closed = list(logs)
        for log in closed:
            log.close()
        self.write_recovery_points(closed)
        self.write_log_starts(closed)
        clean_shutdown.write_marker(self._disk, self.path, broker_epoch)

    @property
    def free_bytes(self) -> int:
        return self._disk.free_bytes(self.path)


def read_identity(disk: Disk, path: str) -> MetaProperties | None:
    """Whose directory it is; `None` for one that was never formatted."""
    file = join(path, meta_properties.FILE_NAME)
    return MetaProperties.decode(disk.read(file), file) if disk.exists(file) else None
