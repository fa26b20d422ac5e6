"""The test's end of transactions: a transactional producer in some client's process, and what readers see of its work."""

import itertools
import os
from collections.abc import Sequence
from typing import Any, Final

from tests.conformance.client import Client, Record, Stored
from tests.conformance.error_codes import (
    INVALID_PRODUCER_EPOCH,
    LIBRDKAFKA_FATAL,
    LIBRDKAFKA_FENCED,
    PRODUCER_FENCED,
)

TIMEOUT_MS: Final = 60_000
NOTHING_WAIT_MS: Final = 700  # How long a reader that must find nothing looks.
_numbers = itertools.count(1)

# How the clients report that another producer has taken over.
FENCED: Final = {INVALID_PRODUCER_EPOCH, PRODUCER_FENCED, LIBRDKAFKA_FENCED, LIBRDKAFKA_FATAL}


def new_transactional_id() -> str:
    return f"transactional-{os.getpid()}-{next(_numbers)}"


class Transactional:
    def __init__(self, client: Client, transactional_id: str, **settings: Any) -> None:
        """Settings: timeout_ms, and bootstrap for a broker other than the client's own."""
        self.client = client
        self.transactional_id = transactional_id
        self._name = f"{transactional_id}-{next(_numbers)}"
        chosen = {"timeout_ms": TIMEOUT_MS, **settings}
        client.call("open_transactional", producer=self._name, transactional_id=transactional_id, **chosen)

    def begin(self) -> None:
        self.client.call("begin", producer=self._name)

    def write(self, topic: str, *values: bytes, partition: int = 0) -> list[Stored]:
        records = [Record(value=value, partition=partition) for value in values]
        return self.client.produce(topic, records, producer=self._name)

    def send_offsets(self, group: str, topic: str, offsets: dict[int, int], **metadata: Any) -> None:
        """In the group's name alone; or with `member`, a member's name; or with `generation` and `member_id`."""
        chosen = [{"topic": topic, "partition": index, "offset": offset} for index, offset in offsets.items()]
        self.client.call("send_offsets", producer=self._name, group=group, offsets=chosen, **metadata)

    def commit(self) -> None:
        self.client.call("end", producer=self._name, commit=True)

    def abort(self) -> None:
        self.client.call("end", producer=self._name, commit=False)

    def close(self) -> None:
        if self.client.is_running:
            self.client.call("close", name=self._name)


def committed_values(
    reader: Client, topic: str, *, count: int, partition: int = 0, **settings: Any
) -> list[bytes | None]:
    """What a read_committed consumer sees from the start, once it has seen `count` records."""
    found = reader.fetch(topic, count=count, partition=partition, isolation="read_committed", **settings)
    return [record.value for record in found]


def uncommitted_values(reader: Client, topic: str, *, count: int, partition: int = 0) -> list[bytes | None]:
    found = reader.fetch(topic, count=count, partition=partition, isolation="read_uncommitted")
    return [record.value for record in found]


def sees_nothing(reader: Client, topic: str, *, offset: int = 0, partition: int = 0) -> bool:
    settings: dict[str, Any] = {"partition": partition, "isolation": "read_committed", "wait_ms": NOTHING_WAIT_MS}
    return not reader.fetch(topic, count=1, offset=offset, **settings)


def last_stable_offset(admin: Client, topic: str, partition: int = 0) -> int:
    """ListOffsets with read_committed; of the clients, confluent-kafka's driver has the word."""
    return int(admin.call("last_stable_offset", topic=topic, partition=partition))


def values(prefix: str, count: int) -> Sequence[bytes]:
    return [f"{prefix}-{number}".encode() for number in range(count)]
