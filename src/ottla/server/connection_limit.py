"""How many connections a node takes: what `max.connections` allows and the limit of open files leaves.

Segments get their share of the files first. A node that could then serve hardly anybody does not start: one that is ready
and refuses everybody is harder to understand.
"""

from dataclasses import dataclass
from typing import Final

from ottla.broker.start import StartRefused

FILES_FOR_THE_REST: Final = 64  # Indexes and checkpoints being written, the loop's own.
CONNECTIONS_MIN: Final = 32
OPEN_FILES_MIN: Final = 2 * (CONNECTIONS_MIN + FILES_FOR_THE_REST)
OPEN_FILES_ADVISED: Final = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLimit:
    count: int
    setting: str  # What would have to be raised for more, as a log line names it.


def segment_files_of(open_files_max: int) -> int:
    return open_files_max // 2


def connection_limit(wanted: int, open_files_max: int) -> ConnectionLimit:
    """`wanted` is `max.connections`; raises StartRefused where there are too few files."""
    if open_files_max < OPEN_FILES_MIN:
        raise StartRefused(
            f"the limit of open files is {open_files_max}, too few for segments and connections (at least "
            f"{OPEN_FILES_MIN}): raise it, for example with ulimit -n {OPEN_FILES_ADVISED}"
        )
    possible = open_files_max - segment_files_of(open_files_max) - FILES_FOR_THE_REST
    if wanted <= possible:
        return ConnectionLimit(count=wanted, setting="max.connections")
    return ConnectionLimit(count=possible, setting=f"the limit of {open_files_max} open files (ulimit -n)")
