"""Which partition each row goes to: what `ottla.client.murmur2` says of its key, computed for all keys of a column at once.

Rows without a key stay together: runs of neighbours go to one partition each, in turn from a random one on, which makes
full batches and an even spread (KIP-480). A partition that the row itself names is taken as it is.
"""

import random
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ottla.client.murmur2 import MASK_POSITIVE, MULTIPLIER, SEED, murmur2

Ints = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint32]

VECTOR_KEY_BYTES_MAX: Final = 256
"""Each four bytes of the longest key take a step over all keys; what is longer goes one by one."""

STICKY_ROWS_MIN: Final = 1000

_MULTIPLIER: Final = np.uint32(MULTIPLIER)


class PartitionError(ValueError):
    """A row names a partition that its topic does not have."""


def choose_partitions(
    keys: pa.Array | None, named: pa.Array | None, *, count: int, partition_count: int, chance: random.Random
) -> Ints:
    """Of `count` rows. `named` is the column of partitions that the rows name, null where they name none."""
    chosen = _sticky(count, partition_count, chance)
    if keys is not None and len(keys) > keys.null_count:
        by_key = (murmur2_of_all(keys) & np.uint32(MASK_POSITIVE)).astype(np.int64) % partition_count
        chosen = np.where(_is_set(keys), by_key, chosen)
    if named is not None:
        is_named = _is_set(named)
        numbers = named.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        wrong = numbers[is_named & ((numbers < 0) | (numbers >= partition_count))]
        if len(wrong):
            raise PartitionError(f"a row names partition {wrong[0]}: the topic has 0 to {partition_count - 1}")
        chosen = np.where(is_named, numbers, chosen)
    return chosen


def _sticky(count: int, partition_count: int, chance: random.Random) -> Ints:
    run_rows = max(STICKY_ROWS_MIN, -(-count // partition_count))
    return (np.arange(count) // run_rows + chance.randrange(partition_count)) % partition_count


def _is_set(column: pa.Array) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = column.is_valid().to_numpy(zero_copy_only=False)
    return found


def murmur2_of_all(keys: pa.Array) -> Hashes:
    """The hash of each key, unsigned; of a null it means nothing."""
    edges = np.frombuffer(keys.buffers()[1], np.int32)[keys.offset : keys.offset + len(keys) + 1].astype(np.int64)
    starts, lengths = edges[:-1], np.diff(edges)
    content = keys.buffers()[2]
    data = np.frombuffer(content, np.uint8) if content is not None else np.empty(0, np.uint8)
    is_short = lengths <= VECTOR_KEY_BYTES_MAX
    hashes = _hash_short(data, starts, np.where(is_short, lengths, 0))
    for row in np.nonzero(~is_short)[0].tolist():
        hashes[row] = murmur2(keys[row].as_py() or b"") & 0xFFFFFFFF
    return hashes


def _hash_short(data: npt.NDArray[np.uint8], starts: Ints, lengths: Ints) -> Hashes:
    hashes = (SEED ^ lengths).astype(np.uint32)
    whole = lengths & ~3
    for position in range(0, int(whole.max(initial=0)), 4):
        (rows,) = np.nonzero(whole > position)
        word = _word(data, starts[rows] + position, 4) * _MULTIPLIER
        word = (word ^ (word >> np.uint32(24))) * _MULTIPLIER
        hashes[rows] = hashes[rows] * _MULTIPLIER ^ word
    for left in (1, 2, 3):
        (rows,) = np.nonzero(lengths & 3 == left)
        hashes[rows] = (hashes[rows] ^ _word(data, starts[rows] + whole[rows], left)) * _MULTIPLIER
    hashes = (hashes ^ (hashes >> np.uint32(13))) * _MULTIPLIER
    return hashes ^ (hashes >> np.uint32(15))


def _word(data: npt.NDArray[np.uint8], positions: Ints, size: int) -> Hashes:
    """The `size` bytes at each position, the lowest first."""
    word = np.zeros(len(positions), np.uint32)
    for index in range(size):
        word |= data[positions + index].astype(np.uint32) << np.uint32(8 * index)
    return word
