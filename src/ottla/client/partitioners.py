"""Which partition a record goes to, where the producer's default is not wanted.

A partitioner is any callable `(topic, key, value, partition_count) -> partition`; the classes here are the usual
ones. The default of `Producer` is librdkafka's own `murmur2_random` (keys by `murmur2`, keyless records sticky) and
costs no Python; everything here runs in Python before a record is queued. Give one to `Producer(partitioner=...)`
for all records, or to `send(partition=...)` for one.

Order holds per partition only. `RoundRobin`, `Salting` and `FallThrough` spread one key over several partitions
and so give up its order, deliberately: they are for hot keys. None of them changes the key that is stored.
"""

import random
import threading
import time
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from ottla.client.murmur2 import partition_of_key

SALTS_MAX: Final = 5  # A reader of one salted key has to read this many partitions at most.
STICKY_BYTES_DEFAULT: Final = 16_384  # batch.size: about one batch per stay (KIP-794).
COUNTED_KEYS_MAX: Final = 10_000  # Per window; a key that is hot comes early enough to be among them.


class Partitioner(Protocol):
    def __call__(self, topic: str, key: bytes | None, value: bytes | None, partition_count: int, /) -> int: ...


class Sticky:
    """Stays on one partition for about a batch, then moves on to another at random: full batches, even spread."""

    def __init__(self, *, batch_bytes: int = STICKY_BYTES_DEFAULT, chance: random.Random | None = None) -> None:
        self._batch_bytes = batch_bytes
        self._chance = chance or random.Random()
        self._lock = threading.Lock()
        self._stays: dict[str, tuple[int, int]] = {}  # topic -> (partition, bytes left before moving on)

    def __call__(self, topic: str, key: bytes | None, value: bytes | None, partition_count: int, /) -> int:
        size_bytes = len(key or b"") + len(value or b"")
        with self._lock:
            partition, left_bytes = self._stays.get(topic, (-1, 0))
            if left_bytes <= 0 or partition >= partition_count:
                partition, left_bytes = self._another(partition, partition_count), self._batch_bytes
            self._stays[topic] = (partition, left_bytes - size_bytes)
        return partition

    def _another(self, partition: int, partition_count: int) -> int:
        if partition_count == 1 or not 0 <= partition < partition_count:
            return self._chance.randrange(partition_count)
        return (partition + self._chance.randrange(1, partition_count)) % partition_count


class KeyHash:
    """Kafka's default: a key always to the same partition, keyless records to the sticky one."""

    def __init__(self, *, keyless: Partitioner | None = None) -> None:
        self._keyless = keyless or Sticky()

    def __call__(self, topic: str, key: bytes | None, value: bytes | None, partition_count: int, /) -> int:
        if key is None:
            return self._keyless(topic, key, value, partition_count)
        return partition_of_key(key, partition_count)


class RoundRobin:
    """Each record to the next partition of its topic, whatever its key."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._next: dict[str, int] = {}

    def __call__(self, topic: str, key: bytes | None, value: bytes | None, partition_count: int, /) -> int:
        with self._lock:
            turn = self._next.get(topic, 0)
            self._next[topic] = turn + 1
        return turn % partition_count


class Salting:
    """Spreads named hot keys over `salts` neighbouring partitions, beginning with the key's own.

    Neighbours instead of hashes of salted keys: no two salts fall on one partition, and `partitions_of_key`
    tells a reader where to look. Other keys go by hash.
    """

    def __init__(self, hot_keys: Iterable[bytes | str], *, salts: int = SALTS_MAX) -> None:
        if not 1 <= salts <= SALTS_MAX:
            raise ValueError(
                f"salts is {salts}: give 1 to {SALTS_MAX}, so that readers of a hot key read few partitions"
            )
        self._salts = salts
        self._lock = threading.Lock()
        self._turns = {key.encode() if isinstance(key, str) else key: 0 for key in hot_keys}
        self._others = KeyHash()

    def __call__(self, topic: str, key: bytes | None, value: bytes | None, partition_count: int, /) -> int:
        if key is None or key not in self._turns:
            return self._others(topic, key, value, partition_count)
        with self._lock:
            turn = self._turns[key]
            self._turns[key] = turn + 1
        partitions = self.partitions_of_key(key, partition_count)
        return partitions[turn % len(partitions)]

    def partitions_of_key(self, key: bytes, partition_count: int) -> list[int]:
        home = partition_of_key(key, partition_count)
        salts = min(self._salts, partition_count) if key in self._turns else 1
        return [(home + salt) % partition_count for salt in range(salts)]


class FallThrough:
    """By key hash until a key has had `threshold` records in a window, then round robin until the window ends.

    Nobody has to know the hot keys beforehand. The counts are bounded: keys past `COUNTED_KEYS_MAX` in a window are
    taken for cold.
    """

    def __init__(
        self, *, threshold: int, window_s: float = 1.0, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        if threshold < 1:
            raise ValueError(f"threshold is {threshold}: give the records per key and window that still go by hash")
        self._threshold = threshold
        self._window_s = window_s
        self._monotonic = monotonic
        self._window_end = monotonic() + window_s
        self._counts: dict[tuple[str, bytes], int] = {}
        self._lock = threading.Lock()
        self._cold = KeyHash()
        self._hot = RoundRobin()

    def __call__(self, topic: str, key: bytes | None, value: bytes | None, partition_count: int, /) -> int:
        is_hot = key is not None and self._count(topic, key) > self._threshold
        choose = self._hot if is_hot else self._cold
        return choose(topic, key, value, partition_count)

    def _count(self, topic: str, key: bytes) -> int:
        now = self._monotonic()
        with self._lock:
            if now >= self._window_end:
                self._counts.clear()
                self._window_end = now + self._window_s
            count = self._counts.get((topic, key), 0) + 1
            if count > 1 or len(self._counts) < COUNTED_KEYS_MAX:
                self._counts[topic, key] = count
        return count


HASH: Final = KeyHash()  # `send(..., partition=HASH)`: by key, whatever the producer's own partitioner is.

BY_NAME: Final[dict[str, Callable[[], Partitioner]]] = {
    "murmur2": KeyHash,
    "round_robin": RoundRobin,
    "sticky": Sticky,
    "RoundRobinPartitioner": RoundRobin,
    "UniformStickyPartitioner": Sticky,
}
