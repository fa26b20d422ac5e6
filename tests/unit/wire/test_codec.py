"""Compiled codecs: bytes known from the protocol, versions, nulls, tags, limits, and what callers may rely on."""

from uuid import UUID

import pytest

from ottla.base.errors import InvariantViolation, ProtocolError
from ottla.wire import api
from ottla.wire.codec import codec_for
from ottla.wire.message import Message
from ottla.wire.primitives import ELEMENTS_MAX, varint
from tests.unit.wire.message_values import ValueMaker, every_version

TOPIC_ID = UUID("00112233-4455-6677-8899-aabbccddeeff")


@pytest.mark.parametrize(
    ("message", "version", "encoded"),
    [
        (api.HeartbeatRequest(group_id="g", generation_id=2, member_id="m"), 0, "0001 67 00000002 0001 6d"),
        (api.HeartbeatRequest(group_id="g", generation_id=2, member_id="m"), 4, "02 67 00000002 02 6d 00 00"),
        (api.MetadataRequest(topics=None), 1, "ffffffff"),
        (api.MetadataRequest(topics=None), 9, "00 01 00 00 00"),
        (api.ListGroupsRequest(states_filter=["a"]), 4, "02 02 61 00"),
        (api.ApiVersionsRequest(client_software_name="x", client_software_version="1"), 3, "02 78 02 31 00"),
        (api.TopicRecord(name="ab", topic_id=TOPIC_ID), 0, "03 6162 00112233445566778899aabbccddeeff 00"),
        (
            api.PartitionChangeRecord(partition_id=1, leader=3, isr=[3]),
            0,
            f"00000001 {'00' * 16} 02 0005 02 00000003 0104 00000003",
        ),
        (api.DescribeTopicPartitionsRequest(), 0, "01 000007d0 ff 00"),
        (
            api.DescribeTopicPartitionsRequest(cursor=api.DescribeTopicPartitionsRequest.Cursor(topic_name="t")),
            0,
            "01 000007d0 01 02 74 00000000 00 00",
        ),
        (api.EndTxnMarker(coordinator_epoch=9), 0, "00000009"),
        (api.OffsetCommitKey(group="g", topic="t", partition=1), 0, "0001 67 0001 74 00000001"),
    ],
)
def test_known_bytes(message: Message, version: int, encoded: str) -> None:
    codec = codec_for(type(message), version)
    data = bytes.fromhex(encoded)
    assert codec.encode(message) == data
    assert codec.decode(memoryview(b"\xee" + data + b"\xee"), 1) == (message, 1 + len(data))


def test_every_message_survives_every_version() -> None:
    for message_class, version in every_version():
        codec = codec_for(message_class, version)
        for seed in range(3):
            message = ValueMaker(seed, 0.8).message(message_class, version)
            encoded = codec.encode(message)
            assert codec.decode(memoryview(encoded), 0) == (message, len(encoded)), (message_class, version)


def test_a_codec_is_made_once() -> None:
    assert codec_for(api.FetchRequest, 12) is codec_for(api.FetchRequest, 12)
    assert codec_for(api.FetchRequest, 12) is not codec_for(api.FetchRequest, 13)


@pytest.mark.parametrize("version", [-1, 2, 14])
def test_a_version_out_of_range_is_a_protocol_error(version: int) -> None:
    with pytest.raises(ProtocolError, match="ProduceRequest has no version"):
        codec_for(api.ProduceRequest, version)


def test_a_nested_struct_has_no_codec_of_its_own() -> None:
    with pytest.raises(InvariantViolation):
        codec_for(api.FetchRequest.FetchTopic, 12)


def test_encoding_appends() -> None:
    out = bytearray(b"before")
    codec_for(api.EndTxnMarker, 0).encode_into(api.EndTxnMarker(coordinator_epoch=1), out)
    assert out == b"before\0\0\0\1"


def test_records_are_a_view_into_what_was_received() -> None:
    partition = api.ProduceRequest.PartitionProduceData(records=b"batch")
    topic = api.ProduceRequest.TopicProduceData(name="t", partition_data=[partition])
    frame = bytearray(codec_for(api.ProduceRequest, 9).encode(api.ProduceRequest(topic_data=[topic])))
    request, _ = codec_for(api.ProduceRequest, 9).decode(memoryview(frame), 0)
    records = request.topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    frame[frame.index(b"batch")] = ord("c")
    assert bytes(records) == b"catch"


def test_fields_of_other_versions_are_dropped_and_read_as_defaults() -> None:
    request = api.FetchRequest(rack_id="rack", cluster_id="c", session_id=3)
    decoded, _ = codec_for(api.FetchRequest, 4).decode(memoryview(codec_for(api.FetchRequest, 4).encode(request)), 0)
    assert (decoded.rack_id, decoded.cluster_id, decoded.session_id) == ("", None, 0)
    assert decoded.forgotten_topics_data == []


