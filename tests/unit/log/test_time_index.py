"""The time index against a plain list, and its bytes against those that Kafka 4.3 writes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.log.time_index import TimeEntry, TimeIndex

# Kafka's TimeIndex for base offset 100 with (1700000000000, 109) and (1700000000500, 125).
KAFKA_BYTES = bytes.fromhex("0000018bcfe56800000000090000018bcfe569f400000019")

batches_seen = st.lists(st.integers(0, 1000), max_size=60)  # The largest timestamp of each batch, in log order.


def index_of(timestamps: list[int]) -> TimeIndex:
    """What a segment does: offers its largest timestamp so far and the offset where that was reached."""
    index = TimeIndex()
    largest, at = -1, 0
    for offset, timestamp in enumerate(timestamps):
        if timestamp > largest:
            largest, at = timestamp, offset
        index.maybe_append(largest, at)
    return index


def test_writes_the_bytes_that_kafka_writes() -> None:
    index = TimeIndex()
    index.maybe_append(1_700_000_000_000, 9)
    index.maybe_append(1_700_000_000_500, 25)
    assert index.encode() == KAFKA_BYTES
    assert TimeIndex.decode(KAFKA_BYTES).entries() == index.entries()


def test_keeps_an_entry_only_while_timestamps_grow() -> None:
    assert index_of([5, 5, 3, 8]).entries() == [TimeEntry(5, 0), TimeEntry(8, 3)]


@given(batches_seen)
def test_survives_a_round_trip(timestamps: list[int]) -> None:
    index = index_of(timestamps)
    assert TimeIndex.decode(index.encode()).entries() == index.entries()


@given(batches_seen, st.integers(0, 1001))
def test_no_record_before_the_floor_is_late_enough(timestamps: list[int], wanted: int) -> None:
    floor = index_of(timestamps).floor_offset(wanted)
    assert all(timestamp < wanted for timestamp in timestamps[:floor])


@given(batches_seen, st.integers(0, 60))
def test_truncate_forgets_what_is_at_or_above(timestamps: list[int], offset: int) -> None:
    index = index_of(timestamps)
    before = index.entries()
    index.truncate(offset)
    assert index.entries() == [entry for entry in before if entry.relative_offset < offset]


@pytest.mark.parametrize("data", [KAFKA_BYTES[:-1], KAFKA_BYTES + bytes(12)], ids=["torn", "zero entry at the end"])
def test_refuses_what_is_no_index(data: bytes) -> None:
    with pytest.raises(ValueError):
        TimeIndex.decode(data)
