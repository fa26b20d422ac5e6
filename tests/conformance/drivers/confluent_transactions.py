"""The transactional words of confluent-kafka's driver."""

from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, IsolationLevel, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from tests.conformance.drivers.loop import KafkaRefusal

TIMEOUT_S = 30


class Transactions:
    """`producers` are the driver's open ones, by name; `metadata_of` asks a member for its group's metadata."""

    def __init__(
        self,
        bootstrap: str,
        admin: AdminClient,
        producers: dict[str, Producer],
        metadata_of: Callable[[str], Any],
    ) -> None:
        self._bootstrap = bootstrap
        self._admin = admin
        self._producers = producers
        self._metadata_of = metadata_of

    def operations(self) -> dict[str, Callable[..., Any]]:
        words = (self.open_transactional, self.begin, self.send_offsets, self.end)
        return {word.__name__: word for word in (*words, self.last_stable_offset, self.fetch_offset)}

    def open_transactional(
        self, producer: str, transactional_id: str, timeout_ms: int, bootstrap: str | None = None
    ) -> None:
        client = Producer(
            {
                "bootstrap.servers": bootstrap or self._bootstrap,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": timeout_ms,
                "message.timeout.ms": min(timeout_ms, TIMEOUT_S * 1000),
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": 100,
            }
        )
        client.init_transactions(TIMEOUT_S)
        self._producers[producer] = client

    def begin(self, producer: str) -> None:
        self._producers[producer].begin_transaction()

    def send_offsets(self, producer: str, group: str, offsets: list[dict[str, Any]], member: str | None = None) -> None:
        """With a member's metadata (KIP-447), or in the name of a group that it is no member of."""
        chosen = [TopicPartition(offset["topic"], offset["partition"], offset["offset"]) for offset in offsets]
        if member is not None:
            metadata = self._metadata_of(member)
        else:
            stranger = Consumer({"bootstrap.servers": self._bootstrap, "group.id": group})
            metadata = stranger.consumer_group_metadata()
            stranger.close()
        self._producers[producer].send_offsets_to_transaction(chosen, metadata, TIMEOUT_S)

    def end(self, producer: str, commit: bool) -> None:
        client = self._producers[producer]
        if commit:
            client.commit_transaction(TIMEOUT_S)
        else:
            client.abort_transaction(TIMEOUT_S)

    def last_stable_offset(self, topic: str, partition: int) -> int:
        asked = {TopicPartition(topic, partition): OffsetSpec.latest()}
        [future] = self._admin.list_offsets(asked, isolation_level=IsolationLevel.READ_COMMITTED).values()
        return int(future.result(TIMEOUT_S).offset)

    def fetch_offset(self, group: str, topic: str, partition: int, require_stable: bool) -> int:
        """OffsetFetch, asked once; a consumer of librdkafka's would ask until the offset is stable."""
        asked = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, partition)])
        [future] = self._admin.list_consumer_group_offsets([asked], require_stable=require_stable).values()
        [found] = future.result(TIMEOUT_S).topic_partitions
        if found.error is not None:
            raise KafkaRefusal(found.error.code(), found.error.str())
        return max(found.offset, -1)  # librdkafka has a number of its own for none.
