"""What `ottla group` computes: lag, durations, where a reset goes."""

import time

import pytest
import typer
from confluent_kafka import Producer

from ottla.base.types import TopicPartition
from ottla.cli.connection import Connection
from ottla.cli.errors import Failure
from ottla.cli.group_reset import Bounds, partition_numbers, reset, shifted, timestamp_of, within
from ottla.cli.group_state import GroupState, PartitionLag, seconds_waiting
from ottla.cli.group_view import duration_text, lag_text
from ottla.client import GroupDescription

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0, "0 s"), (4.24, "4.2 s"), (200, "3 m 20 s"), (3_600, "1 h"), (18_060, "5 h 1 m"), (183_600, "2 d 3 h")],
)
def test_a_duration_has_two_units_at_most(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text


def lag(records: int | None, seconds: float | None) -> PartitionLag:
    return PartitionLag(partition=P0, committed=1, end=2, lag=records, lag_s=seconds, member=None)


def test_the_lag_of_a_group_is_the_sum_in_records_and_the_longest_wait() -> None:
    described = GroupDescription(group="g", state="Empty", type="classic", assignor="", coordinator=1, members=())
    state = GroupState(description=described, partitions=(lag(2, 5.0), lag(0, 0.0), lag(None, None)))
    assert lag_text(state) == "2 records, 5.0 s; unknown in 1 partition"


def test_the_wait_is_that_of_the_first_unread_record(mock_cluster: str) -> None:
    producer = Producer({"bootstrap.servers": mock_cluster, "log_level": 0})
    for age_s in (500, 300, 100):
        producer.produce("ages", b"v", partition=0, timestamp=round((time.time() - age_s) * 1000))
    assert producer.flush(10) == 0
    found = seconds_waiting(Connection(servers=mock_cluster), {TopicPartition("ages", 0): 1})
    assert 300 <= found[TopicPartition("ages", 0)] < 400
    assert seconds_waiting(Connection(servers="127.0.0.1:1"), {}) == {}


@pytest.mark.parametrize(("offset", "kept"), [(5, 10), (15, 15), (99, 20), (-1, 20)])
def test_an_offset_that_is_not_there_is_the_nearest_that_is(offset: int, kept: int) -> None:
    assert within(offset, Bounds(start=10, end=20)) == kept


def test_a_shift_starts_at_what_is_committed() -> None:
    assert shifted([P0, P1], {P0: 5, P1: 2}, None, -3) == {P0: 2, P1: 0}
    assert shifted([P0], {}, 7, None) == {P0: 7}
    with pytest.raises(Failure, match="t-1 has no committed offset to shift"):
        shifted([P0, P1], {P0: 5}, None, 1)


def test_a_group_to_reset_has_a_name() -> None:
    with pytest.raises(typer.BadParameter, match="a group has a name"):
        reset("", to_earliest=True)


def test_partitions_are_numbers() -> None:
    assert partition_numbers("t:0,2", "0,2") == {0, 2}
    with pytest.raises(typer.BadParameter, match="'t:a' is not TOPIC or TOPIC:0,1"):
        partition_numbers("t:a", "a")


def test_a_moment_is_a_time_or_a_while_ago() -> None:
    assert timestamp_of("@1763199000000", None) == 1763199000000
    ago_ms = timestamp_of(None, "1h")
    assert ago_ms is not None
    assert 3_590_000 < time.time() * 1000 - ago_ms < 3_700_000
    assert timestamp_of("@1", "1h") is None
    with pytest.raises(typer.BadParameter, match="no duration"):
        timestamp_of(None, "soon")
