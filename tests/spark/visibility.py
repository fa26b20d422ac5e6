"""When a committed transaction is seen: on Ottla at once, on Kafka when its markers are written, a moment later."""

from ottla.base.types import TopicPartition
from ottla.client import Admin
from ottla.client.raw.cluster import Cluster
from ottla.client.raw.offsets import LATEST, list_offsets
from tests.spark.brokers import AnyBroker
from tests.spark.waiting import until


def wait_visible(broker: AnyBroker, topic: str) -> None:
    """Until nothing is undecided."""
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        partitions = admin.describe_topics([topic])[topic].partitions
    wanted = {TopicPartition(topic, one.partition): LATEST for one in partitions}
    with Cluster(broker.bootstrap_servers, client_id="test", timeout_s=10) as cluster:
        until(
            lambda: (
                list_offsets(cluster, wanted, read_committed=True)
                == list_offsets(cluster, wanted, read_committed=False)
            )
        )
