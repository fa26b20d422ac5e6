"""An answer that is encoded a few topics at a time is, byte for byte, what the codec makes of the whole."""

import asyncio
from uuid import UUID

import pytest

from ottla.broker.handlers.many_topics import TOPICS_PER_TURN, encode_in_turns
from ottla.wire import api
from ottla.wire.apis import ApiKey
from ottla.wire.frame import encode_response

Response = api.MetadataResponse


def topic(number: int) -> Response.MetadataResponseTopic:
    partition = Response.MetadataResponsePartition(
        partition_index=number, leader_id=1, leader_epoch=3, replica_nodes=[1, 2], isr_nodes=[1]
    )
    return Response.MetadataResponseTopic(
        name="t" * (1 + number % 249), topic_id=UUID(int=number), partitions=[partition] * (number % 4)
    )


def around() -> Response:
    return Response(
        brokers=[Response.MetadataResponseBroker(node_id=1, host="host", port=9092, rack="a")],
        cluster_id="cluster",
        controller_id=1,
    )


@pytest.mark.parametrize("version", range(14))
@pytest.mark.parametrize("count", [0, 1, TOPICS_PER_TURN, TOPICS_PER_TURN + 1, 1_000])
def test_the_bytes_are_those_of_the_codec(version: int, count: int) -> None:
    whole = around()
    whole.topics = [topic(number) for number in range(count)]
    encoded = asyncio.run(encode_in_turns(around(), range(count), topic, version, correlation_id=7))
    assert encoded == encode_response(ApiKey.METADATA, version, 7, whole)


def test_others_get_their_turn_in_between() -> None:
    async def scene() -> None:
        described: list[int] = []

        def describe(number: int) -> Response.MetadataResponseTopic:
            described.append(number)
            return topic(number)

        encoding = asyncio.create_task(encode_in_turns(around(), range(1_000), describe, 12, correlation_id=7))
        turns = 0
        while not encoding.done():
            before = len(described)
            await asyncio.sleep(0)
            assert len(described) - before <= TOPICS_PER_TURN
            turns += 1
        assert turns >= 1_000 // TOPICS_PER_TURN

    asyncio.run(scene())
