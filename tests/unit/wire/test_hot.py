"""The hand-tuned Produce and Fetch codecs say the same as the general ones, in every version."""

import random
from typing import Any
from uuid import UUID

import pytest

from ottla.base.errors import ProtocolError
from ottla.log.transaction_index import AbortedTransaction
from ottla.wire import api
from ottla.wire.codec import codec_for
from ottla.wire.frame import encode_response
from ottla.wire.hot import FetchEncoder, Produced, encode_produce
from ottla.wire.hot_leaders import CurrentLeader, NodeEndpoint
from ottla.wire.hot_produce import ProduceCall, decode_produce

PRODUCE_VERSIONS = range(3, 14)
FETCH_VERSIONS = range(4, 19)
TOPIC_ID = UUID(int=0x1234_5678_9ABC_DEF0_1111_2222_3333_4444)


def produce_request(random_: random.Random) -> api.ProduceRequest:
    return api.ProduceRequest(
        transactional_id=random_.choice([None, "", "tx-é", "x" * 200]),
        acks=random_.choice([-1, 0, 1]),
        timeout_ms=random_.choice([0, 30_000, -1]),
        topic_data=[
            api.ProduceRequest.TopicProduceData(
                name=f"topic-{number}" * random_.choice([1, 20]),
                topic_id=UUID(int=number + 1),
                partition_data=[
                    api.ProduceRequest.PartitionProduceData(
                        index=index, records=random_.choice([None, b"", b"abc", b"z" * 20_000])
                    )
                    for index in range(random_.randrange(3))
                ],
            )
            for number in range(random_.randrange(4))
        ],
    )


