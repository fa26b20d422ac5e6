"""Reading by assignment, against librdkafka's mock broker."""

from itertools import islice

import pytest
from confluent_kafka import Producer

from ottla.cli.connection import Connection
from ottla.cli.reading import OffsetRange, last_records, offset_or_end, read, start_offsets, tail_ranges
from ottla.cli.record_format import ConsumedRecord
from ottla.cli.start_position import AtOffset, Beginning, End, StartPosition
from ottla.cli.topic_state import PartitionState
from ottla.client.admin import Admin

PARTITIONS = [
    PartitionState(partition=0, leader=1, replicas=(1,), isr=(1,), start_offset=10, end_offset=20),
    PartitionState(partition=1, leader=1, replicas=(1,), isr=(1,), start_offset=0, end_offset=5),
]


@pytest.fixture
def filled(mock_cluster: str) -> Connection:
    """Topic `filled`: at least ten records in each of partitions 0 and 1, value = partition:number."""
    producer = Producer({"bootstrap.servers": mock_cluster, "log_level": 0})
    for number in range(10):
        for partition in (0, 1):
            producer.produce("filled", f"{partition}:{number}", partition=partition, timestamp=1000 * number + 1)
    assert producer.flush(10) == 0
    return Connection(servers=mock_cluster)


@pytest.mark.parametrize(
    ("start", "offsets"),
    [
        (Beginning(), {0: 10, 1: 0}),
        (End(), {0: 20, 1: 5}),
        (AtOffset(12), {0: 12, 1: 5}),
        (AtOffset(3), {0: 10, 1: 3}),
    ],
)
def test_a_start_is_kept_within_what_a_partition_has(
    start: StartPosition, offsets: dict[int, int], mock_cluster: str
) -> None:
    admin = Admin(bootstrap_servers=mock_cluster)
    assert start_offsets(admin, "t", PARTITIONS, start) == offsets


def test_no_record_that_young_means_the_end() -> None:
    assert offset_or_end(-1, PARTITIONS[0]) == 20
    assert offset_or_end(13, PARTITIONS[0]) == 13


def test_a_bounded_reading_ends_by_itself_at_its_ends(filled: Connection) -> None:
    ranges = [OffsetRange(partition=0, start=2, end=5), OffsetRange(partition=1, start=9, end=10)]
    found = sorted((record.partition, record.offset) for record in read(filled, "filled", ranges, follow=False))
    assert found == [(0, 2), (0, 3), (0, 4), (1, 9)]


def test_an_empty_range_asks_nobody() -> None:
    nobody = Connection(servers="localhost:1")
    assert list(read(nobody, "filled", [OffsetRange(partition=0, start=4, end=4)], follow=False)) == []


def test_following_goes_on_past_the_end(filled: Connection) -> None:
    records = read(filled, "filled", [OffsetRange(partition=0, start=8, end=9)], follow=True)
    assert [record.offset for record in islice(records, 2)] == [8, 9]
    records.close()  # type: ignore[attr-defined]


def test_the_tail_is_the_last_by_time_over_all_partitions(filled: Connection) -> None:
    ranges = [OffsetRange(partition=partition, start=0, end=10) for partition in (0, 1)]
    narrowed = tail_ranges(ranges, 3)
    assert [(each.start, each.end) for each in narrowed] == [(7, 10), (7, 10)]
    last = last_records(read(filled, "filled", narrowed, follow=False), 3)
    assert [(record.partition, record.offset) for record in last] == [(1, 8), (0, 9), (1, 9)]


def test_the_tail_counts_records_without_a_timestamp_as_oldest() -> None:
    old = ConsumedRecord("t", 0, 5, None, None, b"", [])
    new = old._replace(partition=1, offset=0, timestamp_ms=7)
    assert last_records(iter([new, old]), 1) == [new]
