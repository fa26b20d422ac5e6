from itertools import pairwise
from random import Random

import pytest

from ottla.log.transaction_index import AbortedTransaction, aborted_between, decode_entries, encode_entries

# Kafka's TransactionIndex with one aborted transaction: producer 4000, offsets 250 to 260, last stable offset 261.
KAFKA_BYTES = bytes.fromhex("00000000000000000fa000000000000000fa00000000000001040000000000000105")
ABORTED = AbortedTransaction(4000, 250, 260, 261)


def test_writes_the_bytes_that_kafka_writes() -> None:
    assert encode_entries([ABORTED]) == KAFKA_BYTES
    assert list(decode_entries(KAFKA_BYTES)) == [ABORTED]


def test_a_torn_last_entry_is_passed_over() -> None:
    assert list(decode_entries(KAFKA_BYTES + KAFKA_BYTES[:20])) == [ABORTED]


def test_an_unknown_version_is_refused() -> None:
    with pytest.raises(ValueError, match="version 1"):
        list(decode_entries(b"\0\1" + KAFKA_BYTES[2:]))


class Segment:
    def __init__(self, aborted: list[AbortedTransaction]) -> None:
        self._aborted = aborted

    def aborted_transactions(self) -> list[AbortedTransaction]:
        return self._aborted


@pytest.mark.parametrize("seed", range(20))
def test_whatever_was_aborted_in_a_range_is_found(seed: int) -> None:
    """Against all of them, over random transactions that overlap and end in any order, cut into segments anywhere."""
    chance = Random(seed)
    open_since: dict[int, int] = {}
    aborted: list[AbortedTransaction] = []
    for offset in range(200):
        producer_id = chance.randrange(5)
        first_offset = open_since.pop(producer_id, None) if chance.random() < 0.3 else None
        if first_offset is None:
            open_since.setdefault(producer_id, offset)
        elif chance.random() < 0.7:
            last_stable_offset = min(open_since.values(), default=offset + 1)
            aborted.append(AbortedTransaction(producer_id, first_offset, offset, last_stable_offset))
    bounds = sorted({0, 200, *(chance.randrange(200) for _ in range(4))})
    segments = [
        (low, Segment([one for one in aborted if low <= one.last_offset < high])) for low, high in pairwise(bounds)
    ]
    for _ in range(100):
        low, high = sorted(chance.sample(range(201), 2))
        first_segment = max(number for number, (base, _) in enumerate(segments) if base <= low)
        found = aborted_between([segment for _, segment in segments[first_segment:]], low, high)
        assert found == [one for one in aborted if one.last_offset >= low and one.first_offset < high]
