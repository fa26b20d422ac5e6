"""The quick reader of keys and values finds what the thorough one finds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.base.errors import ProtocolError
from ottla.wire.key_value_reader import keys_and_values
from ottla.wire.records import BatchBuilder, Codec, batches, records_of

FIELD = st.none() | st.binary(max_size=300)


@given(
    st.lists(st.tuples(st.integers(0, 2**40), FIELD, FIELD, st.integers(0, 3)), min_size=1, max_size=20),
    st.sampled_from(Codec),
)
def test_as_the_thorough_reader(written: list[tuple[int, bytes | None, bytes | None, int]], codec: Codec) -> None:
    builder = BatchBuilder(codec=codec, base_offset=1_000)
    offset = 1_000
    for timestamp, key, value, gap in written:
        offset = builder.append(timestamp, key, value, [("h", b"x")] * gap, offset=offset) + 1 + gap * 100
    (batch,) = batches(memoryview(builder.build()))
    assert keys_and_values(batch) == [(record.offset, record.key, record.value) for record in records_of(batch.view)]


@given(st.binary(max_size=100), st.integers(0, 100))
def test_hostile_bytes_end_in_a_protocol_error(payload: bytes, count: int) -> None:
    builder = BatchBuilder()
    builder.append(1, b"k", b"v")
    data = builder.build()[:61] + payload
    data[8:12] = (len(data) - 12).to_bytes(4)
    data[57:61] = count.to_bytes(4)
    (batch,) = batches(memoryview(data))
    try:
        found = keys_and_values(batch)
    except ProtocolError:
        return
    assert len(found) == count


def test_a_record_that_runs_past_its_end_is_refused() -> None:
    builder = BatchBuilder()
    builder.append(1, b"k", b"v")
    data = builder.build()
    data[61] = 100  # The record's length.
    (batch,) = batches(memoryview(data))
    with pytest.raises(ProtocolError):
        keys_and_values(batch)
