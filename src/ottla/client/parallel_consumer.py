"""Handlers in parallel, order kept, and nothing committed that is not done.

A thread pool behind a plain consumer breaks both promises: records of a partition overtake each other, and a commit
covers records that are still being worked on. Here a lane (a partition, or a key within it) has one record at work at
a time, and a partition's commit stops before its first unfinished record. So every record is handled at least once.

`run` is the consumer's thread: it polls, so that the member stays in its group however slow handlers are, pauses when
`in_flight_max` records are taken and not done, and commits. Workers only run handlers. When partitions are revoked,
records that wait are dropped, those at work are awaited (at most `revoke_wait_s`), and what is done is committed.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from ottla.base.types import TopicPartition
from ottla.client.errors import ClientError, ConfigError
from ottla.client.parallel_progress import PartitionProgress
from ottla.client.parallel_work import OrderedWork, Ordering
from ottla.client.records import ConsumerRecord, ConsumerRecords, OffsetAndMetadata, Partitions
from ottla.client.subscriptions import RebalanceListener

logger = logging.getLogger(__name__)

Handler: TypeAlias = Callable[[ConsumerRecord], object]
DeadLetter: TypeAlias = Callable[[ConsumerRecord, Exception], object]

POLL_MS: Final = 100.0  # Longest until a failure, a stop or a due commit is noticed.
BACKOFF_MAX_S: Final = 30.0
# The group goes on without this member's commit: whoever owns the partition now handles those records again.
COMMITS_FORGONE: Final = frozenset(
    {"REBALANCE_IN_PROGRESS", "ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID", "_ASSIGNMENT_LOST"}
)


class GroupConsumer(Protocol):
    """What of `Consumer` is used, so that a test can play it."""

    @property
    def commits_itself(self) -> bool: ...
    def subscribe(
        self, topics: str | list[str], *, on_revoke: RebalanceListener, on_lost: RebalanceListener
    ) -> None: ...
    def poll(self, timeout_ms: float, max_records: int) -> ConsumerRecords: ...
    def assignment(self) -> list[TopicPartition]: ...
    def pause(self, partitions: Partitions) -> None: ...
    def resume(self, partitions: Partitions) -> None: ...
    def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], *, timeout_s: float) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    """How often a failing handler is tried, and how long to wait in between: doubled each time."""

    attempts: int = 3
    backoff_s: float = 0.5


DEFAULT_RETRIES: Final = Retries()


class HandlerFailed(ClientError):
    """A handler gave up on `record`; nothing from it on is committed in its partition."""

    def __init__(self, record: ConsumerRecord, cause: Exception) -> None:
        super().__init__(
            "HANDLER_FAILED",
            f"{record.topic_partition}@{record.offset}: {type(cause).__name__}: {cause}. Fix the handler, or give the "
            "consumer a dead_letter callback: a record that it accepts counts as done",
        )
        self.record = record


class ParallelConsumer:
    """`ParallelConsumer(consumer, "orders", handle, ordering="key", workers=16).run()`.

    The consumer stays the caller's to close. `dead_letter` gets (record, error) of what failed `retries.attempts`
    times, in a worker's thread; without it the first such record ends `run` with `HandlerFailed`.
    """

    def __init__(
        self,
        consumer: GroupConsumer,
        topics: str | Iterable[str],
        handler: Handler,
        *,
        ordering: Ordering | str = Ordering.PARTITION,
        workers: int = 16,
        in_flight_max: int = 1_000,
        retries: Retries = DEFAULT_RETRIES,
        dead_letter: DeadLetter | None = None,
        commit_interval_s: float = 1.0,
        revoke_wait_s: float = 30.0,
    ) -> None:
        if consumer.commits_itself:
            raise ConfigError("enable.auto.commit=true would commit records that no handler has finished: leave it out")
        if ordering not in (known := [one.value for one in Ordering]):
            raise ConfigError(f"ordering is one of {', '.join(known)}, not {ordering!r}")
        for name, number in (("workers", workers), ("in_flight_max", in_flight_max), ("attempts", retries.attempts)):
            if number < 1:
                raise ConfigError(f"{name}={number}: without one nothing would ever be handled")
        self._consumer = consumer
        self._topics = topics if isinstance(topics, str) else list(topics)
        self._handler = handler
        self._retries = retries
        self._dead_letter = dead_letter
        self._in_flight_max = in_flight_max
        self._commit_interval_s = commit_interval_s
        self._revoke_wait_s = revoke_wait_s
        self._work = OrderedWork(Ordering(ordering))
        self._progress: dict[TopicPartition, PartitionProgress] = {}
        self._failure: BaseException | None = None
        self._paused: set[TopicPartition] = set()
        self._stopping = threading.Event()
        self._changed = threading.Condition()  # guards all of the above that workers touch, and tells of changes
        self._workers = [
            threading.Thread(target=self._serve, name=f"ottla-parallel-{number}", daemon=True)
            for number in range(workers)
        ]

    def stop(self) -> None:
        """From any thread, a handler's too: `run` ends when the handlers at work have returned and are committed."""
        with self._changed:
            self._stopping.set()
            self._changed.notify_all()

    def run(self) -> None:
        """Until `stop`, a failure, or Ctrl-C. Once only."""
        self._consumer.subscribe(self._topics, on_revoke=self._on_revoke, on_lost=self._on_lost)
        for worker in self._workers:
            worker.start()
        try:
            self._poll_until_stopped()
        finally:
            self.stop()
            for worker in self._workers:
                worker.join()
            self._commit(list(self._progress))
        if self._failure is not None:
            raise self._failure

    def _poll_until_stopped(self) -> None:
        commit_due = time.monotonic() + self._commit_interval_s
        while not self._stopping.is_set():
            room = self._regulate()
            # While paused, a poll returns nothing but keeps the membership and runs the rebalance listeners.
            self._take(self._consumer.poll(0 if self._paused else POLL_MS, max_records=max(1, room)))
            if time.monotonic() >= commit_due:
                self._commit(list(self._progress))
                commit_due = time.monotonic() + self._commit_interval_s

    def _regulate(self) -> int:
        """Pauses when full, resumes when half of it is done; returns how many records may be taken."""
        with self._changed:
            if self._paused:
                self._changed.wait_for(self._may_resume, timeout=POLL_MS / 1000)
            room = self._in_flight_max - self._work.count
            wants_pause = room <= 0 or (bool(self._paused) and not self._may_resume())
        if wants_pause:
            added = set(self._consumer.assignment()) - self._paused
            if added:
                self._consumer.pause(sorted(added))
                self._paused |= added
        elif self._paused:
            self._consumer.resume(sorted(self._paused))
            self._paused.clear()
        return room

    def _may_resume(self) -> bool:
        return self._stopping.is_set() or self._work.count <= self._in_flight_max // 2

    def _take(self, records: ConsumerRecords) -> None:
        with self._changed:
            for record in records:
                self._progress.setdefault(record.topic_partition, PartitionProgress()).take(record)
                self._work.add(record)
            if records:
                self._changed.notify_all()

    # Workers

    def _serve(self) -> None:
        while (started := self._wait_for_record()) is not None:
            record, progress = started
            is_done = False
            try:
                is_done = self._handle(record)
            except BaseException as error:
                self._fail(record, error)
            with self._changed:
                self._work.finish(record)
                if is_done:
                    progress.finish(record)  # Nobody's any more, where the partition was revoked.
                self._changed.notify_all()

    def _wait_for_record(self) -> tuple[ConsumerRecord, PartitionProgress] | None:
        with self._changed:
            while not self._stopping.is_set():
                record = self._work.start_next()
                if record is not None:
                    return record, self._progress[record.topic_partition]
                self._changed.wait()
        return None

    def _handle(self, record: ConsumerRecord) -> bool:
        """Whether the record is done: not when stopped between two attempts. A record given up raises."""
        backoff_s = self._retries.backoff_s
        for attempts_left in reversed(range(self._retries.attempts)):
            try:
                self._handler(record)
                return True
            except Exception as error:
                logger.warning(
                    "%s@%d: %r, %d attempts left", record.topic_partition, record.offset, error, attempts_left
                )
                if not attempts_left:
                    self._give_up(record, error)
                    return True
            if self._stopping.wait(backoff_s):
                break
            backoff_s = min(2 * backoff_s, BACKOFF_MAX_S)
        return False

    def _give_up(self, record: ConsumerRecord, error: Exception) -> None:
        if self._dead_letter is None:
            raise HandlerFailed(record, error) from error
        self._dead_letter(record, error)

    def _fail(self, record: ConsumerRecord, error: BaseException) -> None:
        logger.error("%s@%d failed: %r", record.topic_partition, record.offset, error)
        with self._changed:
            self._failure = self._failure or error
        self.stop()

    # Rebalances, inside of poll()

    def _on_revoke(self, partitions: list[TopicPartition]) -> None:
        with self._changed:
            self._work.drop_waiting(partitions)
            idle = self._changed.wait_for(lambda: not self._work.running_count(partitions), timeout=self._revoke_wait_s)
        if not idle:
            logger.warning("handlers still work on revoked partitions: their records will be handled again elsewhere")
        self._commit(partitions)
        self._forget(partitions)

    def _on_lost(self, partitions: list[TopicPartition]) -> None:
        with self._changed:
            self._work.drop_waiting(partitions)
        self._forget(partitions)

    def _forget(self, partitions: list[TopicPartition]) -> None:
        self._paused.difference_update(partitions)
        with self._changed:
            for partition in partitions:
                self._progress.pop(partition, None)

    def _commit(self, partitions: list[TopicPartition]) -> None:
        with self._changed:
            known = {each: self._progress[each] for each in partitions if each in self._progress}
            offsets = {each: position for each, progress in known.items() if (position := progress.to_commit())}
        if not offsets:
            return
        try:
            self._consumer.commit(offsets, timeout_s=0)  # We try again by ourselves.
        except ClientError as error:
            if error.code not in COMMITS_FORGONE and not error.retriable:
                raise
            logger.warning("not committed, to be tried again: %s", error)
            return
        for each, position in offsets.items():
            known[each].committed(position)
