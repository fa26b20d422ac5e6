"""Where to write: leader and id of every partition of the topics that a producer writes to, as far as was asked last.

A topic that does not exist is asked for as producers do, so that a broker which creates topics by itself creates it.
"""

from collections.abc import Iterable
from typing import Final
from uuid import UUID

from ottla.base.errors import ErrorCode
from ottla.base.types import TopicPartition
from ottla.client.errors import coded_error
from ottla.client.raw.address import Address
from ottla.client.raw.cluster import Cluster, broker_addresses
from ottla.client.raw.connection import NO_CONNECTION
from ottla.client.raw.patience import patiently
from ottla.wire import api
from ottla.wire.apis import ApiKey

_PASSING: Final = frozenset(
    {
        NO_CONNECTION,
        ErrorCode.LEADER_NOT_AVAILABLE.name,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.name,  # It is being created.
        ErrorCode.REQUEST_TIMED_OUT.name,
    }
)


class TopicLeaders:
    def __init__(self, cluster: Cluster, *, timeout_s: float) -> None:
        self._cluster = cluster
        self._timeout_s = timeout_s
        self._counts: dict[str, int] = {}
        self._ids: dict[str, UUID] = {}
        self._leaders: dict[TopicPartition, Address] = {}

    def partition_count(self, topic: str) -> int:
        if topic not in self._counts:
            self.refresh([topic], timeout_s=self._timeout_s)
        return self._counts[topic]

    def topic_id(self, topic: str) -> UUID:
        return self._ids[topic]

    def leader(self, partition: TopicPartition) -> Address | None:
        """None where there is none now."""
        self.partition_count(partition.topic)
        return self._leaders.get(partition)

    def forget(self) -> None:
        """The next question is asked anew."""
        self._counts.clear()

    def refresh(self, topics: Iterable[str], *, timeout_s: float) -> None:
        asked = [api.MetadataRequest.MetadataRequestTopic(name=name) for name in topics]
        request = api.MetadataRequest(topics=asked, allow_auto_topic_creation=True)

        def ask() -> api.MetadataResponse:
            answer = self._cluster.ask(ApiKey.METADATA, request, api.MetadataResponse)
            for topic in answer.topics:
                if topic.error_code != ErrorCode.NONE:
                    raise coded_error(topic.error_code, f"looking for the topic {topic.name}")
            return answer

        answer = patiently(ask, passing=_PASSING, timeout_s=timeout_s)
        addresses = broker_addresses(answer)
        for topic in answer.topics:
            name = topic.name or ""
            self._counts[name] = len(topic.partitions)
            self._ids[name] = topic.topic_id
            for one in topic.partitions:
                partition = TopicPartition(name, one.partition_index)
                if one.leader_id in addresses:
                    self._leaders[partition] = addresses[one.leader_id]
                else:
                    self._leaders.pop(partition, None)
