"""How many files the logs of a process keep open, whatever the number of partitions.

A segment asks `admit` after it opened its file; past the limit the segments that were not used since the last round
let go of theirs (second chance: using a file only sets a flag, which is all an append can afford). Letting go drops
the reference: a slice that is still being sent keeps its file open, and the file closes itself with its last reference.
Loop and workers may both come here; each step on the deque is atomic, and an occasional double entry is harmless.
"""

from collections import deque
from typing import Final, Protocol

OPEN_FILES_MAX: Final = 512  # Below the usual soft limit of 1,024 descriptors, with room for connections.


class HandleOwner(Protocol):
    used: bool

    def release_handle(self) -> None:
        """Drops the open file, and whatever else can be read again from disk."""
        ...


class HandleCache:
    __slots__ = ("_owners", "open_files_max")

    def __init__(self, open_files_max: int = OPEN_FILES_MAX) -> None:
        self.open_files_max = open_files_max
        self._owners: deque[HandleOwner] = deque()

    def __len__(self) -> int:
        return len(self._owners)

    def admit(self, owner: HandleOwner) -> None:
        self._owners.append(owner)
        chances_left = 2 * len(self._owners)  # Everyone is asked at most twice: the second time nobody is in use.
        while len(self._owners) > self.open_files_max and chances_left > 0:
            chances_left -= 1
            candidate = self._owners.popleft()
            if candidate.used or candidate is owner:
                candidate.used = False
                self._owners.append(candidate)
            else:
                candidate.release_handle()

    def forget(self, owner: HandleOwner) -> None:
        """The owner closed its file itself."""
        try:
            self._owners.remove(owner)
        except ValueError:
            pass
