"""A partition's life on a simulated disk: appends, rolls, flushes, retention, restarts, crashes, all against the model.

One seed is one life. Tests call the steps by name to visit every disk call of one of them; `python -m sim` lets `step`
choose. The node's own order of calls is kept: roll before an append that needs it, checkpoints after a flush.
"""

import errno
import posixpath
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any, Final
from uuid import UUID

from ottla.base.errors import ApiError
from ottla.base.types import TopicPartition
from ottla.log.config import CleanupPolicy, LogConfig
from ottla.log.directory import LogDirectory
from ottla.log.partition_log import PartitionLog
from ottla.wire.records import BatchBuilder, Codec, TimestampType, set_log_append_time
from sim import compaction
from sim.clock import SimulatedClock
from sim.disk import SimulatedCrash, SimulatedDisk
from sim.disk_nodes import Kept
from sim.log_model import LogModel
from sim.trace import Trace

STEP_COUNT: Final = 120
DATA: Final = "/data/logs"
PARTITION: Final = TopicPartition("orders", 0)
TOPIC_ID: Final = UUID(int=7)
SMALL: Final = LogConfig(
    segment_bytes=2_500, index_interval_bytes=300, max_message_bytes=2_000, message_timestamp_after_max_ms=10**12
)
COMPACTED: Final = replace(
    SMALL, cleanup_policy=frozenset({CleanupPolicy.COMPACT}), min_cleanable_dirty_ratio=0.0, segment_bytes=1_500
)
_KEYS_OF_COMPACTED: Final = [b"%d" % number for number in range(30)]
_CODECS: Final = (Codec.NONE, Codec.NONE, Codec.NONE, Codec.LZ4, Codec.GZIP)


