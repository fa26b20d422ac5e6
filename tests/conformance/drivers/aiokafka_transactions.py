"""The transactional words of aiokafka's driver. It sends offsets in a group's name alone, without a member's metadata."""

from collections.abc import Callable
from typing import Any

from aiokafka import AIOKafkaProducer, TopicPartition


class Transactions:
    """`producers` are the driver's open ones, by name."""

    def __init__(self, bootstrap: str, producers: dict[str, AIOKafkaProducer]) -> None:
        self._bootstrap = bootstrap
        self._producers = producers

    def operations(self) -> dict[str, Callable[..., Any]]:
        return {word.__name__: word for word in (self.open_transactional, self.begin, self.send_offsets, self.end)}

    async def open_transactional(
        self, producer: str, transactional_id: str, timeout_ms: int, bootstrap: str | None = None
    ) -> None:
        client = AIOKafkaProducer(
            bootstrap_servers=bootstrap or self._bootstrap,
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
        )
        await client.start()  # Which asks for the producer id too.
        self._producers[producer] = client

    async def begin(self, producer: str) -> None:
        await self._producers[producer].begin_transaction()

    async def send_offsets(self, producer: str, group: str, offsets: list[dict[str, Any]]) -> None:
        chosen = {TopicPartition(offset["topic"], offset["partition"]): offset["offset"] for offset in offsets}
        await self._producers[producer].send_offsets_to_transaction(chosen, group)

    async def end(self, producer: str, commit: bool) -> None:
        client = self._producers[producer]
        await (client.commit_transaction() if commit else client.abort_transaction())
