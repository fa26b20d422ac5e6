"""acks 0, 1 and all, and the idempotent producer's traces: what each client is told, and what the log then holds."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conformance.client import Client, Record
from tests.conformance.registry import Can, clients_that
from tests.conformance.segments import batches_on_disk
from tests.conformance.under_test import Keeper

VALUES = [b"%d" % number for number in range(10)]


@clients_that(Can.WRITE)
@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_level_of_acknowledgement(client: Client, keeper: Keeper, topic: str, acks: str) -> None:
    # Idempotence asks for acks=all; clients that have it on by themselves would refuse the others.
    stored = client.produce(topic, [Record(value=value) for value in VALUES], acks=acks, idempotence=False)
    if acks != "0":
        assert [one.offset for one in stored] == list(range(len(VALUES)))
    assert [found.value for found in keeper.fetch(topic, count=len(VALUES))] == VALUES


@pytest.mark.needs_directory
@clients_that(Can.WRITE)
def test_without_idempotence_no_producer_id_is_stored(client: Client, topic: str, data_dir: Path) -> None:
    client.produce(topic, [Record(value=b"v")], idempotence=False, acks="1")
    assert [batch.producer_id for batch in batches_on_disk(data_dir, topic)] == [-1]


@clients_that(Can.WRITE, Can.STAY_OPEN)
def test_an_idempotent_producer_goes_on(client: Client, topic: str) -> None:
    offsets = []
    for value in VALUES:
        [stored] = client.produce(topic, [Record(value=value)], idempotence=True, acks="all", producer=topic)
        offsets.append(stored.offset)
    client.call("close", name=topic)
    assert offsets == list(range(len(VALUES)))


def test_describe_producers_names_the_idempotent_one(borrow: Callable[[str], Client], topic: str) -> None:
    client = borrow("java")
    client.produce(topic, [Record(value=value) for value in VALUES], idempotence=True)
    [producer] = client.call("describe_producers", topic=topic, partition=0)
    assert producer["producer_id"] >= 0
    assert producer["epoch"] == 0
    assert producer["last_sequence"] == len(VALUES) - 1
