"""Record batches whose header lies: about length, checksum, count, codec, format, producer or time.

All but the first two kinds carry a checksum that fits the lie, as those of a broken or malicious client would.
"""

import random
import struct
from collections.abc import Callable
from typing import Final

import zstandard

from ottla.wire.compression import Codec
from ottla.wire.records import HEADER, HEADER_BYTES, BatchBuilder, BatchHeader, parse_header, set_crc

BOMB_BYTES: Final = 1 << 30
_LENGTH_AT: Final = 8
Lie = Callable[[bytearray, random.Random], bytearray]


def honest_batch(record_count: int = 5, value_bytes: int = 200) -> bytearray:
    builder = BatchBuilder()
    for number in range(record_count):
        builder.append(1_700_000_000_000 + number, b"key", bytes(value_bytes))
    return builder.build()


def with_header(batch: bytearray, **changes: int) -> bytearray:
    """The batch with other header fields and a checksum that fits them."""
    HEADER.pack_into(batch, 0, *parse_header(batch)._replace(**changes))
    set_crc(batch)
    return batch


def wrong_length(batch: bytearray, chance: random.Random) -> bytearray:
    lie = chance.choice([0, 1, 48, 49, len(batch), 2**31 - 1, -1, -(2**31), chance.randrange(2 * len(batch))])
    struct.pack_into(">i", batch, _LENGTH_AT, lie)
    return batch


def wrong_checksum(batch: bytearray, chance: random.Random) -> bytearray:
    batch[chance.randrange(17, len(batch))] ^= 1 << chance.randrange(8)
    return batch


def wrong_count(batch: bytearray, chance: random.Random) -> bytearray:
    return with_header(batch, record_count=chance.choice([0, -1, 1, 4, 6, 2**31 - 1, -(2**31)]))


def huge_count(batch: bytearray, chance: random.Random) -> bytearray:
    """Count and last offset agree with each other, but not with what is in the batch."""
    count = chance.choice([1_000, 10**6, 2**30, 2**31 - 1])
    return with_header(batch, record_count=count, last_offset_delta=count - 1)


def false_codec(batch: bytearray, chance: random.Random) -> bytearray:
    return with_header(batch, attributes=chance.choice([1, 2, 3, 4, 5, 6, 7]))


def forbidden_bits(batch: bytearray, chance: random.Random) -> bytearray:
    return with_header(batch, attributes=chance.choice([0x20, 0x30, 0x10, 0x08, 0x7FFF, -1]))


def other_format(batch: bytearray, chance: random.Random) -> bytearray:
    return with_header(batch, magic=chance.choice([0, 1, 3, 127, -1]))


def false_place(batch: bytearray, chance: random.Random) -> bytearray:
    return with_header(batch, base_offset=chance.choice([1, -1, 2**63 - 1]), partition_leader_epoch=2**31 - 1)


def false_producer(batch: bytearray, chance: random.Random) -> bytearray:
    return with_header(
        batch,
        producer_id=chance.choice([-2, 2**63 - 1, 77]),
        producer_epoch=chance.choice([-1, 32_767, 0]),
        base_sequence=chance.choice([-1, 2**31 - 1, 5]),
    )


def false_time(batch: bytearray, chance: random.Random) -> bytearray:
    edge = chance.choice([2**63 - 1, -(2**63), -2])
    return with_header(batch, base_timestamp=edge, max_timestamp=chance.choice([edge, 0]))


def cut_short(batch: bytearray, chance: random.Random) -> bytearray:
    del batch[chance.randrange(len(batch)) :]
    return batch


def two_batches(batch: bytearray, chance: random.Random) -> bytearray:
    return batch + batch


def header_alone(batch: bytearray, chance: random.Random) -> bytearray:
    return with_header(batch[:HEADER_BYTES], batch_length=HEADER_BYTES - 12)


def random_bytes(batch: bytearray, chance: random.Random) -> bytearray:
    return bytearray(chance.randbytes(len(batch)))


def rotten_records(batch: bytearray, chance: random.Random) -> bytearray:
    """A perfect header over records that cannot be read."""
    batch[HEADER_BYTES:] = chance.randbytes(len(batch) - HEADER_BYTES)
    set_crc(batch)
    return batch


LIES: Final[tuple[Lie, ...]] = (
    wrong_length,
    wrong_checksum,
    wrong_count,
    huge_count,
    false_codec,
    forbidden_bits,
    other_format,
    false_place,
    false_producer,
    false_time,
    cut_short,
    two_batches,
    header_alone,
    random_bytes,
    rotten_records,
)


def bomb() -> bytearray:
    """A small batch that unpacks to a gigabyte."""
    packer = zstandard.ZstdCompressor(level=1).compressobj()
    chunk = bytes(1 << 20)
    packed = b"".join(packer.compress(chunk) for _ in range(BOMB_BYTES // len(chunk))) + packer.flush()
    header = BatchHeader(0, HEADER_BYTES - 12 + len(packed), -1, 2, 0, Codec.ZSTD, 0, 0, 0, -1, -1, -1, 1)
    batch = bytearray(HEADER.pack(*header) + packed)
    set_crc(batch)
    return batch
