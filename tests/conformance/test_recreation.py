"""A topic deleted and made again under open clients: producers and consumers find the new one by themselves."""

from typing import Any

from tests.conformance.client import Client, Fetched, Record
from tests.conformance.registry import Can, clients_that
from tests.conformance.under_test import Keeper
from tests.conformance.waiting import eventually

RECOVERY_S = 30


def recreate(keeper: Keeper, topic: str) -> None:
    keeper.delete(topic)
    keeper.create(topic)


@clients_that(Can.WRITE, Can.STAY_OPEN)
def test_an_open_producer_writes_to_the_new_topic(client: Client, keeper: Keeper, topic: str) -> None:
    client.produce(topic, [Record(value=b"old")] * 3, producer=topic)
    recreate(keeper, topic)
    stored = client.produce(topic, [Record(value=b"new")], producer=topic)
    client.call("close", name=topic)
    assert [one.offset for one in stored] == [0]
    assert [found.value for found in keeper.fetch(topic, count=1)] == [b"new"]


@clients_that(Can.READ, Can.STAY_OPEN)
def test_an_open_consumer_reads_the_new_topic(client: Client, keeper: Keeper, topic: str) -> None:
    keeper.produce(topic, [Record(value=b"old")] * 3)
    settings: dict[str, Any] = {"consumer": topic, "reset": "earliest"}
    assert len(client.fetch(topic, count=3, **settings)) == 3
    recreate(keeper, topic)

    def found() -> list[Fetched]:
        # Some reset to the start, some see a truncation and go on at the new end: what comes now, all must read.
        keeper.produce(topic, [Record(value=b"new")])
        records = client.fetch(topic, count=1, wait_ms=1000, **settings)
        assert records
        return records

    assert [record.value for record in eventually(found, wait_s=RECOVERY_S)] == [b"new"]
    client.call("close", name=topic)
