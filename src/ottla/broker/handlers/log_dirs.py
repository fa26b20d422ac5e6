"""DescribeLogDirs v1–5: each log directory with its partitions' sizes, its total and its free bytes."""

from typing import Final

from ottla.base.errors import ErrorCode
from ottla.broker.node import Node
from ottla.broker.request import Api, RequestContext
from ottla.replica.partition import Partition
from ottla.wire import api
from ottla.wire.apis import ApiKey


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


APIS: Final[dict[int, Api]] = {ApiKey.DESCRIBE_LOG_DIRS: Api(versions=(1, 5), handle=describe_log_dirs)}
