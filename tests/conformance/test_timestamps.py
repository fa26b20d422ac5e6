"""Times of records: CreateTime is the client's, LogAppendTime the broker's; both find offsets (scenes 4, 22)."""

import time

import pytest

from tests.conformance.client import Client, ClientError, Record
from tests.conformance.error_codes import INVALID_TIMESTAMP
from tests.conformance.registry import Can, can, clients_that
from tests.conformance.under_test import Keeper

HOUR_MS = 3_600_000
# Recent, or retention would take them away; not in order, since the third producer was late (scene 22).
START_MS = time.time_ns() // 1_000_000 - HOUR_MS
DELAYS_MS = [1000, 3000, 2000, 4000]
TIMES_MS = [START_MS + delay_ms for delay_ms in DELAYS_MS]


@pytest.fixture
def timed_topic(keeper: Keeper, topic: str) -> str:
    for time_ms in TIMES_MS:  # A batch each, so that indexes and headers tell them apart.
        keeper.produce(topic, [Record(value=b"v", timestamp=time_ms)])
    return topic


@clients_that(Can.WRITE, Can.SET_TIMESTAMP)
def test_scene_22_create_time_is_kept_and_offsets_go_by_arrival(client: Client, keeper: Keeper, topic: str) -> None:
    client.produce(topic, [Record(value=b"v", timestamp=time_ms) for time_ms in TIMES_MS])
    reader = client if can(client, Can.READ) else keeper
    found = reader.fetch(topic, count=len(TIMES_MS))
    assert [(one.offset, one.timestamp) for one in found] == list(enumerate(TIMES_MS))
    assert {one.timestamp_type for one in found} <= {"CreateTime", None}


@clients_that(Can.WRITE)
def test_log_append_time_is_the_brokers(client: Client, keeper: Keeper, topic_name: str) -> None:
    keeper.create(topic_name, configs={"message.timestamp.type": "LogAppendTime"})
    before_ms = time.time_ns() // 1_000_000
    sent_ms = TIMES_MS[0] if can(client, Can.SET_TIMESTAMP) else None
    stored = client.produce(topic_name, [Record(value=b"%d" % number, timestamp=sent_ms) for number in range(2)])
    after_ms = time.time_ns() // 1_000_000
    found = keeper.fetch(topic_name, count=2)
    assert [one.timestamp_type for one in found] == ["LogAppendTime"] * 2
    assert all(before_ms <= one.timestamp <= after_ms for one in found)
    assert [one.timestamp for one in stored] in ([one.timestamp for one in found], [None, None])  # kcat does not say.


@clients_that(Can.READ, Can.SHOW_TIMESTAMP_TYPE)
def test_readers_see_log_append_time(client: Client, keeper: Keeper, topic_name: str) -> None:
    keeper.create(topic_name, configs={"message.timestamp.type": "LogAppendTime"})
    keeper.produce(topic_name, [Record(value=b"v", timestamp=TIMES_MS[0])], compression="lz4")
    [found] = client.fetch(topic_name, count=1)
    assert found.timestamp_type == "LogAppendTime"
    assert found.timestamp > TIMES_MS[0]


@clients_that(Can.WRITE, Can.SET_TIMESTAMP)
def test_a_time_too_far_ahead_is_refused(client: Client, keeper: Keeper, topic: str) -> None:
    tomorrow_ms = time.time_ns() // 1_000_000 + 24 * HOUR_MS
    [refused] = client.attempt(topic, [Record(value=b"v", timestamp=tomorrow_ms)])
    assert isinstance(refused, ClientError)
    assert refused.code == INVALID_TIMESTAMP, refused
    assert keeper.locate(topic, "latest").offset == 0


@clients_that(Can.LIST_OFFSETS)
def test_earliest_and_latest(client: Client, timed_topic: str) -> None:
    assert client.locate(timed_topic, "earliest").offset == 0
    assert client.locate(timed_topic, "latest").offset == len(TIMES_MS)


@clients_that(Can.LIST_OFFSETS)
@pytest.mark.parametrize(
    ("delay_ms", "offset"), [(-HOUR_MS, 0), (1000, 0), (1001, 1), (2000, 1), (3000, 1), (3001, 3), (4000, 3)]
)
def test_scene_4_the_first_offset_at_or_after_a_time(
    client: Client, timed_topic: str, delay_ms: int, offset: int
) -> None:
    assert client.locate(timed_topic, START_MS + delay_ms).offset == offset


@clients_that(Can.LIST_OFFSETS)
def test_no_offset_after_the_last_time(client: Client, timed_topic: str) -> None:
    nothing = len(TIMES_MS) if client.name == "kafkajs" else -1  # kafkajs puts the end there itself.
    assert client.locate(timed_topic, TIMES_MS[-1] + 1).offset == nothing


@clients_that(Can.FIND_MAX_TIMESTAMP)
def test_the_record_with_the_greatest_time(client: Client, keeper: Keeper, timed_topic: str) -> None:
    found = client.locate(timed_topic, "max_timestamp")
    assert (found.offset, found.timestamp) == (3, TIMES_MS[3])
    keeper.produce(timed_topic, [Record(value=b"late", timestamp=TIMES_MS[0])])
    assert client.locate(timed_topic, "max_timestamp").offset == 3
