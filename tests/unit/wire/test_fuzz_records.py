"""Mutated batches: whatever the bytes, reading ends in records or in `ProtocolError`, and in nothing else."""

import random

import pytest

from ottla.base.errors import ProtocolError
from ottla.wire.records import BatchBuilder, Codec, batches, recompress, records_of, shapes_of

MUTATIONS_PER_CODEC = 1_500
OUTPUT_BYTES_MAX = 1_000_000


def seed_batch(codec: Codec) -> bytes:
    builder = BatchBuilder(codec=codec, producer_id=5, producer_epoch=0, base_sequence=0)
    for number in range(20):
        headers = [("trace", b"%d" % number), ("none", None)] if number % 3 else []
        builder.append(1_000_000 + number * 700, b"key-%d" % number if number % 4 else None, b"value" * number, headers)
    return bytes(builder.build())


def mutate(batch: bytes, chance: random.Random) -> bytearray:
    mutant = bytearray(batch)
    match chance.randrange(5):
        case 0:  # bytes changed anywhere
            for _ in range(chance.randint(1, 6)):
                mutant[chance.randrange(len(mutant))] = chance.randrange(256)
        case 1:  # bytes changed in the records alone, so that the header still leads to them
            for _ in range(chance.randint(1, 3)):
                mutant[chance.randrange(61, len(mutant))] = chance.choice((0, 1, 0x7F, 0x80, 0xFE, 0xFF))
        case 2:  # cut
            del mutant[chance.randrange(len(mutant)) :]
        case 3:  # a piece repeated or removed
            start = chance.randrange(len(mutant))
            piece = bytes(mutant[start : start + chance.randint(1, 20)])
            mutant[start : start + len(piece)] = piece * chance.choice((0, 2, 3))
        case _:  # a run of continuation bits: varints that never end
            start = chance.randrange(61, len(mutant))
            mutant[start : start + 12] = b"\xff" * 12
    if chance.random() < 0.7 and len(mutant) >= 61:  # Mend the length, or most mutants would end at the first check.
        mutant[8:12] = (len(mutant) - 12).to_bytes(4, "big")
    return mutant


@pytest.mark.parametrize("codec", list(Codec))
def test_mutants_end_in_records_or_in_a_protocol_error(codec: Codec) -> None:
    chance = random.Random(f"records-{codec}")
    original = seed_batch(codec)
    refused = 0
    for _ in range(MUTATIONS_PER_CODEC):
        mutant = mutate(original, chance)
        try:
            for batch in batches(memoryview(mutant), stop_at_partial=chance.random() < 0.5):
                list(shapes_of(batch.view, max_bytes=OUTPUT_BYTES_MAX))
                list(records_of(batch.view, max_bytes=OUTPUT_BYTES_MAX))
                recompress(batch.view, Codec.NONE, max_bytes=OUTPUT_BYTES_MAX)
        except ProtocolError:
            refused += 1
    assert refused > MUTATIONS_PER_CODEC // 4  # The mutants do reach the checks.


def test_random_bytes_are_refused() -> None:
    chance = random.Random("bytes")
    for _ in range(1_000):
        with pytest.raises(ProtocolError):
            list(records_of(chance.randbytes(chance.randrange(200)), max_bytes=OUTPUT_BYTES_MAX))
