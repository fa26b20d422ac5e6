"""Resident memory of a process, and its peak over a while."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
SAMPLE_SECONDS: Final = 0.05


def resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_BYTES


class PeakMemory(threading.Thread):
    """The most resident memory of a process while this runs."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._pid = pid
        self._stopping = threading.Event()
        self.before_bytes = self.peak_bytes = resident_bytes(pid)

    def run(self) -> None:
        while not self._stopping.wait(SAMPLE_SECONDS):
            self.peak_bytes = max(self.peak_bytes, resident_bytes(self._pid))

    def stop(self) -> None:
        self._stopping.set()
        self.join()

    @property
    def growth_bytes(self) -> int:
        return self.peak_bytes - self.before_bytes


@contextmanager
def peak_memory(pid: int) -> Iterator[PeakMemory]:
    peak = PeakMemory(pid)
    peak.start()
    try:
        yield peak
    finally:
        peak.stop()
