"""Records whose key or value is not what its format says: an error, or a letter to another topic.

A dead letter is the record as it was, with headers that say where it comes from and what is wrong; they have the names
that Kafka Connect gives them, so that tools know them. It is acknowledged before the row is dropped. A task that is run
again sends its letters again: at least once.
"""

from collections.abc import Mapping
from typing import Final

from ottla.base.types import TopicPartition
from ottla.client import Producer
from ottla.client.raw.security import Security
from ottla.client.raw.security_options import sdk_options
from ottla.spark.record_columns import RecordColumns
from ottla.spark.source_options import SourceOptions

HEADER_PREFIX: Final = "__connect.errors."

_producers: dict[tuple[str, Security], Producer] = {}
"""Workers are used again for further tasks, and so are their producers."""


class BadRecord(Exception):
    """A record that cannot be read, in a query that wants to know."""


class DeadLetters:
    """Of one partition; connects with the first letter."""

    def __init__(self, options: SourceOptions, partition: TopicPartition) -> None:
        self._reached_by = options.bootstrap_servers, options.security
        self._topic = options.dead_letter_topic
        self._timeout_s = options.timeout_seconds
        self._partition = partition

    def send(self, records: RecordColumns, reasons: Mapping[int, str]) -> None:
        """Returns when all are acknowledged; `ClientError` when one is not."""
        assert records.headers is not None
        deliveries = []
        for row, reason in sorted(reasons.items()):
            origin = {
                "topic": self._partition.topic,
                "partition": self._partition.partition,
                "offset": records.offsets[row],
                "exception.message": reason,
            }
            headers = [(one["key"], one["value"]) for one in records.headers[row].as_py() or ()]
            headers += [(HEADER_PREFIX + name, str(value).encode()) for name, value in origin.items()]
            deliveries.append(
                self._producer().send(
                    self._topic, records.values[row].as_py(), records.keys[row].as_py(), headers=headers
                )
            )
        for delivery in deliveries:
            delivery.get(self._timeout_s)

    def _producer(self) -> Producer:
        if self._reached_by not in _producers:
            servers, security = self._reached_by
            _producers[self._reached_by] = Producer({"bootstrap.servers": servers, **sdk_options(security)})
        return _producers[self._reached_by]
