"""Where each key was written last, in the part of a log that was not cleaned yet.

One dictionary with a bound on its entries, so that memory does not grow with the log: what no longer fits waits for the
next pass. Keys are compared whole, or, where they are long, by 33 bytes of BLAKE2b: longer than any key kept whole, so
neither kind is ever taken for the other, and two keys for one only by a collision of 264 bits.
"""

from collections.abc import Iterable
from hashlib import blake2b
from typing import Final

from ottla.base.types import Offset
from ottla.log.compaction.record_walk import WalkedRecord

KEY_BYTES_MAX: Final = 32
ENTRY_BYTES: Final = 200  # Measured, rounded up: a key, an offset and their place in the dictionary.
_DIGEST_BYTES: Final = KEY_BYTES_MAX + 1


class NewestOffsets:
    __slots__ = ("by_key", "entries_max", "mapped_end_offset")

    def __init__(self, buffer_bytes: int, first_dirty_offset: Offset) -> None:
        self.by_key: dict[bytes, Offset] = {}
        self.entries_max = max(1, buffer_bytes // ENTRY_BYTES)
        self.mapped_end_offset = first_dirty_offset  # All below is known; what lies above is never judged.

    @property
    def is_full(self) -> bool:
        """Asked before each batch: the first batch is always taken in, so every pass gets on."""
        return len(self.by_key) >= self.entries_max

    def add(self, records: Iterable[WalkedRecord], base_offset: Offset) -> None:
        by_key = self.by_key
        for _, _, _, offset_delta, key, _ in records:
            if key is not None:
                by_key[key if len(key) <= KEY_BYTES_MAX else digest(key)] = base_offset + offset_delta


def digest(key: bytes) -> bytes:
    return blake2b(key, digest_size=_DIGEST_BYTES).digest()
