"""Scene 13: one key goes to one partition, whichever client writes it, and keeps its order there."""

from collections.abc import Callable

from tests.conformance.client import Client, Record
from tests.conformance.registry import Can, clients_that
from tests.conformance.under_test import Keeper

PARTITIONS = 12
KEYS = [b"user_%d" % number for number in range(40)] + ["заказ".encode(), b"\xff\xfe\x01", b"a", b"abcd", b"abcdefg"]
# librdkafka's own default is another hash; this is its name for the Java client's.
JAVAS_HASH = {"raw": {"partitioner": "murmur2_random"}}


@clients_that(Can.WRITE)
def test_scene_13_every_client_agrees_with_the_java_client(
    client: Client, borrow: Callable[[str], Client], keeper: Keeper, topic_name: str
) -> None:
    records = [Record(key=key, value=b"v", partition=None) for key in KEYS]
    java = borrow("java")
    keeper.create(f"{topic_name}-java", partitions=PARTITIONS)
    expected = [stored.partition for stored in java.produce(f"{topic_name}-java", records)]
    assert len(set(expected)) > PARTITIONS // 2
    keeper.create(topic_name, partitions=PARTITIONS)
    settings = JAVAS_HASH if client.name in ("confluent-kafka", "kcat") else {}
    assert [stored.partition for stored in client.produce(topic_name, records, **settings)] == expected


@clients_that(Can.WRITE, Can.READ)
def test_one_key_keeps_its_order(client: Client, keeper: Keeper, topic_name: str) -> None:
    keeper.create(topic_name, partitions=PARTITIONS)
    records = [Record(key=b"user_123", value=b"%d" % number, partition=None) for number in range(15)]
    [partition] = {stored.partition for stored in client.produce(topic_name, records)}
    found = client.fetch(topic_name, partition=partition, count=len(records))
    assert [one.value for one in found] == [record.value for record in records]