class LogScenario:
    def __init__(self, seed: int, config: LogConfig = SMALL, *, capacity_bytes: int | None = None) -> None:
        self.chance = Random(f"{seed}/log scenario")
        self.trace = Trace()
        self.clock = SimulatedClock()
        self.disk = SimulatedDisk(
            Random(f"{seed}/disk"), self.trace, now_ms=self.clock.now_ms, capacity_bytes=capacity_bytes
        )
        self.disk.make_directory(DATA)
        self.disk.sync_directory(posixpath.dirname(DATA))
        self.disk.sync_directory("/")
        self.config = config
        self.model = LogModel()
        self.hits: Counter[str] = Counter()
        self.leader_epoch = 0
        self._was_power_lost = False
        self._next_sequences: dict[int, int] = {}
        self._directory: LogDirectory | None = None
        self._log: PartitionLog | None = None

    @property
    def log(self) -> PartitionLog:
        assert self._log is not None
        return self._log

    @property
    def directory(self) -> LogDirectory:
        assert self._directory is not None
        return self._directory

    # -- beginnings and ends -----------------------------------------------------------------------------------------

    def open(self) -> None:
        self._directory = LogDirectory.open(self.disk, DATA, cluster_id="sim", node_id=1, new_directory_id=UUID(int=1))
        for path in self._directory.find_deleted():
            self._directory.remove_deleted(path)
        self._log = self._directory.open_partition(PARTITION, self.config, self.clock.now_ms(), topic_id=TOPIC_ID)
        self._next_sequences = {
            producer_id: (producer.last_sequence + 1) & 0x7FFFFFFF
            for producer_id, producer in self._log.producer_state.producers.items()
        }

    def restart(self) -> None:
        """A clean stop and start: nothing may change."""
        self.directory.close([self.log], broker_epoch=1)
        self.model.flushed(self.model.end_offset)
        self.open()
        assert self.directory.was_clean_shutdown

    def crash(self, kept: Kept) -> None:
        """The power or the process goes; what comes back is judged, and then checked like any other log."""
        self.stop(kept)
        self.open()
        self.model.recover(self.log, is_everything_kept=not self._was_power_lost)
        self._was_power_lost = False
        self.model.check(self.log)

    def stop(self, kept: Kept) -> None:
        """The first half of a crash. There may be several before the next start succeeds."""
        self.hits[f"crash, {kept.value} kept"] += 1
        self._was_power_lost = self._was_power_lost or kept is not Kept.EVERYTHING
        self.disk.crash(kept)
        self.clock.advance(1)

    def crash_in(self, act: Callable[[], None], change: int, kept: Kept) -> bool:
        """Does `act`, ends the world before its disk change number `change`. False: it took fewer changes."""
        self.disk.crash_at(change)
        try:
            act()
        except SimulatedCrash:
            crashed = True
        else:
            crashed = False
        self.crash(kept)
        return crashed

    def fail_in(self, act: Callable[[], None], call: int, error: int = errno.EIO) -> bool:
        """Does `act` and lets its disk call number `call` fail. False: the call was not reached, or did not matter."""
        self.disk.fail_at(call, error)
        try:
            act()
        except OSError as failure:
            assert failure.errno == error
            return True
        finally:
            self.disk.fail_at(None)
        return False

    # -- steps -------------------------------------------------------------------------------------------------------

    def append(self) -> None:
        batch = self._batch()
        now_ms = self.clock.now_ms()
        if self.log.should_roll(len(batch), now_ms):
            self.roll()
        expected = bytearray(batch)
        if self.config.message_timestamp_type is TimestampType.LOG_APPEND_TIME:
            set_log_append_time(expected, now_ms)
        self.model.begin_append(expected, self.log.log_end_offset, self.leader_epoch)
        result = self.log.append_as_leader(memoryview(batch), leader_epoch=self.leader_epoch, now_ms=now_ms)
        self.model.finish_append()
        header = self.model.history[-1].header
        assert (result.base_offset, result.last_offset) == (header.base_offset, header.last_offset)
        if header.has_producer_id:
            self._next_sequences[header.producer_id] = (header.last_sequence + 1) & 0x7FFFFFFF
        if self.log.needs_flush(now_ms):
            self.flush()

    def _batch(self) -> bytearray:
        chance = self.chance
        producer_id = chance.choice((-1, 1, 2, 3))
        is_idempotent = producer_id >= 0
        builder = BatchBuilder(
            codec=chance.choice(_CODECS),
            producer_id=producer_id,
            producer_epoch=0 if is_idempotent else -1,
            base_sequence=self._next_sequences.get(producer_id, 0) if is_idempotent else -1,
        )
        for _ in range(chance.randint(1, 5)):
            timestamp = self.clock.now_ms() + chance.randint(-5_000, 5_000)  # The producers' clocks disagree.
            key = chance.choice(_KEYS_OF_COMPACTED) if self.config.compacts else chance.randbytes(4)
            builder.append(timestamp, key, chance.randbytes(chance.randint(0, 250)))
        return builder.build()

    def retry(self) -> None:
        """The last batch of some producer comes once more: it is acknowledged with its old offset."""
        producers = sorted(self.log.producer_state.producers)
        if not producers:
            return
        producer_id = self.chance.choice(producers)
        known = self.log.producer_state.producers[producer_id].batches[-1]
        builder = BatchBuilder(producer_id=producer_id, producer_epoch=0, base_sequence=known.base_sequence)
        for _ in range(known.last_offset - known.base_offset + 1):
            builder.append(self.clock.now_ms(), b"again", b"")
        batch = builder.build()
        result = self.log.append_as_leader(
            memoryview(batch), leader_epoch=self.leader_epoch, now_ms=self.clock.now_ms()
        )
        assert (result.is_duplicate, result.base_offset) == (True, known.base_offset)
        self.hits["duplicate"] += 1

    def gap(self) -> None:
        """A sequence that skips one is refused, and nothing is written."""
        producers = sorted(self.log.producer_state.producers)
        if not producers:
            return
        producer_id = self.chance.choice(producers)
        builder = BatchBuilder(
            producer_id=producer_id, producer_epoch=0, base_sequence=self._next_sequences[producer_id] + 1
        )
        builder.append(self.clock.now_ms(), b"skipped", b"")
        try:
            self.log.append_as_leader(
                memoryview(builder.build()), leader_epoch=self.leader_epoch, now_ms=self.clock.now_ms()
            )
        except ApiError:
            self.hits["gap refused"] += 1
        else:
            raise AssertionError("a gap in the sequence was accepted")

    def roll(self) -> None:
        self.log.roll()
        self.hits["roll"] += 1

    def flush(self) -> None:
        self.log.flush(now_ms=self.clock.now_ms())
        self.model.flushed(self.log.recovery_point)
        self.hits["flush"] += 1

    def checkpoint(self) -> None:
        self.directory.write_recovery_points([self.log])
        self.directory.write_log_starts([self.log])
        self.hits["checkpoint"] += 1

    def delete_records(self) -> None:
        offset = self.chance.randint(self.log.log_start_offset, self.log.log_end_offset)
        self.model.delete_before(offset)
        self.log.delete_records_before(offset)
        self.hits["delete records"] += 1

    def retain(self) -> None:
        """Keeps about two segments, as `retention.bytes` would; the log start moves to a segment's first offset."""
        self.log.update_config(with_config(self.config, retention_bytes=self.config.segment_bytes * 2))
        expired = self.log.plan_retention(self.clock.now_ms())
        self.log.update_config(self.config)
        if self.log.active_segment in expired:
            self.roll()
        if expired:
            self.log.detach(expired)
            self.model.delete_before(self.log.log_start_offset)
            self.log.rename_deleted(expired)
            self.log.delete_files(expired)
            self.hits["segments deleted"] += len(expired)

    def compact(self) -> None:
        """One pass, if the log has anything sealed and synced that is dirty."""
        if not self.config.compacts:
            return
        self.model.compacted(min(self.log.active_segment.base_offset, self.log.recovery_point))
        cleaned_end = self.directory.cleaned_ends.get(PARTITION)
        done = compaction.compact(
            self.log, self.disk, now_ms=self.clock.now_ms(), cleaned_end_offset=cleaned_end, buffer_bytes=4_000
        )
        if done is not None:
            self.directory.write_cleaned_end(PARTITION, done.cleaned_end_offset)
            self.hits["compacted"] += 1

    def truncate(self) -> None:
        """What a follower does when a new leader's log is shorter: cut at the end of a batch; a new epoch follows."""
        ends = [batch.next_offset for batch in self.model.visible()[-4:-1]]
        ends = [offset for offset in ends if offset >= self.model.compacted_end_offset]  # All below was replicated.
        if ends:
            offset = self.chance.choice(ends)
            self.model.begin_truncate(offset)
            self.log.truncate_to(offset, now_ms=self.clock.now_ms())
            self._next_sequences = {
                producer_id: (producer.last_sequence + 1) & 0x7FFFFFFF
                for producer_id, producer in self.log.producer_state.producers.items()
            }
            self.leader_epoch += 1
            self.checkpoint()  # Before anything is appended: above the old recovery point nothing was synced any more.
            self.hits["truncate"] += 1

    def pass_time(self) -> None:
        self.clock.advance(self.chance.random() * 60)

    def step(self) -> None:
        steps: tuple[tuple[Callable[[], None], int], ...] = (
            (self.append, 40), (self.flush, 6), (self.checkpoint, 4), (self.roll, 3), (self.retry, 3), (self.gap, 2),
            (self.delete_records, 2), (self.retain, 3), (self.truncate, 2), (self.pass_time, 4), (self.restart, 2),
            (self.compact, 4),
        )  # fmt: skip
        (act,) = self.chance.choices([act for act, _ in steps], [weight for _, weight in steps])
        if self.chance.random() < 0.06:
            self.crash_in(act, self.chance.randint(0, 12), self.chance.choice(tuple(Kept)))
        else:
            act()

    def run(self, step_count: int = STEP_COUNT) -> str:
        """A whole life, checked now and then and at its end. Returns the digest of its trace."""
        self.open()
        for number in range(step_count):
            self.step()
            if number % 10 == 0:
                self.model.check(self.log)
        self.crash(self.chance.choice(tuple(Kept)))
        self.restart()
        self.model.check(self.log)
        return self.trace.digest()


def with_config(config: LogConfig, **changes: Any) -> LogConfig:
    return replace(config, **changes)
