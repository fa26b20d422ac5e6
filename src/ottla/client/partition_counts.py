"""How many partitions a topic has: asked for once, remembered for `metadata.max.age.ms`."""

import time
from typing import Final

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException

from ottla.client.errors import ClientError, client_error
from ottla.client.options import Settings

RETRY_S: Final = 0.05
# What a topic answers while it is being created.
TRANSIENT: Final = frozenset({KafkaError.LEADER_NOT_AVAILABLE, KafkaError.UNKNOWN_TOPIC_OR_PART})


class PartitionCounts:
    def __init__(self, kafka: confluent_kafka.Producer, chosen: Settings) -> None:
        self._kafka = kafka
        self._max_age_s = chosen.integer("metadata.max.age.ms") / 1000
        self._max_block_s = chosen.integer("max.block.ms") / 1000
        self._known: dict[str, tuple[int, float]] = {}  # topic -> (count, good until)

    def is_known(self, topic: str) -> bool:
        known = self._known.get(topic)
        return known is not None and time.monotonic() < known[1]

    def of(self, topic: str) -> int:
        if not self.is_known(topic):
            self._known[topic] = (self._ask(topic), time.monotonic() + self._max_age_s)
        return self._known[topic][0]

    def _ask(self, topic: str) -> int:
        deadline = time.monotonic() + self._max_block_s
        while True:
            try:
                answer = self._kafka.list_topics(topic, timeout=max(RETRY_S, deadline - time.monotonic()))
            except KafkaException as error:
                raise client_error(error, f"asking for the partitions of {topic}") from None
            found = answer.topics[topic]
            if found.error is None and found.partitions:
                return len(found.partitions)
            if found.error is not None and found.error.code() not in TRANSIENT:
                raise client_error(found.error, f"asking for the partitions of {topic}")
            if time.monotonic() >= deadline:
                raise ClientError("UNKNOWN_TOPIC_OR_PARTITION", f"{topic} did not appear within max.block.ms")
            time.sleep(RETRY_S)
