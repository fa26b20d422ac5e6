"""The transactional words of kafka-python's driver."""

from collections.abc import Callable
from typing import Any

from kafka import KafkaProducer, TopicPartition
from kafka.structs import OffsetAndMetadata


class Transactions:
    """`producers` are the driver's open ones, by name; `metadata_of` asks a member for its group's metadata."""

    def __init__(self, bootstrap: str, producers: dict[str, KafkaProducer], metadata_of: Callable[[str], Any]) -> None:
        self._bootstrap = bootstrap
        self._producers = producers
        self._metadata_of = metadata_of

    def operations(self) -> dict[str, Callable[..., Any]]:
        return {word.__name__: word for word in (self.open_transactional, self.begin, self.send_offsets, self.end)}

    def open_transactional(
        self, producer: str, transactional_id: str, timeout_ms: int, bootstrap: str | None = None
    ) -> None:
        client = KafkaProducer(
            bootstrap_servers=bootstrap or self._bootstrap,
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            reconnect_backoff_max_ms=100,
        )
        client.init_transactions()
        self._producers[producer] = client

    def begin(self, producer: str) -> None:
        self._producers[producer].begin_transaction()

    def send_offsets(self, producer: str, group: str, offsets: list[dict[str, Any]], member: str | None = None) -> None:
        chosen = {
            TopicPartition(offset["topic"], offset["partition"]): OffsetAndMetadata(offset["offset"], "", -1)
            for offset in offsets
        }
        metadata = group if member is None else self._metadata_of(member)
        self._producers[producer].send_offsets_to_transaction(chosen, metadata)

    def end(self, producer: str, commit: bool) -> None:
        client = self._producers[producer]
        if commit:
            client.commit_transaction()
        else:
            client.abort_transaction()
