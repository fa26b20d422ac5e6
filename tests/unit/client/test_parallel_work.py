"""Lanes: one record at a time and in order within, side by side without."""

from ottla.client import ConsumerRecord, Ordering, TimestampType, TopicPartition
from ottla.client.parallel_progress import PartitionProgress
from ottla.client.parallel_work import OrderedWork


def record(offset: int, key: object = None, partition: int = 0) -> ConsumerRecord:
    return ConsumerRecord("t", partition, offset, 0, TimestampType.CREATE_TIME, key, None, [], 3)


def started(work: OrderedWork) -> list[int]:
    """Offsets of what may run now."""
    found = []
    while (next_record := work.start_next()) is not None:
        found.append(next_record.offset)
    return found


def work_of(ordering: Ordering, *records: ConsumerRecord) -> OrderedWork:
    work = OrderedWork(ordering)
    for each in records:
        work.add(each)
    return work


def test_a_partition_has_one_record_at_work() -> None:
    work = work_of(Ordering.PARTITION, record(1), record(2), record(7, partition=1))
    assert started(work) == [1, 7]
    work.finish(record(1))
    assert started(work) == [2]


def test_keys_run_side_by_side_and_each_in_order() -> None:
    work = work_of(Ordering.KEY, record(1, "a"), record(2, "b"), record(3, "a"), record(4), record(5))
    assert started(work) == [1, 2, 4, 5]
    work.finish(record(2, "b"))
    assert started(work) == []
    work.finish(record(1, "a"))
    assert started(work) == [3]


def test_keys_may_be_what_no_dictionary_takes() -> None:
    assert started(work_of(Ordering.KEY, record(1, {"id": 1}), record(2, {"id": 2}), record(3, {"id": 1}))) == [1, 2]


def test_without_order_everything_runs() -> None:
    assert started(work_of(Ordering.UNORDERED, record(1, "a"), record(2, "a"))) == [1, 2]


def test_what_waits_is_dropped_and_what_runs_still_holds_its_lane() -> None:
    work = work_of(Ordering.KEY, record(1, "a"), record(2, "a"), record(3, "b", 1))
    assert work.start_next() == record(1, "a")
    work.drop_waiting([TopicPartition("t", 0)])
    assert (work.count, work.running_count([TopicPartition("t", 0)])) == (2, 1)
    work.add(record(1, "a"))
    assert started(work) == [3]
    work.finish(record(1, "a"))
    assert started(work) == [1]
    work.finish(record(1, "a"))
    work.finish(record(3, "b", 1))
    assert (work.count, work.running_count()) == (0, 0)


def test_a_lane_that_only_waited_is_gone_when_it_is_dropped() -> None:
    work = work_of(Ordering.PARTITION, record(1), record(2))
    work.drop_waiting([TopicPartition("t", 0)])
    assert (started(work), work.count) == ([], 0)
    work.add(record(1))
    assert started(work) == [1]


def test_only_a_finished_prefix_is_committed() -> None:
    progress = PartitionProgress()
    for offset in (3, 4, 9):
        progress.take(record(offset))
    progress.finish(record(4))
    assert progress.to_commit() is None
    progress.finish(record(3))
    committed = progress.to_commit()
    assert committed is not None
    assert (committed.offset, committed.leader_epoch) == (5, 3)
    progress.committed(committed)
    assert progress.to_commit() is None
    progress.finish(record(9))
    assert (position := progress.to_commit()) is not None and position.offset == 10
