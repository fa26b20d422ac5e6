"""Scene 33 and what else users expect of a compacted topic, through real clients."""

import time
from collections.abc import Iterator
from random import Random

import pytest

import ottla.testing
from tests.conformance.client import Client, Record
from tests.conformance.compacting import CONFIGS, compacting_broker, eventually_compacted, read, seal
from tests.conformance.registry import Can, clients_that, start
from tests.conformance.waiting import eventually

pytestmark = pytest.mark.needs_ottla

DELETE_RETENTION_MS = 3_000


@pytest.fixture(scope="module")
def compacting() -> Iterator[ottla.testing.Broker]:
    with compacting_broker() as broker:
        yield broker


@pytest.fixture(scope="module")
def writer(compacting: ottla.testing.Broker) -> Iterator[Client]:
    with start("confluent-kafka", compacting.bootstrap_servers) as client:
        yield client


@clients_that(Can.READ)
def test_scene_33_the_newest_of_each_key_stays_at_its_offset(
    client: Client, compacting: ottla.testing.Broker, writer: Client, topic_name: str
) -> None:
    writer.create_topic(topic_name, configs=CONFIGS | {"delete.retention.ms": str(DELETE_RETENTION_MS)})
    keys = [b"user_456" if offset in (5, 30) else b"user_123" for offset in range(51)]
    writer.produce(topic_name, [Record(key=key, value=b"%d" % offset) for offset, key in enumerate(keys)])
    seal(writer, topic_name)
    eventually_compacted(writer, topic_name, [30, 50])
    found = read(client, topic_name, 2, bootstrap=compacting.bootstrap_servers)
    assert [(one.offset, one.key, one.value) for one in found] == [(30, b"user_456", b"30"), (50, b"user_123", b"50")]

    [tombstone] = writer.produce(topic_name, [Record(key=b"user_456", value=None)])
    seal(writer, topic_name)
    eventually_compacted(writer, topic_name, [50, tombstone.offset])
    found = read(client, topic_name, 2, bootstrap=compacting.bootstrap_servers)
    assert [(one.key, one.value) for one in found] == [(b"user_123", b"50"), (b"user_456", None)]

    time.sleep(DELETE_RETENTION_MS / 1000)
    seal(writer, topic_name)  # As in Kafka, only a pass removes it, and only something new makes one.
    eventually_compacted(writer, topic_name, [50])
    found = read(client, topic_name, 1, bootstrap=compacting.bootstrap_servers)
    assert [(one.offset, one.key, one.value) for one in found] == [(50, b"user_123", b"50")]


@clients_that(Can.READ)
def test_a_reader_sees_exactly_the_newest_values(
    client: Client, compacting: ottla.testing.Broker, writer: Client, topic_name: str
) -> None:
    writer.create_topic(topic_name, configs=CONFIGS)
    chance = Random(topic_name)
    newest: dict[bytes, tuple[int, bytes | None]] = {}
    for compression in ("none", "gzip", "snappy", "lz4", "zstd"):
        keys = [b"key-%d" % chance.randrange(40) for _ in range(60)]
        records = [Record(key=key, value=None if chance.random() < 0.2 else chance.randbytes(50)) for key in keys]
        stored = writer.produce(topic_name, records, compression=compression, linger_ms=50, idempotence=True)
        newest |= {record.key: (at.offset, record.value) for record, at in zip(records, stored, strict=True)}  # type: ignore[misc]
        seal(writer, topic_name)
    expected = sorted((offset, key, value) for key, (offset, value) in newest.items())
    eventually_compacted(writer, topic_name, [offset for offset, _, _ in expected])
    found = read(client, topic_name, len(expected), bootstrap=compacting.bootstrap_servers)
    assert [(one.offset, one.key, one.value) for one in found] == expected


@clients_that(Can.WRITE, Can.STAY_OPEN)
def test_an_idempotent_producer_goes_on_after_its_records_were_compacted_away_and_the_broker_restarted(
    client: Client, topic_name: str
) -> None:
    with compacting_broker() as broker, start("confluent-kafka", broker.bootstrap_servers) as keeper:
        keeper.create_topic(topic_name, configs=CONFIGS)
        settings = {"producer": topic_name, "idempotence": True, "bootstrap": broker.bootstrap_servers}
        client.produce(topic_name, [Record(key=b"a", value=b"%d" % number) for number in range(20)], **settings)
        [newer] = keeper.produce(topic_name, [Record(key=b"a", value=b"of another producer")])
        for _ in range(2):
            seal(keeper, topic_name)
            eventually_compacted(keeper, topic_name, [newer.offset])
            broker.restart()
            [newer] = client.produce(topic_name, [Record(key=b"a", value=b"next")], **settings)
            seen = eventually(lambda: read(keeper, topic_name, 2)[-1])
            assert (seen.offset, seen.value) == (newer.offset, b"next")
