"""Kafka's key hash: 32-bit MurmurHash2 with Kafka's seed, bit for bit what the Java client computes.

Every edge of Ottla (SDK, REST, Spark sink) sends a key to `partition_of_key`, so that one key has one partition
whoever wrote it. librdkafka computes the same as `murmur2_random`; a test holds the two together.
"""

from typing import Final

SEED: Final = 0x9747B28C
MULTIPLIER: Final = 0x5BD1E995
MASK_32: Final = 0xFFFFFFFF
# Java's `& 0x7fffffff`: the sign bit is cleared, not negated, or two keys in 2**32 would go elsewhere.
MASK_POSITIVE: Final = 0x7FFFFFFF


def murmur2(data: bytes) -> int:
    """The hash as Java shows it: a signed 32-bit integer."""
    length = len(data)
    hash_ = SEED ^ length
    whole_bytes = length & ~3
    for position in range(0, whole_bytes, 4):
        word = int.from_bytes(data[position : position + 4], "little") * MULTIPLIER & MASK_32
        word = (word ^ (word >> 24)) * MULTIPLIER & MASK_32
        hash_ = (hash_ * MULTIPLIER & MASK_32) ^ word
    if whole_bytes < length:
        hash_ = (hash_ ^ int.from_bytes(data[whole_bytes:], "little")) * MULTIPLIER & MASK_32
    hash_ = (hash_ ^ (hash_ >> 13)) * MULTIPLIER & MASK_32
    hash_ ^= hash_ >> 15
    return hash_ - (1 << 32) if hash_ >> 31 else hash_


def partition_of_key(key: bytes, partition_count: int) -> int:
    return (murmur2(key) & MASK_POSITIVE) % partition_count