def test_unknown_tags_are_skipped() -> None:
    plain = codec_for(api.HeartbeatResponse, 4).encode(api.HeartbeatResponse(error_code=5))
    tagged = plain[:-1] + bytes.fromhex("02 07 03 aabbcc ff01 00")
    assert codec_for(api.HeartbeatResponse, 4).decode(memoryview(tagged), 0) == (
        api.HeartbeatResponse(error_code=5),
        len(tagged),
    )


def test_a_tagged_struct_is_written_where_any_field_of_it_differs_from_its_default() -> None:
    def encoded(**values: int) -> bytes:
        state = api.FetchRequest.ReplicaState(**values)
        return codec_for(api.FetchRequest, 15).encode(api.FetchRequest(replica_state=state))

    assert encoded() == codec_for(api.FetchRequest, 15).encode(api.FetchRequest())
    for different in ({"replica_id": 1}, {"replica_epoch": 1}):
        decoded, _ = codec_for(api.FetchRequest, 15).decode(memoryview(encoded(**different)), 0)
        assert decoded.replica_state == api.FetchRequest.ReplicaState(**different)


def test_a_tagged_field_must_be_as_long_as_it_says() -> None:
    empty = codec_for(api.FetchRequest, 12).encode(api.FetchRequest())
    good = empty[:-1] + bytes.fromhex("01 00 02 02 63")
    assert codec_for(api.FetchRequest, 12).decode(memoryview(good), 0)[0].cluster_id == "c"
    with pytest.raises(ProtocolError, match="cluster_id"):
        codec_for(api.FetchRequest, 12).decode(memoryview(empty[:-1] + bytes.fromhex("01 00 03 02 63 00")), 0)


@pytest.mark.parametrize(
    ("message_class", "version", "encoded", "reason"),
    [
        (api.HeartbeatRequest, 0, "ffff", "group_id is null"),
        (api.HeartbeatRequest, 4, "00", "group_id is null"),
        (api.MetadataRequest, 0, "ffffffff", "topics is null"),
        (api.HeartbeatRequest, 0, "0005 6161", "group_id is longer"),
        (api.HeartbeatRequest, 4, "ffffffff0f", "group_id is longer"),
        (api.HeartbeatRequest, 4, "ffffffffff0f", "five bytes"),
        (api.HeartbeatRequest, 0, "0001 ff", "utf-8"),
        (api.FetchRequest, 12, "00" * 25 + "ffffffff0f", "topics has more elements"),
        (api.DeleteRecordsRequest, 0, "7fffffff", "topics has more elements"),
        (api.EndTxnMarker, 0, "000000", "4 bytes"),
        (api.ListGroupsRequest, 4, "02 00", "null in states_filter"),
    ],
)
def test_bytes_that_are_no_message(message_class: type[Message], version: int, encoded: str, reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason):
        codec_for(message_class, version).decode(memoryview(bytes.fromhex(encoded)), 0)


def test_the_number_of_elements_is_bounded() -> None:
    count = ELEMENTS_MAX + 1
    body = varint(count + 1) + b"\x01" * count + b"\x00"
    with pytest.raises(ProtocolError, match="more elements than a message may have"):
        codec_for(api.DeleteGroupsRequest, 2).decode(memoryview(body), 0)


@pytest.mark.parametrize(
    "message",
    [
        api.HeartbeatRequest(generation_id=2**31),
        api.HeartbeatRequest(group_id="x" * 40_000),
        api.HeartbeatRequest(group_id=None),  # type: ignore[arg-type]
        api.HeartbeatRequest(group_id=5),  # type: ignore[arg-type]
    ],
)
def test_a_value_that_does_not_fit_is_a_value_error(message: api.HeartbeatRequest) -> None:
    with pytest.raises(ValueError, match="HeartbeatRequest v0 cannot be encoded"):
        codec_for(api.HeartbeatRequest, 0).encode(message)


def test_null_where_only_other_versions_have_it() -> None:
    with pytest.raises(ValueError, match="topics is null"):
        codec_for(api.MetadataRequest, 0).encode(api.MetadataRequest(topics=None))


def test_a_tagged_struct_is_written_only_when_it_differs() -> None:
    codec = codec_for(api.FetchResponse, 12)
    plain = api.FetchResponse.PartitionData()
    same = api.FetchResponse.PartitionData(current_leader=api.FetchResponse.LeaderIdAndEpoch())
    other = api.FetchResponse.PartitionData(current_leader=api.FetchResponse.LeaderIdAndEpoch(leader_id=4))

    def encoded(partition: api.FetchResponse.PartitionData) -> bytes:
        topic = api.FetchResponse.FetchableTopicResponse(topic="t", partitions=[partition])
        return codec.encode(api.FetchResponse(responses=[topic]))

    assert encoded(plain) == encoded(same)
    assert len(encoded(other)) == len(encoded(plain)) + 2 + 9
