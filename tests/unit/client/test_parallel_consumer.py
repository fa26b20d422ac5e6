"""The parallel consumer with a played consumer: real threads, and every wait is for something that must happen."""

import threading
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from ottla.client import (
    ClientError,
    ConfigError,
    ConsumerRecord,
    ConsumerRecords,
    HandlerFailed,
    OffsetAndMetadata,
    ParallelConsumer,
    Retries,
    TimestampType,
    TopicPartition,
)
from ottla.client.records import Partitions, partition_list
from ottla.client.subscriptions import RebalanceListener

WAIT_S = 20
P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
ONCE = Retries(attempts=1)

Step = Callable[[], list[ConsumerRecord]]


def record(offset: int, key: object = None, partition: int = 0) -> ConsumerRecord:
    return ConsumerRecord("t", partition, offset, 0, TimestampType.CREATE_TIME, key, None, [], -1)


class PlayedConsumer:
    """Each poll takes the next step: a batch of records, or a function that does something and gives one."""

    commits_itself = False

    def __init__(self, *steps: list[ConsumerRecord] | Step) -> None:
        self.steps = list(steps)
        self.commits: list[dict[TopicPartition, int]] = []
        self.paused: set[TopicPartition] = set()
        self.pauses = 0
        self.asked: list[int] = []
        self.commit_error: ClientError | None = None
        self.owned = [P0, P1]

    def subscribe(self, topics: str | list[str], *, on_revoke: RebalanceListener, on_lost: RebalanceListener) -> None:
        self.on_revoke, self.on_lost = on_revoke, on_lost

    def poll(self, timeout_ms: float, max_records: int) -> ConsumerRecords:
        self.asked.append(max_records)
        if not self.steps or self.paused:
            threading.Event().wait(timeout_ms / 10_000)
            return ConsumerRecords([])
        step = self.steps.pop(0)
        return ConsumerRecords(step() if callable(step) else step)

    def assignment(self) -> list[TopicPartition]:
        return self.owned

    def pause(self, partitions: Partitions) -> None:
        self.pauses += 1
        self.paused |= set(partition_list(partitions))

    def resume(self, partitions: Partitions) -> None:
        self.paused -= set(partition_list(partitions))

    def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], *, timeout_s: float) -> None:
        if self.commit_error is not None:
            raise self.commit_error
        self.commits.append({partition: position.offset for partition, position in offsets.items()})

    @property
    def committed(self) -> dict[TopicPartition, int]:
        merged: dict[TopicPartition, int] = {}
        for commit in self.commits:
            merged |= commit
        return merged


class Handled:
    """A handler that notes what it got and stops the run after so many."""

    def __init__(self, stop_after: int) -> None:
        self.offsets: list[int] = []
        self.run: ParallelConsumer | None = None
        self._stop_after = stop_after
        self._lock = threading.Lock()

    def __call__(self, given: ConsumerRecord) -> None:
        with self._lock:
            self.offsets.append(given.offset)
            if len(self.offsets) == self._stop_after:
                assert self.run is not None
                self.run.stop()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"workers": 0}, "workers=0"),
        ({"in_flight_max": 0}, "in_flight_max=0"),
        ({"retries": Retries(attempts=0)}, "attempts=0"),
        ({"ordering": "nope"}, "one of partition, key, unordered"),
    ],
)
def test_options_with_which_nothing_would_be_handled_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        ParallelConsumer(PlayedConsumer(), "t", print, **options)


def test_a_consumer_that_commits_by_itself_is_refused() -> None:
    consumer = PlayedConsumer()
    consumer.commits_itself = True
    with pytest.raises(ConfigError, match="leave it out"):
        ParallelConsumer(consumer, "t", print)


def test_all_is_handled_and_committed() -> None:
    handled = Handled(stop_after=5)
    consumer = PlayedConsumer([record(0), record(1), record(0, partition=1)], [record(2), record(1, partition=1)])
    handled.run = ParallelConsumer(consumer, "t", handled, workers=3)
    handled.run.run()
    assert sorted(handled.offsets) == [0, 0, 1, 1, 2]
    assert consumer.committed == {P0: 3, P1: 2}


def test_a_key_is_handled_in_order_while_others_overtake() -> None:
    slow, order = threading.Event(), []

    def handle(given: ConsumerRecord) -> None:
        if given.offset == 0:
            assert slow.wait(WAIT_S)
        order.append((given.key, given.offset))
        if given.offset == 3:
            slow.set()
        if given.offset == 2:
            run.stop()

    consumer = PlayedConsumer([record(0, "a"), record(1, "b"), record(2, "a"), record(3, "b")])
    run = ParallelConsumer(consumer, "t", handle, ordering="key", workers=4)
    run.run()
    assert order == [("b", 1), ("b", 3), ("a", 0), ("a", 2)]
    assert consumer.committed == {P0: 4}


def test_what_is_not_done_is_not_committed() -> None:
    started, release = threading.Event(), threading.Event()

    def handle(given: ConsumerRecord) -> None:
        if given.offset == 1:
            started.set()
            assert release.wait(WAIT_S)

    def check() -> list[ConsumerRecord]:
        assert started.wait(WAIT_S)
        run._commit([P0])
        seen.append(dict(consumer.committed))
        run.stop()
        release.set()
        return []

    seen: list[dict[TopicPartition, int]] = []
    consumer = PlayedConsumer([record(0), record(1, "x"), record(2)], check)
    run = ParallelConsumer(consumer, "t", handle, workers=1)
    run.run()
    assert seen == [{P0: 1}]
    assert consumer.committed[P0] == 2


