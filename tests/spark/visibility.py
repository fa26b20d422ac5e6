"""When a committed transaction is seen: on Ottla at once, on Kafka when its markers are written, a moment later."""

from ottla.base.types import TopicPartition
from ottla.client.raw.cluster import Cluster
from ottla.client.raw.offsets import LATEST, list_offsets
from tests.spark.brokers import AnyBroker
from tests.spark.waiting import until


def wait_visible(broker: AnyBroker, topic: str, partitions: int) -> None:
    """Until nothing is undecided."""
    wanted = {TopicPartition(topic, index): LATEST for index in range(partitions)}
    with Cluster(broker.bootstrap_servers, client_id="test", timeout_s=10) as cluster:
        until(
            lambda: (
                list_offsets(cluster, wanted, read_committed=True)
                == list_offsets(cluster, wanted, read_committed=False)
            )
        )
