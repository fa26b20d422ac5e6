"""The `.txnindex` of a segment: the transactions aborted by a marker in it, for readers of committed data.

Kafka's format: 34 bytes an entry, (version int16, producer id, first offset, last offset, last stable offset), in the
order of the markers. The file is there only where something was aborted, and written when the indexes are.
"""

import struct
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, Protocol

from ottla.base.types import Offset, ProducerId

ENTRY: Final = struct.Struct(">hqqqq")
_VERSION: Final = 0


class AbortedTransaction(NamedTuple):
    producer_id: ProducerId
    first_offset: Offset
    last_offset: Offset  # Of the marker.
    last_stable_offset: Offset  # When the marker was written: entries past a reader's limit need not be looked at.


def encode_entries(aborted: Iterable[AbortedTransaction]) -> bytes:
    return b"".join(ENTRY.pack(_VERSION, *entry) for entry in aborted)


def decode_entries(data: bytes) -> Iterator[AbortedTransaction]:
    """`ValueError` at an entry of a version we do not know; a torn last entry is passed over."""
    for version, *fields in ENTRY.iter_unpack(data[: len(data) // ENTRY.size * ENTRY.size]):
        if version != _VERSION:
            raise ValueError(f"transaction index entry of version {version}")
        yield AbortedTransaction(*fields)


class HasAborted(Protocol):
    def aborted_transactions(self) -> list[AbortedTransaction]: ...


def aborted_between(
    segments: Iterable[HasAborted], from_offset: Offset, up_to_offset: Offset
) -> list[AbortedTransaction]:
    """Those with records in a range of offsets; `segments` begin with the one of `from_offset`. Blocking."""
    found: list[AbortedTransaction] = []
    for segment in segments:
        for aborted in segment.aborted_transactions():
            if aborted.last_offset >= from_offset and aborted.first_offset < up_to_offset:
                found.append(aborted)
            if aborted.last_stable_offset >= up_to_offset:
                return found  # What was decided later begins behind the range.
    return found
