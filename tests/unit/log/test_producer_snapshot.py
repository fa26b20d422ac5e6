"""Producer snapshots: Kafka's bytes, and nothing but whole ones believed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.log.producer_snapshot import CorruptSnapshot, decode_snapshot, encode_snapshot
from ottla.log.producer_state import Producer, ProducerBatch, ProducerState

# Kafka's snapshot of producer 4000, epoch 3, sequences 31 to 41 at offsets 250 to 260, in a transaction since 250.
KAFKA_BYTES = bytes.fromhex(
    "00018de5a744000000010000000000000fa000030000002900000000000001040000000a0000018bcfe5687b0000000700000000000000fa"
)
KAFKA_EMPTY_BYTES = bytes.fromhex("000148674bc700000000")


def test_writes_the_bytes_that_kafka_writes() -> None:
    state = ProducerState()
    assert encode_snapshot(state) == KAFKA_EMPTY_BYTES
    batch = ProducerBatch(31, 41, 250, 260, 1_700_000_000_123)
    producer = Producer(
        3, coordinator_epoch=7, last_timestamp=1_700_000_000_123, transaction_first_offset=250, batches=[batch]
    )
    state.load(4000, producer)
    assert encode_snapshot(state) == KAFKA_BYTES


def test_reads_the_bytes_that_kafka_writes() -> None:
    ((producer_id, producer),) = decode_snapshot(KAFKA_BYTES)
    assert producer_id == 4000
    assert (producer.epoch, producer.coordinator_epoch, producer.transaction_first_offset) == (3, 7, 250)
    assert producer.batches == [ProducerBatch(31, 41, 250, 260, 1_700_000_000_123)]


batches = st.builds(
    lambda sequence, offset, count, timestamp: ProducerBatch(
        sequence, (sequence + count) & 0x7FFFFFFF, offset, offset + count, timestamp
    ),
    st.integers(0, 2**31 - 1),
    st.integers(0, 2**50),
    st.integers(0, 5000),
    st.integers(-1, 2**45),
)


@given(st.dictionaries(st.integers(0, 2**62), st.tuples(st.integers(0, 2**15 - 1), batches), max_size=20))
def test_the_last_batch_of_each_producer_survives(producers: dict[int, tuple[int, ProducerBatch]]) -> None:
    state = ProducerState()
    for producer_id, (epoch, batch) in producers.items():
        state.update(producer_id, epoch, batch)
    loaded = dict(decode_snapshot(encode_snapshot(state)))
    assert {key: (value.epoch, value.batches[0]) for key, value in loaded.items()} == producers


@given(st.integers(0, len(KAFKA_BYTES) - 1), st.integers(1, 255))
def test_a_flipped_byte_is_noticed(at: int, flip: int) -> None:
    rotten = bytearray(KAFKA_BYTES)
    rotten[at] ^= flip
    with pytest.raises(CorruptSnapshot):
        decode_snapshot(bytes(rotten))


@given(st.integers(0, len(KAFKA_BYTES) - 1))
def test_a_torn_snapshot_is_noticed(size: int) -> None:
    with pytest.raises(CorruptSnapshot):
        decode_snapshot(KAFKA_BYTES[:size])
