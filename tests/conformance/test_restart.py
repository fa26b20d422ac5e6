"""The broker is killed and comes back at the same address: open clients go on by themselves, and nothing is missing."""

from collections.abc import Iterator

import pytest

import ottla.testing
from tests.conformance.client import Client, Record
from tests.conformance.registry import Can, clients_that

pytestmark = pytest.mark.needs_ottla


@pytest.fixture(scope="module")
def mortal_broker() -> Iterator[ottla.testing.Broker]:
    with ottla.testing.broker() as broker:
        yield broker


@clients_that(Can.WRITE, Can.STAY_OPEN)
def test_an_open_idempotent_producer_goes_on(
    client: Client, mortal_broker: ottla.testing.Broker, topic_name: str
) -> None:
    settings = {
        "producer": topic_name,
        "bootstrap": mortal_broker.bootstrap_servers,
        "idempotence": True,
        "acks": "all",
    }
    before = client.produce(topic_name, [Record(value=b"before")] * 3, **settings)
    mortal_broker.kill()
    mortal_broker.restart()
    after = client.produce(topic_name, [Record(value=b"after")] * 3, **settings)
    client.call("close", name=topic_name)
    assert [stored.offset for stored in before + after] == list(range(6))


@clients_that(Can.READ, Can.STAY_OPEN)
def test_an_open_consumer_goes_on(client: Client, mortal_broker: ottla.testing.Broker, topic_name: str) -> None:
    bootstrap = mortal_broker.bootstrap_servers
    client.produce(topic_name, [Record(value=b"%d" % number) for number in range(3)], bootstrap=bootstrap)
    first = client.fetch(topic_name, count=3, consumer=topic_name, bootstrap=bootstrap)
    mortal_broker.kill()
    mortal_broker.restart()
    client.produce(topic_name, [Record(value=b"%d" % number) for number in range(3, 6)], bootstrap=bootstrap)
    then = client.fetch(topic_name, count=3, consumer=topic_name, bootstrap=bootstrap)
    client.call("close", name=topic_name)
    assert [found.value for found in first + then] == [b"%d" % number for number in range(6)]
