"""Topics with known records, and the source that reads them."""

from collections.abc import Iterable
from typing import Any

from ottla.base.types import TopicPartition
from ottla.client import Admin, Producer
from ottla.client.raw.cluster import Cluster
from ottla.client.raw.group_offsets import commit_offsets
from ottla.client.raw.patience import COORDINATOR_PASSING, patiently
from tests.spark.brokers import AnyBroker

T0_MS = 1_700_000_000_000


def create(broker: AnyBroker, topic: str, partitions: int = 1, **configs: str) -> None:
    """Whose records may be as old as they like: by T0_MS, retention would take them in the middle of a test."""
    chosen = {name.replace("_", "."): value for name, value in {"retention_ms": "-1", **configs}.items()}
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topic(topic, partitions, configs=chosen)


def filled(broker: AnyBroker, topic: str, count: int, *, partitions: int = 2, **options: Any) -> None:
    """`count` records, the n-th with key and value n, to partition n % partitions, one second after the other."""
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        exists = topic in admin.list_topics()
    if not exists:
        create(broker, topic, partitions)
    with Producer(bootstrap_servers=broker.bootstrap_servers, **options) as producer:
        for number in range(count):
            producer.send(
                topic,
                key=f"k{number}".encode(),
                value=f"v{number}".encode(),
                partition=number % partitions,
                timestamp_ms=T0_MS + 1000 * number,
                headers=[("n", str(number).encode())],
            )


def sent(broker: AnyBroker, topic: str, values: Iterable[bytes | None], **options: Any) -> None:
    """To partition 0, one batch for each call."""
    with Producer(bootstrap_servers=broker.bootstrap_servers, **options) as producer:
        for value in values:
            producer.send(topic, key=b"k", value=value, partition=0, headers=[("h", b"1")])


def committed(broker: AnyBroker, group: str, offsets: dict[TopicPartition, int]) -> None:
    """By a group; the first one on a fresh broker has to wait for its coordinator."""
    with Cluster(broker.bootstrap_servers, client_id="test", timeout_s=30) as cluster:
        patiently(lambda: commit_offsets(cluster, group, offsets), passing=COORDINATOR_PASSING, timeout_s=30)


def reader(spark: Any, broker: AnyBroker, topic: str, **options: object) -> Any:
    return _with_options(spark.read, broker, topic, options).load()


def stream(spark: Any, broker: AnyBroker, topic: str, **options: object) -> Any:
    return _with_options(spark.readStream, broker, topic, options).load()


def _with_options(reading: Any, broker: AnyBroker, topic: str, options: dict[str, object]) -> Any:
    frame = reading.format("ottla").option("kafka.bootstrap.servers", broker.bootstrap_servers)
    for name, value in {"subscribe": topic, **options}.items():
        if value is not None:
            frame = frame.option(name, value)
    return frame


def values(frame: Any) -> list[str]:
    return sorted(row["value"].decode() for row in frame.select("value").collect())
