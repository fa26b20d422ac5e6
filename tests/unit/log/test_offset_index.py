"""The offset index against a sorted list, and its bytes against those that Kafka 4.3 writes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.log.offset_index import OffsetIndex

# Kafka's OffsetIndex for base offset 100 with (109, 4300) and (131, 8700).
KAFKA_BYTES = bytes.fromhex("00000009000010cc0000001f000021fc")

entry_lists = st.lists(
    st.tuples(st.integers(1, 1000), st.integers(1, 100_000)), max_size=60
).map(  # Deltas become growing entries.
    lambda deltas: [
        (sum(d[0] for d in deltas[: n + 1]), sum(d[1] for d in deltas[: n + 1])) for n in range(len(deltas))
    ]
)


def index_of(entries: list[tuple[int, int]]) -> OffsetIndex:
    index = OffsetIndex()
    for relative_offset, position in entries:
        index.append(relative_offset, position)
    return index


def test_writes_the_bytes_that_kafka_writes() -> None:
    assert index_of([(9, 4300), (31, 8700)]).encode() == KAFKA_BYTES
    assert OffsetIndex.decode(KAFKA_BYTES).entries() == [(9, 4300), (31, 8700)]


@given(entry_lists)
def test_survives_a_round_trip(entries: list[tuple[int, int]]) -> None:
    assert OffsetIndex.decode(index_of(entries).encode()).entries() == entries


@given(entry_lists, st.integers(0, 70_000))
def test_floor_is_the_greatest_entry_at_or_below(entries: list[tuple[int, int]], wanted: int) -> None:
    expected = max((position for offset, position in entries if offset <= wanted), default=0)
    assert index_of(entries).floor_position(wanted) == expected


@given(entry_lists, st.integers(0, 70_000))
def test_truncate_forgets_what_is_at_or_above(entries: list[tuple[int, int]], offset: int) -> None:
    index = index_of(entries)
    index.truncate(offset)
    assert index.entries() == [entry for entry in entries if entry[0] < offset]


@pytest.mark.parametrize(
    "data",
    [KAFKA_BYTES[:-1], KAFKA_BYTES + bytes(8), bytes(16), bytes.fromhex("ffffffff00000000")],
    ids=["torn", "zero entry behind real ones", "preallocated", "negative"],
)
def test_refuses_what_is_no_index(data: bytes) -> None:
    with pytest.raises(ValueError):
        OffsetIndex.decode(data)
