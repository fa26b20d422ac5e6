"""Which partition of an internal topic a group or a transactional id belongs to: Kafka's rule, for ever.

Whoever changed it, or the number of partitions, would look for every group's offsets in the wrong place.
"""

from functools import lru_cache
from typing import Final

_HASH_MIN: Final = -(1 << 31)
NAMES_REMEMBERED_MAX: Final = 10_000  # The same groups ask again and again, with every heartbeat and commit.


@lru_cache(NAMES_REMEMBERED_MAX)
def partition_for(key: str, partition_count: int) -> int:
    """By the absolute value of the hash; the smallest, which has none as an int, counts as 0."""
    hashed = java_string_hash(key)
    return 0 if hashed == _HASH_MIN else abs(hashed) % partition_count


def java_string_hash(text: str) -> int:
    """`String.hashCode` over UTF-16 units: a signed 32-bit number."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value
