"""Records and their frames, byte by byte."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.base.errors import InvariantViolation
from ottla.metadata.records import decode_record, encode_record
from ottla.wire import api


def test_the_frame_is_kafkas():
    record = api.FeatureLevelRecord(name="x", feature_level=3)
    # Frame version 1, type 12, version 0; then a compact string, an int16 and no tagged fields.
    assert encode_record(record) == bytes([1, 12, 0, 2, ord("x"), 0, 3, 0])


@pytest.mark.parametrize(
    "record",
    [
        api.TopicRecord(name="orders", topic_id=UUID(int=5)),
        api.PartitionRecord(partition_id=3, topic_id=UUID(int=5), replicas=[1, 2], isr=[2], leader=2,
                            directories=[UUID(int=1), UUID(int=9)], eligible_leader_replicas=[1]),
        api.PartitionChangeRecord(partition_id=3, topic_id=UUID(int=5), leader=1),
        api.RemoveTopicRecord(topic_id=UUID(int=5)),
        api.ConfigRecord(resource_type=2, resource_name="orders", name="retention.ms", value=None),
        api.ProducerIdsRecord(broker_id=1, broker_epoch=2, next_producer_id=1000),
        api.RegisterBrokerRecord(broker_id=1, rack=None, log_dirs=[UUID(int=3)]),
        api.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=2, fenced=-1),
        api.UserScramCredentialRecord(name="anna", mechanism=1, salt=b"s", stored_key=b"k", iterations=4096),
        api.RemoveUserScramCredentialRecord(name="anna", mechanism=2),
        api.NoOpRecord(),
    ],
    ids=lambda record: type(record).__name__,
)  # fmt: skip
def test_a_record_comes_back_as_it_was(record):
    assert decode_record(encode_record(record)) == record


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "has a value"),
        (b"", "cannot be decoded"),
        (bytes([2, 12, 0, 2, 120, 0, 3, 0]), "frame version 2"),
        (bytes([1, 99, 0]), "record type 99"),
        (bytes([1, 12, 9, 2, 120, 0, 3, 0]), "cannot be decoded"),
        (bytes([1, 12, 0, 2, 120, 0, 3, 0, 0]), "1 bytes left"),
        (bytes([1, 12, 0, 2, 120, 0]), "cannot be decoded"),
        (b"\xff" * 9, "longer than five bytes"),
    ],
)
def test_an_undecodable_record_stops_the_controller(value, reason):
    with pytest.raises(InvariantViolation, match=reason):
        decode_record(value)


@given(st.binary(max_size=60))
def test_any_bytes_end_in_a_record_or_an_invariant_violation(value):
    try:
        record = decode_record(value)
    except InvariantViolation:
        return
    assert decode_record(encode_record(record)) is not None


def test_only_records_that_we_can_apply_are_written():
    with pytest.raises(InvariantViolation, match="only known"):
        encode_record(api.BeginTransactionRecord())
