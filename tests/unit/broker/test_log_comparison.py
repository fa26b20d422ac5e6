"""How far logs go, asked of their brokers."""

import asyncio

import pytest

from ottla.broker.log_comparison import compare_logs
from ottla.wire.apis import ApiKey
from tests.unit.broker.controlled_cluster import FakePeers
from tests.unit.metadata.cluster import broker_record, image_of, replay, topic_records

EPOCHS = {1: 7, 2: 7, 3: 7}


@pytest.fixture
def peers():
    found = FakePeers()
    found.log_ends = {
        (1, "orders", 0): (3, 90),
        (2, "orders", 0): (4, 80),
        (1, "orders", 1): (0, 5),
        (2, "bills", 0): (1, 1),
    }
    return found


def compare(image, peers):
    waiting = [
        image.partition_of(topic, number)._replace(
            partition=image.partition_of(topic, number).partition._replace(last_known_elr=suspects)
        )
        for topic, number, suspects in (("orders", 0, (1, 2)), ("orders", 1, (1, 2)), ("bills", 0, (2,)))
    ]
    compared = asyncio.run(compare_logs(peers, waiting, EPOCHS))
    names = {topic.id: topic.name for topic in image.topics.values()}
    return {(names[topic_id], number): ends for (topic_id, number), ends in compared.valid_in(image).items()}


def cluster(*records):
    return image_of(*topic_records("orders", partitions=2), *topic_records("bills", number=2), *records, brokers=3)


def test_every_broker_is_asked_once_about_all_its_partitions(peers):
    found = compare(cluster(), peers)
    assert found == {
        ("orders", 0): {1: (3, 90), 2: (4, 80)},
        ("orders", 1): {1: (0, 5)},
        ("bills", 0): {2: (1, 1)},
    }
    assert sorted(peers.asked) == [(1, ApiKey.LIST_OFFSETS), (2, ApiKey.LIST_OFFSETS)]


def test_who_does_not_answer_is_not_known(peers):
    peers.gone.add(2)
    assert compare(cluster(), peers) == {("orders", 0): {1: (3, 90)}, ("orders", 1): {1: (0, 5)}}


def test_what_an_earlier_incarnation_said_does_not_count(peers):
    image = cluster()
    replay(image, broker_record(2, broker_epoch=8))
    assert compare(image, peers)["orders", 0] == {1: (3, 90)}
