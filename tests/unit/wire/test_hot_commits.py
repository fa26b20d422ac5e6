"""The hand-tuned OffsetCommit codec says the same as the general one, in every version."""

import random
from uuid import UUID

import pytest

from ottla.base.errors import ProtocolError
from ottla.wire import api, hot_commits
from ottla.wire.apis import ApiKey
from ottla.wire.codec import codec_for
from ottla.wire.frame import encode_response
from ottla.wire.hot_commits import commit_call, decode_commit, encode_committed, refused_commit

VERSIONS = range(2, 11)
Request = api.OffsetCommitRequest
Response = api.OffsetCommitResponse


def commit_request(random_: random.Random, *, topics: int, partitions: int) -> api.OffsetCommitRequest:
    text = random_.choice(["", "", "", None, "note-é", "x" * 300])
    return Request(
        group_id=random_.choice(["", "g", "group-é", "g" * 600]),
        generation_id_or_member_epoch=random_.choice([-1, 0, 7, 2**31 - 1]),
        member_id=random_.choice(["", "consumer-1-0aa3"]),
        group_instance_id=random_.choice([None, "", "instance"]),
        retention_time_ms=random_.choice([-1, 0, 60_000]),
        topics=[
            Request.OffsetCommitRequestTopic(
                name=random_.choice(["t", "topic" * 30]),
                topic_id=UUID(int=random_.randrange(5)),
                partitions=[
                    Request.OffsetCommitRequestPartition(
                        partition_index=random_.choice([0, 1, -1, 2**31 - 1]),
                        committed_offset=random_.choice([0, 5, -1, 2**63 - 1]),
                        committed_leader_epoch=random_.choice([-1, 0, 3]),
                        committed_metadata=text,
                    )
                    for _ in range(partitions)
                ],
            )
            for _ in range(topics)
        ],
    )


def some_requests(seed: int) -> list[api.OffsetCommitRequest]:
    """Of every shape, most of that which is read by hand."""
    random_ = random.Random(seed)
    shapes = [(1, 1)] * 300 + [(0, 0), (1, 0), (2, 1), (1, 2), (3, 3)] * 10
    return [commit_request(random_, topics=topics, partitions=partitions) for topics, partitions in shapes]


@pytest.mark.parametrize("version", VERSIONS)
def test_requests_decode_alike(version: int) -> None:
    codec = codec_for(Request, version)
    for request in some_requests(version):
        encoded = b"head" + codec.encode(request)
        decoded, _ = codec.decode(memoryview(encoded), 4)
        assert decode_commit(memoryview(encoded), 4, version) == commit_call(decoded, version)


@pytest.mark.parametrize("version", VERSIONS)
def test_hostile_requests_decode_alike_or_end_in_a_protocol_error(version: int) -> None:
    codec, random_ = codec_for(Request, version), random.Random(100 + version)
    for request in some_requests(200 + version):
        encoded = bytearray(codec.encode(request))
        for _ in range(random_.randrange(1, 4)):
            encoded[random_.randrange(len(encoded))] = random_.randrange(256)
        cut = random_.choice([len(encoded), random_.randrange(len(encoded) + 1)])
        view = memoryview(bytes(encoded[:cut]) + random_.choice([b"", b"", b"\0", b"more"]))
        try:
            expected = commit_call(codec.decode(view, 0)[0], version)
        except ProtocolError:
            with pytest.raises(ProtocolError):
                decode_commit(view, 0, version)
        else:
            assert decode_commit(view, 0, version) == expected


def test_the_usual_request_is_read_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    partition = Request.OffsetCommitRequestPartition(partition_index=3, committed_offset=7, committed_metadata="")
    topic = Request.OffsetCommitRequestTopic(name="t", topic_id=UUID(int=5), partitions=[partition])
    request = Request(group_id="g", generation_id_or_member_epoch=4, member_id="m", topics=[topic])
    encoded = {version: codec_for(Request, version).encode(request) for version in (8, 9, 10)}
    monkeypatch.setattr(hot_commits, "codec_for", None)
    for version, data in encoded.items():
        _, [(_, [(_, offset, _, _)])] = decode_commit(memoryview(data), 0, version)
        assert offset == 7


@pytest.mark.parametrize("version", VERSIONS)
def test_answers_encode_alike(version: int) -> None:
    random_ = random.Random(version)
    for topic_count in [1] * 20 + [0, 2, 3]:
        topics = [
            (
                UUID(int=random_.randrange(9)) if version >= 10 else random_.choice(["t", "é", "x" * 126, "x" * 127]),
                [(random_.choice([0, 7, -1]), random_.choice([0, 25])) for _ in range(random_.choice([0, 1, 1, 1, 2]))],
            )
            for _ in range(topic_count)
        ]
        response = Response(
            topics=[
                Response.OffsetCommitResponseTopic(
                    **{"topic_id" if version >= 10 else "name": topic},
                    partitions=[
                        Response.OffsetCommitResponsePartition(partition_index=partition, error_code=code)
                        for partition, code in partitions
                    ],
                )
                for topic, partitions in topics
            ]
        )
        assert encode_committed(77, version, topics) == encode_response(ApiKey.OFFSET_COMMIT, version, 77, response)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_refusal_names_the_same_partitions(version: int) -> None:
    key: str | UUID = "t" if version < hot_commits.TOPIC_IDS_FROM else UUID(int=5)

    def frame(code: int) -> bytes:
        return encode_committed(7, version, [(key, [(0, code), (3, code)]), (key, [])])

    assert refused_commit(frame(0), version, 15) == frame(15)


def test_hostile_names_are_not_remembered() -> None:
    """Neither of a request nor of its answer: ten thousand of a megabyte each would be all the memory."""
    for cached in (hot_commits._decode_head, hot_commits._answer_rest):
        cached.cache_clear()
    partition = Request.OffsetCommitRequestPartition(partition_index=3, committed_offset=7, committed_metadata="")
    for name in ("x" * 128, "x" * 1_000_000, "\N{SNOWMAN}" * 100_000):
        request = Request(group_id="g", topics=[Request.OffsetCommitRequestTopic(name=name, partitions=[partition])])
        _, [(topic, _)] = decode_commit(memoryview(codec_for(Request, 9).encode(request)), 0, 9)
        assert topic == name
        encode_committed(1, 9, [(name, [(3, 3)])])
    assert hot_commits._decode_head.cache_info().currsize == hot_commits._answer_rest.cache_info().currsize == 0


def test_a_topic_id_that_is_cut_off_is_a_protocol_error() -> None:
    tail = hot_commits._TAIL.pack(2, 0, 5, -1, 0x01_00_00_00)
    head = b"\x02g" + bytes(4) + b"\x01\x00\x02" + b"\x11" * 10
    with pytest.raises(ProtocolError):
        decode_commit(memoryview(head + tail), 0, 10)
