"""Sizes on disk, as brokers tell them (DescribeLogDirs), one copy of each partition counted."""

from ottla.base.errors import ErrorCode
from ottla.base.types import TopicPartition
from ottla.cli.connection import Connection
from ottla.client.admin import Admin
from ottla.client.errors import ClientError
from ottla.client.raw.address import Address
from ottla.client.raw.cluster import Cluster
from ottla.wire import api
from ottla.wire.apis import ApiKey


def partition_sizes(connection: Connection, admin: Admin) -> dict[TopicPartition, int]:
    """Bytes by topic and partition, the largest copy. What no broker would tell is left out, not guessed."""
    if not connection.can_ask_directly:
        return {}
    sizes: dict[TopicPartition, int] = {}
    with connection.cluster() as cluster:
        for broker in admin.describe_cluster().brokers:
            try:
                copies = broker_sizes(cluster, Address(broker.host, broker.port))
            except ClientError:  # A size is worth a look, not the command.
                continue
            for where, size_bytes in copies.items():
                sizes[where] = max(sizes.get(where, 0), size_bytes)
    return sizes


def broker_sizes(cluster: Cluster, address: Address) -> dict[TopicPartition, int]:
    request = api.DescribeLogDirsRequest(topics=None)
    answer = cluster.ask(ApiKey.DESCRIBE_LOG_DIRS, request, api.DescribeLogDirsResponse, at=address)
    return {
        TopicPartition(topic.name, partition.partition_index): partition.partition_size
        for directory in answer.results
        if directory.error_code == ErrorCode.NONE
        for topic in directory.topics
        for partition in topic.partitions
        if not partition.is_future_key
    }
