"""Is a region of a segment file in the page cache? If not, a worker reads it before the loop sends it.

Linux answers with `preadv` and RWF_NOWAIT; elsewhere, and on file systems that do not know the flag, everything counts as
cached and `sendfile` may block for the disk.
"""

import errno
import os
from typing import Final

from ottla.base.disk import File

PROBE_STEP_BYTES: Final = 128 << 10  # The kernel's usual read-ahead window: cached pages come in runs of it.
_NOWAIT: Final = getattr(os, "RWF_NOWAIT", 0)
_probe: Final = bytearray(1)


def is_cached(file: File, position: int, size: int) -> bool:
    """Probes one byte per step and the last one."""
    if not _NOWAIT:
        return True
    descriptor = file.fileno()
    last = position + size - 1
    try:
        for probed in range(position, last, PROBE_STEP_BYTES):
            os.preadv(descriptor, (_probe,), probed, _NOWAIT)
        os.preadv(descriptor, (_probe,), last, _NOWAIT)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno != errno.EOPNOTSUPP:
            raise
    return True


def read_ahead(file: File, position: int, size: int) -> None:
    """Blocking; run by a worker. Reads the region, so its pages are there when the loop sends it."""
    end = position + size
    while position < end:
        count = len(file.pread(min(PROBE_STEP_BYTES, end - position), position))
        if count == 0:
            return
        position += count
