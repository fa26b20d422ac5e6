"""Scenes 9 and 12: acknowledgements get lost on the way, idempotent producers retry, the log shows none of it."""

import random

from tests.conformance.client import Client, Record
from tests.conformance.proxy import lossy_proxy
from tests.conformance.registry import Can, clients_that
from tests.conformance.under_test import BrokerUnderTest, Keeper

IDEMPOTENT = {"idempotence": True, "acks": "all"}
SHARE_LOST = 0.15
RECORD_COUNT = 60
TINY_BATCH_BYTES = 100  # So that each record travels in a batch, and nearly each in a request, of its own.


@clients_that(Can.WRITE, Can.OUTLAST_DISCONNECTION)
def test_scene_9_a_lost_acknowledgement_leaves_one_record(
    client: Client, keeper: Keeper, topic: str, broker: BrokerUnderTest
) -> None:
    keeper.produce(topic, [Record(value=b"before")])
    with lossy_proxy(broker.port, loses=lambda answers_before: answers_before == 0) as proxy:
        [stored] = client.produce(topic, [Record(value=b"once")], bootstrap=proxy.bootstrap, **IDEMPOTENT)
    assert (proxy.produce_requests, proxy.answers_lost) == (2, 1)
    assert stored.offset == 1  # The offset of the first try, which the producer never heard of.
    assert keeper.locate(topic, "latest").offset == 2
    assert [found.value for found in keeper.fetch(topic, count=2)] == [b"before", b"once"]


@clients_that(Can.WRITE, Can.OUTLAST_DISCONNECTION, Can.PIPELINE)
def test_scene_12_five_in_flight_and_answers_lost_at_random_keep_the_order(
    client: Client, keeper: Keeper, topic: str, broker: BrokerUnderTest
) -> None:
    chance = random.Random(client.name)
    values = [b"message %d" % number for number in range(RECORD_COUNT)]
    with lossy_proxy(broker.port, loses=lambda _: chance.random() < SHARE_LOST) as proxy:
        stored = client.produce(
            topic,
            [Record(value=value) for value in values],
            bootstrap=proxy.bootstrap,
            in_flight=5,
            batch_bytes=TINY_BATCH_BYTES,
            **IDEMPOTENT,
        )
    assert proxy.answers_lost > 0
    assert [found.value for found in keeper.fetch(topic, count=RECORD_COUNT)] == values
    assert keeper.locate(topic, "latest").offset == RECORD_COUNT
    assert [one.offset for one in stored] == list(range(RECORD_COUNT))
