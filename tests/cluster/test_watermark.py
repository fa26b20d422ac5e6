"""What readers see while replicas differ: nothing that some in-sync replica lacks, whichever replica they ask."""

import json
import time
from typing import Any, Final

from confluent_kafka import Consumer, Message, Producer, TopicPartition

from ottla.wire import api
from ottla.wire.apis import ApiKey
from tests.chaos.brokers import wait_until
from tests.chaos.readers import new_consumer
from tests.chaos.writers import QUIET
from tests.cluster.conftest import Report
from tests.cluster.faults import paused
from tests.cluster.load import Load
from tests.cluster.site import Site, connection_to

# Long enough for a paused replica to be still in sync when everybody has looked.
SETTINGS: Final = {
    "replica.lag.time.max.ms": 20_000,
    "broker.session.timeout.ms": 20_000,
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
}
RACKS: Final = {1: "a", 2: "b", 3: "c"}
SETTINGS_OF_NODE: Final = {node: {"broker.rack": rack} for node, rack in RACKS.items()}
ANSWER_SECONDS_MAX: Final = 20.0
CLIENT: Final = -1


def write(bootstrap_servers: str, topic: str, count: int, *, acks: str) -> int:
    """Returns the end of the log as the answers tell it."""
    offsets: list[int] = []

    def on_delivery(error: object, message: Message) -> None:
        assert error is None, error
        offsets.append(message.offset() or 0)

    producer = Producer({"bootstrap.servers": bootstrap_servers, "acks": acks, **QUIET})
    for number in range(count):
        producer.produce(topic, b"%d" % number, partition=0, on_delivery=on_delivery)
    assert producer.flush(ANSWER_SECONDS_MAX) == 0, "no answer"
    return max(offsets) + 1


class RackReader:
    """A consumer that says where it stands, and what its statistics tell of whom it asks."""

    def __init__(self, site: Site, topic: str, rack: str) -> None:
        self.asked: int | None = None
        self._topic = topic
        settings = {"client.rack": rack, "statistics.interval.ms": 50, "stats_cb": self._on_statistics}
        self.consumer: Consumer = new_consumer(site.bootstrap, **settings)
        self.consumer.assign([TopicPartition(topic, 0, 0)])
        self.offsets: list[int] = []

    def read(self, seconds: float = 0.1) -> None:
        for message in self.consumer.consume(1_000, seconds):
            assert message.error() is None, message.error()
            self.offsets.append(message.offset() or 0)

    def _on_statistics(self, text: str) -> None:
        partitions: dict[str, Any] = json.loads(text)["topics"].get(self._topic, {}).get("partitions", {})
        if "0" in partitions:
            self.asked = partitions["0"]["broker"]


def watermark_at(site: Site, node_id: int, topic: str) -> int:
    """As a consumer is told that fetches from that very replica."""
    topic_id = described_by(site, node_id, topic).topic_id
    partition = api.FetchRequest.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1)
    request = api.FetchRequest(
        replica_id=CLIENT,
        max_wait_ms=0,
        max_bytes=1,
        topics=[api.FetchRequest.FetchTopic(topic=topic, topic_id=topic_id, partitions=[partition])],
    )
    with connection_to(site.node(node_id)) as connection:
        answer = connection.ask(ApiKey.FETCH, request, api.FetchResponse)
    [found] = answer.responses[0].partitions
    assert found.error_code == 0, found.error_code
    return found.high_watermark


def described_by(site: Site, node_id: int, topic: str) -> api.MetadataResponse.MetadataResponseTopic:
    request = api.MetadataRequest(topics=[api.MetadataRequest.MetadataRequestTopic(name=topic)])
    with connection_to(site.node(node_id)) as connection:
        [found] = connection.ask(ApiKey.METADATA, request, api.MetadataResponse).topics
    return found


def test_scene_41_nobody_reads_past_what_every_in_sync_replica_has(site: Site, topic_name: str) -> None:
    behind = next(node.id for node in site.cluster.nodes if node.id != site.controller())
    leader, follower = (node.id for node in site.cluster.nodes if node.id != behind)
    site.topics.create_on(topic_name, [leader, follower, behind])
    assert write(site.bootstrap, topic_name, 98, acks="all") == 98
    readers = [RackReader(site, topic_name, RACKS[leader]), RackReader(site, topic_name, RACKS[follower])]
    for reader in readers:  # Before the pause: a client that begins with the paused node waits for it.
        wait_until(lambda reader=reader: reader.read() or len(reader.offsets) >= 98, "everything committed is read")
    with paused(site, behind):
        assert write(site.node(leader).bootstrap_servers, topic_name, 2, acks="1") == 100  # Ends 100, 100 and 98.
        for reader in readers:
            reader.read(1.0)
            assert reader.offsets == list(range(98))
            assert reader.consumer.get_watermark_offsets(TopicPartition(topic_name, 0), ANSWER_SECONDS_MAX) == (0, 98)
        [partition] = described_by(site, leader, topic_name).partitions
        assert len(partition.isr_nodes) == 3, "the machine was too slow to look in time"
    for reader in readers:
        wait_until(lambda reader=reader: reader.read() or reader.offsets == list(range(100)), "the rest is read")
        reader.consumer.close()


def test_scene_49_a_follower_has_the_leaders_watermark_up_to_its_own_end_and_goes_on_from_there(
    site: Site, topic_name: str, report: Report
) -> None:
    site.topics.create_on(topic_name, [1, 2, 3])
    end = write(site.bootstrap, topic_name, 100, acks="all")
    acknowledged_at = time.monotonic()
    wait_until(lambda: watermark_at(site, 2, topic_name) == end, "the follower hears of what is committed")
    report(f"the follower knows of it {(time.monotonic() - acknowledged_at) * 1000:.0f} ms after the acknowledgement")
    segment = site.node(2).data_dir / f"{topic_name}-0" / "00000000000000000000.log"
    before = segment.stat()
    site.node(2).stop()
    end = write(site.bootstrap, topic_name, 50, acks="all")
    site.node(2).start()
    wait_until(lambda: watermark_at(site, 2, topic_name) == end, "the follower has the rest")
    after = segment.stat()
    assert (after.st_ino, after.st_size > before.st_size) == (before.st_ino, True), "it did not go on from its end"
    assert "starts over" not in site.node(2).log


def test_scene_61_a_consumer_reads_from_the_replica_in_its_rack(site: Site, topic_name: str, report: Report) -> None:
    leader, nearest = site.controller(), next(node.id for node in site.cluster.nodes if node.id != site.controller())
    others = [node.id for node in site.cluster.nodes if node.id not in (leader, nearest)]
    site.topics.create_on(topic_name, [leader, nearest, *others])
    reader = RackReader(site, topic_name, RACKS[nearest])
    with Load(site.bootstrap, topic_name) as load:
        wait_until(lambda: reader.read() or reader.asked == nearest, "the follower is asked")
        already = len(reader.offsets)
        load.wait_for(300)
        site.node(nearest).kill()  # Who is nearest is gone: the leader serves.
        load.wait_for(300)
        wait_until(lambda: reader.read() or len(reader.offsets) > already + 300, "the leader is asked", seconds=60)
        site.node(nearest).start()
        site.topics.wait_until(topic_name, lambda state: len(state.isr) == 3)
    wait_until(
        lambda: reader.read() or len(reader.offsets) == load.writer.acknowledged_count, "all is read", seconds=60
    )
    assert reader.offsets == list(range(len(reader.offsets)))
    reader.consumer.close()
    report(load.require_clean())
