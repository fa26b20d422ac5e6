"""Compaction in a process of its own: the process (`python -m ottla.server.cleaner_child`).

Reads jobs from its input, writes results to its output, ends with its parent: a broker started anew must not meet the
old one's cleaner in its directory. It yields to the broker where there are too few cores for both.
"""

import os
import pickle
import signal
import struct
import sys
import time
from collections.abc import Callable
from typing import Any, BinaryIO, Final

from ottla.base.errors import ProtocolError
from ottla.log.compaction.clean import clean
from ottla.log.compaction.job import CleaningJob
from ottla.server.real_disk import RealDisk

LENGTH: Final = struct.Struct(">I")
NICENESS: Final = 5
LOOK_UP_BYTES: Final = 1 << 20  # How much may pass between two looks at the clock and the parent.
_PR_SET_PDEATHSIG: Final = 1


def frame(message: Any) -> bytes:
    data = pickle.dumps(message)
    return LENGTH.pack(len(data)) + data


def main() -> None:
    parent = os.getppid()
    _die_with_parent(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Meant for the broker, which ends us.
    os.nice(NICENESS)
    jobs, results = sys.stdin.buffer, sys.stdout.buffer
    while head := jobs.read(LENGTH.size):
        job: CleaningJob = pickle.loads(jobs.read(LENGTH.unpack(head)[0]))
        try:
            for result in clean(RealDisk(), job, _pace(job.bytes_per_second_max, parent)):
                _send(results, result)
        except (OSError, ProtocolError) as error:
            _send(results, error)


def _send(results: BinaryIO, message: Any) -> None:
    try:
        results.write(frame(message))
        results.flush()
    except BrokenPipeError:
        os._exit(1)  # The broker is gone, and we with it.


def _pace(bytes_per_second_max: float, parent: int) -> Callable[[int], None]:
    passed_bytes = 0
    began = time.monotonic()

    def pace(size_bytes: int) -> None:
        nonlocal passed_bytes, began
        passed_bytes += size_bytes
        if passed_bytes < LOOK_UP_BYTES:
            return
        if os.getppid() != parent:
            os._exit(1)
        ahead_seconds = passed_bytes / bytes_per_second_max - (time.monotonic() - began)
        if ahead_seconds > 0:
            time.sleep(ahead_seconds)
        passed_bytes = 0
        began = time.monotonic()

    return pace


def _die_with_parent(parent: int) -> None:
    """On Linux the kernel sees to it; elsewhere, and if it came too late, we look for ourselves."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


if __name__ == "__main__":
    main()
