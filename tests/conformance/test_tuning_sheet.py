"""Scene 20: the tuning sheet of seed 003 applied whole. Every key is accepted where the sheet uses it."""

from collections.abc import Callable

import pytest

from tests.conformance.client import Client, Record
from tests.conformance.registry import start

PRODUCER_SHEET = {
    "batch.size": "65536",
    "linger.ms": "10",
    "compression.type": "lz4",
    "buffer.memory": "67108864",
    "acks": "all",
}
CONSUMER_SHEET = {
    "fetch.min.bytes": "1048576",
    "fetch.max.wait.ms": "500",
    "max.poll.records": "500",
    "max.poll.interval.ms": "300000",
}
BROKER_SHEET = {
    "num.io.threads": "16",
    "num.network.threads": "8",
    "socket.send.buffer.bytes": "1048576",
    "log.segment.bytes": "1073741824",
    "log.retention.hours": "168",
    "num.partitions": "12",
}
VALUES = [b"order %d" % number for number in range(1000)]


def write_and_read(client: Client, topic: str) -> None:
    client.produce(topic, [Record(value=value) for value in VALUES], raw=PRODUCER_SHEET)
    found = client.fetch(topic, count=len(VALUES), raw=CONSUMER_SHEET)
    assert [record.value for record in found] == VALUES


def test_scene_20_producer_and_consumer_with_the_sheet(borrow: Callable[[str], Client], topic: str) -> None:
    write_and_read(borrow("java"), topic)


@pytest.mark.needs_ottla
def test_scene_20_a_broker_with_the_whole_sheet() -> None:
    import ottla.testing

    with ottla.testing.broker(config=BROKER_SHEET) as tuned, start("java", tuned.bootstrap_servers) as client:
        node = str(client.call("describe_cluster")["controller"])
        shown = client.call("describe_configs", kind="broker", name=node)
        assert {key: shown[key]["value"] for key in BROKER_SHEET} == BROKER_SHEET
        write_and_read(client, "made-by-writing")
        assert len(client.partitions("made-by-writing")) == int(BROKER_SHEET["num.partitions"])
        inherited = client.topic_configs("made-by-writing")
        assert (inherited["segment.bytes"], inherited["retention.ms"]) == ("1073741824", str(168 * 3_600_000))
