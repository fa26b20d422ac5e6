"""Sizes on disk, as brokers tell them (DescribeLogDirs), one copy of each partition counted."""

from ottla.base.errors import ErrorCode
from ottla.base.types import TopicPartition
from ottla.cli.broker_socket import BrokerSocket, is_plaintext
from ottla.cli.connection import Address, Connection
from ottla.cli.errors import Failure
from ottla.client.admin import Admin
from ottla.wire import api
from ottla.wire.apis import ApiKey


def partition_sizes(connection: Connection, admin: Admin) -> dict[TopicPartition, int]:
    """Bytes by topic and partition, the largest copy. What no broker would tell is left out, not guessed."""
    if not is_plaintext(connection):
        return {}
    sizes: dict[TopicPartition, int] = {}
    for broker in admin.describe_cluster().brokers:
        try:
            copies = broker_sizes(Address(broker.host, broker.port))
        except Failure:  # A size is worth a look, not the command.
            continue
        for where, size_bytes in copies.items():
            sizes[where] = max(sizes.get(where, 0), size_bytes)
    return sizes


def broker_sizes(address: Address) -> dict[TopicPartition, int]:
    with BrokerSocket(address) as broker:
        request = api.DescribeLogDirsRequest(topics=None)
        answer = broker.ask(ApiKey.DESCRIBE_LOG_DIRS, request, api.DescribeLogDirsResponse)
    return {
        TopicPartition(topic.name, partition.partition_index): partition.partition_size
        for directory in answer.results
        if directory.error_code == ErrorCode.NONE
        for topic in directory.topics
        for partition in topic.partitions
        if not partition.is_future_key
    }
