"""DescribeLogDirs v1–5 and AlterReplicaLogDirs v1–2: the log directories, what they hold, where a partition should lie.

A log directory is told with its partitions' sizes, its total and its free bytes. A partition stays where it is: to name
that directory is no change, to name another is refused (docs/GAPS.md). The response has no room for a reason, so the
log tells it.
"""

import logging
from typing import Final

from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.node import Node
from ottla.broker.request import Api, RequestContext
from ottla.replica.partition import Partition
from ottla.wire import api
from ottla.wire.apis import ApiKey

logger = logging.getLogger(__name__)


async def describe_log_dirs(
    node: Node, context: RequestContext, request: api.DescribeLogDirsRequest
) -> api.DescribeLogDirsResponse:
    wanted = None if request.topics is None else {topic.topic: set(topic.partitions) for topic in request.topics}
    response = api.DescribeLogDirsResponse()
    for directory in node.directories:
        result = api.DescribeLogDirsResponse.DescribeLogDirsResult(log_dir=directory.path)
        try:
            result.usable_bytes = await node.workers.run(node.disk.free_bytes, directory.path)
            result.total_bytes = await node.workers.run(node.disk.total_bytes, directory.path)
        except OSError:
            result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        by_topic: dict[str, list[Partition]] = {}
        for partition in node.partitions.in_directory(directory.path):
            topic, index = partition.topic_partition
            if wanted is None or index in wanted.get(topic, ()):
                by_topic.setdefault(topic, []).append(partition)
        result.topics = [
            api.DescribeLogDirsResponse.DescribeLogDirsTopic(
                name=topic,
                partitions=[
                    api.DescribeLogDirsResponse.DescribeLogDirsPartition(
                        partition_index=partition.topic_partition.partition,
                        partition_size=partition.log.size_bytes,
                        offset_lag=0,
                    )
                    for partition in partitions
                ],
            )
            for topic, partitions in sorted(by_topic.items())
        ]
        response.results.append(result)
    return response


async def alter_replica_log_dirs(
    node: Node, context: RequestContext, request: api.AlterReplicaLogDirsRequest
) -> api.AlterReplicaLogDirsResponse:
    by_topic: dict[str, list[api.AlterReplicaLogDirsResponse.AlterReplicaLogDirPartitionResult]] = {}
    for directory in request.dirs:
        for topic in directory.topics:
            for index in topic.partitions:
                result = api.AlterReplicaLogDirsResponse.AlterReplicaLogDirPartitionResult(partition_index=index)
                try:
                    _check_directory(node, directory.path, topic.name, index)
                except ApiError as error:
                    logger.warning("partition %s-%d stays where it is: %s", topic.name, index, error.message)
                    result.error_code = error.code
                by_topic.setdefault(topic.name, []).append(result)
    return api.AlterReplicaLogDirsResponse(
        results=[
            api.AlterReplicaLogDirsResponse.AlterReplicaLogDirTopicResult(topic_name=topic, partitions=partitions)
            for topic, partitions in by_topic.items()
        ]
    )


def _check_directory(node: Node, path: str, topic: str, index: int) -> None:
    """Returns where the partition lies in the directory already."""
    if all(directory.path != path for directory in node.directories):
        raise ApiError(ErrorCode.LOG_DIR_NOT_FOUND, f"{path} is not a log directory of this node")
    partition = node.partitions.find(topic, index)  # Whoever leads it.
    if partition is None:
        raise node.partitions.refusal(topic, index)
    if partition.storage.path != path:
        # Not REPLICA_NOT_AVAILABLE or KAFKA_STORAGE_ERROR: clients would try again.
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, "partitions do not move between log directories yet")


APIS: Final[dict[int, Api]] = {
    ApiKey.DESCRIBE_LOG_DIRS: Api(versions=(1, 5), handle=describe_log_dirs),
    ApiKey.ALTER_REPLICA_LOG_DIRS: Api(versions=(1, 2), handle=alter_replica_log_dirs),
}
