"""Scenes 6 and 7 through real clients: retention lowered on a live topic takes whole segments, readers notice."""

import time
from collections.abc import Iterator

import pytest

import ottla.testing
from tests.conformance.client import Client, ClientError, Record
from tests.conformance.error_codes import LIBRDKAFKA_RESET_REFUSED, OFFSET_OUT_OF_RANGE
from tests.conformance.registry import Can, clients_that, start
from tests.conformance.waiting import eventually

pytestmark = pytest.mark.needs_ottla

CHECK_INTERVAL_MS = 200
HOUR_MS = 3_600_000
VALUE = b"x" * 100_000
OLD_COUNT, NEW_COUNT = 25, 3  # The old ones fill two segments of 1 MiB and begin a third.


@pytest.fixture(scope="module")
def tidy_broker() -> Iterator[ottla.testing.Broker]:
    with ottla.testing.broker(config={"log.retention.check.interval.ms": CHECK_INTERVAL_MS}) as broker:
        yield broker


@pytest.fixture(scope="module")
def tidy_keeper(tidy_broker: ottla.testing.Broker) -> Iterator[Client]:
    with start("java", tidy_broker.bootstrap_servers) as client:
        yield client


@clients_that(Can.READ)
def test_scene_6_a_reader_away_longer_than_retention(
    client: Client, tidy_broker: ottla.testing.Broker, tidy_keeper: Client, topic_name: str
) -> None:
    tidy_keeper.create_topic(topic_name, configs={"segment.bytes": str(1 << 20), "retention.ms": "-1"})
    two_hours_ago_ms = time.time_ns() // 1_000_000 - 2 * HOUR_MS
    tidy_keeper.produce(topic_name, [Record(value=VALUE, timestamp=two_hours_ago_ms)] * OLD_COUNT)
    tidy_keeper.produce(topic_name, [Record(value=b"new")] * NEW_COUNT)
    assert tidy_keeper.locate(topic_name, "earliest").offset == 0

    tidy_keeper.change_topic_configs(topic_name, ("SET", "retention.ms", str(HOUR_MS)))

    def moved_start() -> int:
        earliest = tidy_keeper.locate(topic_name, "earliest").offset
        assert earliest > 0
        return earliest

    log_start = eventually(moved_start)
    assert log_start < OLD_COUNT  # The segment that the new records are in stays whole.
    bootstrap = tidy_broker.bootstrap_servers
    with pytest.raises(ClientError) as refused:
        client.fetch(topic_name, offset=0, count=1, reset="none", bootstrap=bootstrap)
    assert refused.value.code in (OFFSET_OUT_OF_RANGE, LIBRDKAFKA_RESET_REFUSED), refused.value
    count = OLD_COUNT + NEW_COUNT - log_start
    found = client.fetch(topic_name, offset=0, count=count, reset="earliest", bootstrap=bootstrap)
    assert [record.offset for record in found] == list(range(log_start, OLD_COUNT + NEW_COUNT))
