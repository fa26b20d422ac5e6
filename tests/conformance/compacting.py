"""A broker that compacts at once, and what its tests do with a compacted topic."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import ottla.testing
from tests.conformance.client import Client, Fetched, Record
from tests.conformance.waiting import eventually

SEGMENT_MS: Final = 100
CONFIGS: Final = {
    "cleanup.policy": "compact",
    "segment.ms": str(SEGMENT_MS),
    "min.cleanable.dirty.ratio": "0.001",
}
ROLLER: Final = b"roller"


@contextmanager
def compacting_broker() -> Iterator[ottla.testing.Broker]:
    with ottla.testing.broker(config={"log.cleaner.backoff.ms": 100}) as broker:
        yield broker


def seal(client: Client, topic: str) -> None:
    """Time alone rolls nothing: the next record does, and stays alone in its segment."""
    time.sleep(2 * SEGMENT_MS / 1000)
    client.produce(topic, [Record(key=ROLLER, value=b"")])


def read(client: Client, topic: str, count: int, **settings: object) -> list[Fetched]:
    """What is there of other keys than the roller's: no more than `count`, which a record more would show."""
    found = client.fetch(topic, count=count + 3, wait_ms=1500, **settings)
    return [record for record in found if record.key != ROLLER]


def eventually_compacted(client: Client, topic: str, offsets: list[int]) -> list[Fetched]:
    def compacted() -> list[Fetched]:
        found = read(client, topic, len(offsets))
        assert [record.offset for record in found] == offsets
        return found

    return eventually(compacted)