def as_call(request: api.ProduceRequest, version: int) -> ProduceCall:
    return ProduceCall(
        request.transactional_id,
        request.acks,
        request.timeout_ms,
        [
            (
                topic.topic_id.bytes if version >= 13 else topic.name,
                [
                    (part.index, None if part.records is None else memoryview(part.records))
                    for part in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ],
    )


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
def test_produce_requests_decode_alike(version: int) -> None:
    random_ = random.Random(version)
    for _ in range(40):
        request = produce_request(random_)
        encoded = b"head" + codec_for(api.ProduceRequest, version).encode(request)
        assert decode_produce(memoryview(encoded), 4, version) == as_call(request, version)


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
def test_hostile_produce_requests_end_in_a_protocol_error(version: int) -> None:
    random_ = random.Random(100 + version)
    for _ in range(300):
        encoded = bytearray(codec_for(api.ProduceRequest, version).encode(produce_request(random_)))
        for _ in range(random_.randrange(1, 4)):
            encoded[random_.randrange(len(encoded))] = random_.randrange(256)
        view = memoryview(bytes(encoded[: random_.randrange(len(encoded) + 1)]))
        try:
            decode_produce(view, 0, version)
        except ProtocolError:
            pass


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
@pytest.mark.parametrize("name", ["t", "n" * 126, "n" * 127, "n" * 249])
@pytest.mark.parametrize("size", [0, 1, 126, 127, 20_000])
def test_a_single_batch_decodes_alike(version: int, name: str, size: int) -> None:
    request = api.ProduceRequest(
        acks=1,
        timeout_ms=30_000,
        topic_data=[
            api.ProduceRequest.TopicProduceData(
                name=name,
                topic_id=TOPIC_ID,
                partition_data=[api.ProduceRequest.PartitionProduceData(index=5, records=b"r" * size)],
            )
        ],
    )
    encoded = memoryview(codec_for(api.ProduceRequest, version).encode(request))
    assert decode_produce(encoded, 0, version) == as_call(request, version)
    for cut in range(len(encoded) - 1, max(len(encoded) - 40, 0), -1):
        with pytest.raises(ProtocolError):
            decode_produce(encoded[:cut], 0, version)


OUTCOMES = [
    Produced(0, 0, 42, -1, 7),
    Produced(3, 10, -1, -1, -1, "too large"),
    Produced(4, 87, -1, -1, -1, "no key", [2, 5]),
]


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
@pytest.mark.parametrize("outcomes", [OUTCOMES, OUTCOMES[:1], OUTCOMES[1:2], OUTCOMES[2:]])
def test_produce_responses_encode_alike(version: int, outcomes: list[Produced]) -> None:
    if version < 8:
        outcomes = [one._replace(error_message=None, refused_records=()) for one in outcomes]
    response = api.ProduceResponse(
        responses=[
            api.ProduceResponse.TopicProduceResponse(
                name="orders",
                topic_id=TOPIC_ID,
                partition_responses=[
                    api.ProduceResponse.PartitionProduceResponse(
                        index=one.partition,
                        error_code=one.error_code,
                        base_offset=one.base_offset,
                        log_append_time_ms=one.log_append_time_ms,
                        log_start_offset=one.log_start_offset,
                        error_message=one.error_message,
                        record_errors=[
                            api.ProduceResponse.BatchIndexAndErrorMessage(
                                batch_index=number, batch_index_error_message=one.error_message
                            )
                            for number in one.refused_records
                        ],
                    )
                    for one in outcomes
                ],
            )
        ]
    )
    topic = TOPIC_ID.bytes if version >= 13 else "orders"
    assert bytes(encode_produce(77, version, [(topic, outcomes)])) == encode_response(0, version, 77, response)


@pytest.mark.parametrize("version", FETCH_VERSIONS)
def test_fetch_responses_encode_alike(version: int) -> None:
    response = api.FetchResponse(
        error_code=0,
        session_id=9,
        responses=[
            api.FetchResponse.FetchableTopicResponse(
                topic="orders",
                topic_id=TOPIC_ID,
                partitions=[
                    api.FetchResponse.PartitionData(
                        partition_index=index,
                        error_code=error_code,
                        high_watermark=100 + index,
                        last_stable_offset=100 + index,
                        log_start_offset=3,
                        aborted_transactions=None,
                        preferred_read_replica=-1,
                        records=records,
                    )
                    for index, error_code, records in [(0, 0, b"r" * 300), (1, 1, b""), (2, 0, b"q")]
                ],
            )
        ],
    )
    encoder = FetchEncoder(5, version, 0, 9, 1)
    encoder.begin_topic(TOPIC_ID.bytes if version >= 13 else "orders", 3)
    encoder.partition(0, 0, 100, 100, 3, 300, b"r" * 300)
    encoder.partition(1, 1, 101, 101, 3, 0, None)
    encoder.partition(2, 0, 102, 102, 3, 1, b"q")
    encoder.end_topic()
    parts = encoder.finish()
    assert b"".join(bytes(part) for part in parts) == encode_response(1, version, 5, response)


@pytest.mark.parametrize("version", FETCH_VERSIONS)
@pytest.mark.parametrize("aborted", [[], [(7, 3)], [(7, 3), (2**40, 2**41)]])
def test_aborted_transactions_encode_alike(version: int, aborted: list[tuple[int, int]]) -> None:
    partition = api.FetchResponse.PartitionData(
        partition_index=4,
        high_watermark=100,
        last_stable_offset=90,
        log_start_offset=3,
        aborted_transactions=[
            api.FetchResponse.AbortedTransaction(producer_id=producer_id, first_offset=first_offset)
            for producer_id, first_offset in aborted
        ],
        preferred_read_replica=-1,
        records=b"r",
    )
    topic = api.FetchResponse.FetchableTopicResponse(topic="orders", topic_id=TOPIC_ID, partitions=[partition])
    encoder = FetchEncoder(5, version, 0, 9, 1)
    encoder.begin_topic(TOPIC_ID.bytes if version >= 13 else "orders", 1)
    entries = [AbortedTransaction(producer_id, first_offset, 0, 0) for producer_id, first_offset in aborted]
    encoder.partition(4, 0, 100, 90, 3, 1, b"r", entries)
    encoder.end_topic()
    response = api.FetchResponse(session_id=9, responses=[topic])
    assert b"".join(bytes(part) for part in encoder.finish()) == encode_response(1, version, 5, response)


# -- leaders (KIP-951), diverging epochs, preferred replicas -----------------------------------------------------------

ENDPOINTS = [NodeEndpoint(2, "host-2", 9092, None), NodeEndpoint(300, "h" * 130, 19092, "rack-ü")]


def as_endpoints(kind: Any, endpoints: list[NodeEndpoint]) -> list[Any]:
    return [kind.NodeEndpoint(node_id=one.node_id, host=one.host, port=one.port, rack=one.rack) for one in endpoints]


@pytest.mark.parametrize("version", PRODUCE_VERSIONS)
@pytest.mark.parametrize("endpoints", [[], ENDPOINTS])
def test_current_leaders_of_produce_encode_alike(version: int, endpoints: list[NodeEndpoint]) -> None:
    message = "led by 2" if version >= 8 else None
    outcomes = [Produced(0, 6, -1, -1, -1, message, (), CurrentLeader(2, 9)), Produced(1, 0, 5, -1, 0)]
    kind = api.ProduceResponse
    leader = {"current_leader": kind.LeaderIdAndEpoch(leader_id=2, leader_epoch=9)} if version >= 10 else {}
    partitions = [
        kind.PartitionProduceResponse(
            index=0, error_code=6, base_offset=-1, log_start_offset=-1, error_message=message, **leader
        ),
        kind.PartitionProduceResponse(index=1, base_offset=5, log_start_offset=0),
    ]
    response = kind(
        responses=[kind.TopicProduceResponse(name="orders", topic_id=TOPIC_ID, partition_responses=partitions)],
        node_endpoints=as_endpoints(kind, endpoints) if version >= 10 else [],
    )
    topic = TOPIC_ID.bytes if version >= 13 else "orders"
    encoded = encode_produce(77, version, [(topic, outcomes)], endpoints)
    assert bytes(encoded) == encode_response(0, version, 77, response)


@pytest.mark.parametrize("version", FETCH_VERSIONS)
@pytest.mark.parametrize("endpoints", [[], ENDPOINTS])
def test_what_replicas_and_lost_clients_are_told_encodes_alike(version: int, endpoints: list[NodeEndpoint]) -> None:
    kind = api.FetchResponse
    leader = {"current_leader": kind.LeaderIdAndEpoch(leader_id=2, leader_epoch=9)} if version >= 16 else {}
    diverging = {"diverging_epoch": kind.EpochEndOffset(epoch=3, end_offset=77)} if version >= 12 else {}
    preferred = {"preferred_read_replica": 5} if version >= 11 else {}
    partitions = [
        kind.PartitionData(
            partition_index=0, error_code=6, high_watermark=-1, aborted_transactions=None, records=b"", **leader
        ),
        kind.PartitionData(
            partition_index=1, high_watermark=9, log_start_offset=0, aborted_transactions=None, records=b"", **diverging
        ),
        kind.PartitionData(
            partition_index=2, high_watermark=9, aborted_transactions=None, records=b"", **leader, **diverging
        ),
        kind.PartitionData(partition_index=3, high_watermark=9, aborted_transactions=None, records=b"", **preferred),
    ]
    response = kind(
        session_id=9,
        responses=[kind.FetchableTopicResponse(topic="orders", topic_id=TOPIC_ID, partitions=partitions)],
        node_endpoints=as_endpoints(kind, endpoints) if version >= 16 else [],
    )
    encoder: FetchEncoder[bytes] = FetchEncoder(5, version, 0, 9, 1)
    encoder.begin_topic(TOPIC_ID.bytes if version >= 13 else "orders", 4)
    encoder.partition(0, 6, -1, -1, -1, 0, None, leader=CurrentLeader(2, 9))
    encoder.partition(1, 0, 9, -1, 0, 0, None, diverging=(3, 77))
    encoder.partition(2, 0, 9, -1, -1, 0, None, diverging=(3, 77), leader=CurrentLeader(2, 9))
    encoder.partition(3, 0, 9, -1, -1, 0, None, preferred_replica=5)
    encoder.end_topic()
    assert b"".join(bytes(part) for part in encoder.finish(endpoints)) == encode_response(1, version, 5, response)
