"""Files that a crash left half-way: deletions that were not finished, compactions that were, or were not.

`.deleted` files are gone for everyone already. `.cleaned` files were still being written. `.swap` files are complete
and replace every segment they cover, unless a `.cleaned` file shows that the set they belong to was never finished.
"""

import logging
from posixpath import join

from ottla.base.disk import Disk
from ottla.base.types import Offset
from ottla.log import file_names
from ottla.log.batch_scan import scan_headers

logger = logging.getLogger(__name__)

_TEMPORARY = (file_names.DELETED, file_names.CLEANED, file_names.SWAP, ".tmp")


def settle_interrupted(disk: Disk, directory: str) -> dict[str, int]:
    """Finishes or undoes what was under way. Returns the names and sizes of the files that are there then."""
    names = dict(disk.list_with_sizes(directory))
    if not any(name.endswith(_TEMPORARY) for name in names):
        return names
    cleaned = [name for name in names if name.endswith(file_names.CLEANED)]
    first_cleaned = min((_offset(name) for name in cleaned), default=None)
    swaps = []
    for name in names:
        if not name.endswith(_TEMPORARY):
            continue
        if name.endswith(file_names.SWAP) and (first_cleaned is None or _offset(name) < first_cleaned):
            swaps.append(name)
        else:
            disk.remove(join(directory, name))
    if swaps:
        _finish_swap(disk, directory, swaps, names)
    return dict(disk.list_with_sizes(directory))


def _finish_swap(disk: Disk, directory: str, swaps: list[str], names: dict[str, int]) -> None:
    start, end = _covered_offsets(disk, directory, swaps, names)
    for name in names:
        parts = file_names.split_name(name)
        if parts and parts[1] in file_names.SEGMENT_SUFFIXES and start <= parts[0] < end:
            logger.info("removing %s: a finished compaction replaces it", join(directory, name))
            disk.remove(join(directory, name))
    disk.sync_directory(directory)  # Not one of them may come back once the `.swap` names are gone.
    for name in sorted(swaps, key=lambda name: not name.endswith(file_names.LOG + file_names.SWAP)):
        disk.rename(join(directory, name), join(directory, name.removesuffix(file_names.SWAP)))


def _covered_offsets(disk: Disk, directory: str, swaps: list[str], names: dict[str, int]) -> tuple[Offset, Offset]:
    """The offsets of the segments that the swap files stand for: from their first base to the end of their last."""
    log_swaps = [name for name in swaps if name.endswith(file_names.LOG + file_names.SWAP)]
    end = 0
    for name in log_swaps:
        file = disk.open(join(directory, name))
        for _, header in scan_headers(file, 0, names[name]):
            end = max(end, header.next_offset)
        file.close()
    return min((_offset(name) for name in log_swaps), default=0), end


def _offset(name: str) -> Offset:
    parts = file_names.split_name(name)
    return parts[0] if parts else 0