def test_too_much_in_flight_pauses_until_half_is_done() -> None:
    release = threading.Event()
    handled = Handled(stop_after=6)

    def handle(given: ConsumerRecord) -> None:
        assert release.wait(WAIT_S)
        handled(given)

    class Watched(PlayedConsumer):
        def pause(self, partitions: Partitions) -> None:
            super().pause(partitions)
            assert self.paused == {P0, P1}
            release.set()

    consumer = Watched([record(number) for number in range(4)], [record(4), record(5)])
    handled.run = ParallelConsumer(consumer, "t", handle, in_flight_max=4, workers=2)
    handled.run.run()
    assert consumer.pauses >= 1
    assert consumer.asked[0] == 4
    assert max(consumer.asked) == 4
    assert sorted(handled.offsets) == list(range(6))


def test_a_failing_handler_is_tried_again_and_blocks_its_lane_only() -> None:
    failures = iter([ValueError("once"), ValueError("twice")])
    handled = Handled(stop_after=2)

    def handle(given: ConsumerRecord) -> None:
        if given.offset == 0:
            for failure in failures:
                raise failure
        handled(given)

    consumer = PlayedConsumer([record(0), record(1)])
    handled.run = ParallelConsumer(consumer, "t", handle, retries=Retries(attempts=3, backoff_s=0))
    handled.run.run()
    assert handled.offsets == [0, 1]
    assert consumer.committed == {P0: 2}


def test_a_record_that_keeps_failing_ends_the_run_before_it() -> None:
    def handle(given: ConsumerRecord) -> None:
        if given.offset == 1:
            raise ValueError("poison")

    consumer = PlayedConsumer([record(0), record(1), record(2)])
    with pytest.raises(HandlerFailed, match=r"t-0@1: ValueError: poison.*dead_letter") as caught:
        ParallelConsumer(consumer, "t", handle, retries=ONCE).run()
    assert caught.value.record.offset == 1
    assert consumer.committed == {P0: 1}


def test_a_dead_letter_counts_as_done_unless_that_fails_too() -> None:
    letters: list[tuple[int, str]] = []
    handled = Handled(stop_after=2)

    def handle(given: ConsumerRecord) -> None:
        if given.offset == 1:
            raise ValueError("poison")
        handled(given)

    def bury(given: ConsumerRecord, error: Exception) -> None:
        letters.append((given.offset, str(error)))

    consumer = PlayedConsumer([record(0), record(1), record(2)])
    handled.run = ParallelConsumer(consumer, "t", handle, retries=ONCE, dead_letter=bury)
    handled.run.run()
    assert letters == [(1, "poison")]
    assert consumer.committed == {P0: 3}

    def no_grave(given: ConsumerRecord, error: Exception) -> None:
        raise OSError("no room")

    consumer = PlayedConsumer([record(1)])
    with pytest.raises(OSError, match="no room"):
        ParallelConsumer(consumer, "t", handle, retries=ONCE, dead_letter=no_grave).run()
    assert consumer.committed == {}


def test_a_revoked_partition_ends_what_runs_drops_what_waits_and_commits() -> None:
    started, release, seen = threading.Event(), threading.Event(), []

    def handle(given: ConsumerRecord) -> None:
        started.set()
        assert release.wait(WAIT_S)
        seen.append((given.partition, given.offset))
        if given.partition == 1:
            run.stop()

    def revoke() -> list[ConsumerRecord]:
        assert started.wait(WAIT_S)
        threading.Timer(0.05, release.set).start()
        consumer.on_revoke([P0])
        assert consumer.committed == {P0: 1}
        return [record(5, partition=1)]

    consumer = PlayedConsumer([record(0), record(1)], revoke)
    run = ParallelConsumer(consumer, "t", handle, workers=1)
    run.run()
    assert seen == [(0, 0), (1, 5)]
    assert consumer.committed == {P0: 1, P1: 6}


def test_a_lost_partition_is_not_committed_and_its_late_handler_changes_nothing() -> None:
    started, release = threading.Event(), threading.Event()
    handled = Handled(stop_after=2)

    def handle(given: ConsumerRecord) -> None:
        started.set()
        assert release.wait(WAIT_S)
        handled(given)

    def lose() -> list[ConsumerRecord]:
        assert started.wait(WAIT_S)
        consumer.on_lost([P0])
        release.set()
        return [record(9, partition=1)]

    consumer = PlayedConsumer([record(0)], lose)
    handled.run = ParallelConsumer(consumer, "t", handle, workers=1)
    handled.run.run()
    assert handled.offsets == [0, 9]
    assert consumer.committed == {P1: 10}


def test_a_commit_that_a_rebalance_refuses_is_tried_again_another_refusal_ends_the_run() -> None:
    handled = Handled(stop_after=1)
    consumer = PlayedConsumer([record(0)])
    consumer.commit_error = ClientError("REBALANCE_IN_PROGRESS", "later")
    handled.run = ParallelConsumer(consumer, "t", handled)
    handled.run.run()
    consumer.commit_error = None
    consumer.on_revoke([P0])
    assert consumer.committed == {P0: 1}

    handled = Handled(stop_after=1)
    consumer = PlayedConsumer([record(0)])
    consumer.commit_error = ClientError("GROUP_AUTHORIZATION_FAILED", "no")
    handled.run = ParallelConsumer(consumer, "t", handled)
    with pytest.raises(ClientError, match="GROUP_AUTHORIZATION_FAILED"):
        handled.run.run()


def test_an_interrupt_of_the_poll_commits_what_is_done() -> None:
    done = threading.Event()

    def interrupt() -> list[ConsumerRecord]:
        assert done.wait(WAIT_S)
        raise KeyboardInterrupt

    consumer = PlayedConsumer([record(0)], interrupt)
    with pytest.raises(KeyboardInterrupt):
        ParallelConsumer(consumer, "t", lambda _: done.set()).run()
    assert consumer.committed == {P0: 1}
