"""Files of segments that are no longer part of a log: renamed at once, removed later.

Readers that hold a file go on reading it. The delay (`file.delete.delay.ms`) is the caller's to keep; after a crash the
renamed files are removed when the partition is opened. All blocking.
"""

import errno
from collections.abc import Iterable, Sequence

from ottla.base.disk import Disk
from ottla.log import file_names
from ottla.log.segment import Segment

_SUFFIXES = (*file_names.SEGMENT_SUFFIXES, file_names.PRODUCER_SNAPSHOT)


def rename_deleted(disk: Disk, segments: Iterable[Segment]) -> None:
    for segment in segments:
        for suffix in _SUFFIXES:
            path = segment.path(suffix)
            if not disk.exists(path):
                continue
            try:
                disk.rename(path, path + file_names.DELETED)
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                disk.remove(path)  # No room for another name in the directory: to lose one it needs none.


def remove_deleted(disk: Disk, segments: Iterable[Segment]) -> None:
    for segment in segments:
        for suffix in _SUFFIXES:
            disk.remove(segment.path(suffix) + file_names.DELETED)


def remove_files(disk: Disk, segments: Sequence[Segment]) -> None:
    """Without the detour: of segments that were cut off by recovery or truncation. The caller syncs the directory: if a
    crash brought one back, it might continue a log that has long gone another way. The last goes first, so that a crash
    in between leaves no hole."""
    for segment in reversed(segments):
        segment.forget_handle()
        for suffix in file_names.SEGMENT_SUFFIXES:
            disk.remove(segment.path(suffix))
