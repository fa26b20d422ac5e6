"""What a producer repeats after a restart is recognised, although its snapshot holds its last batch alone."""

import pytest

from ottla.log.config import LogConfig
from ottla.log.partition_log import PartitionLog
from ottla.log.producer_state import ProducerBatch
from ottla.log.producer_tail import BLOCKS_MAX
from ottla.wire.records import ControlType, end_transaction_marker
from sim.disk import SimulatedDisk
from tests.unit.log.support import DIRECTORY, NOW_MS, append, batch_of, new_disk, open_log

CONFIGS = {
    "one segment": LogConfig(),
    "an index entry a batch": LogConfig(index_interval_bytes=1),
    "a segment a batch": LogConfig(segment_bytes=300),
    "a few segments": LogConfig(segment_bytes=2000, index_interval_bytes=300),
}


def known(log: PartitionLog) -> dict[int, list[ProducerBatch]]:
    return {producer_id: producer.batches for producer_id, producer in log.producer_state.producers.items()}


def reopened(disk: SimulatedDisk, log: PartitionLog, *, is_clean: bool = True) -> PartitionLog:
    log.close()
    return open_log(disk, log.config, clean_shutdown=is_clean, recovery_point=log.recovery_point)


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS.keys())
def test_the_last_five_batches_of_each_producer_are_known_again(config: LogConfig, is_clean: bool) -> None:
    disk = new_disk()
    log = open_log(disk, config)
    for number in range(40):
        append(log, batch_of(2, producer=(number % 3, 0, number // 3 * 2), value_bytes=100))
    again = reopened(disk, log, is_clean=is_clean)
    assert known(again) == known(log)
    oldest = log.producer_state.producers[1].batches[0]
    repeated = append(again, batch_of(2, producer=(1, 0, oldest.base_sequence), value_bytes=100))
    assert (repeated.is_duplicate, repeated.base_offset) == (True, oldest.base_offset)


def test_a_new_epoch_has_nothing_of_the_one_before() -> None:
    disk = new_disk()
    log = open_log(disk)
    for epoch, sequence in ((0, 0), (0, 1), (0, 2), (1, 0), (1, 1)):
        append(log, batch_of(producer=(7, epoch, sequence)))
    assert known(reopened(disk, log)) == known(log)
    assert len(log.producer_state.producers[7].batches) == 2


def test_what_does_not_lead_to_the_last_batch_is_left() -> None:
    """Forgotten and accepted anew with any sequence: what was before belongs to another life."""
    disk = new_disk()
    log = open_log(disk)
    append(log, batch_of(producer=(7, 0, 4)))
    log.producer_state.producers.clear()
    append(log, batch_of(producer=(7, 0, 40)))
    append(log, batch_of(producer=(7, 0, 41)))
    assert known(reopened(disk, log)) == known(log)


def test_nothing_but_the_batches_changes() -> None:
    """A marker between them, an open transaction behind them."""
    disk = new_disk()
    log = open_log(disk)
    append(log, batch_of(producer=(7, 2, 0), transactional=True))
    marker = end_transaction_marker(
        ControlType.COMMIT, coordinator_epoch=3, producer_id=7, producer_epoch=2, timestamp=NOW_MS + 5
    )
    log.append_marker(memoryview(marker), leader_epoch=0, now_ms=NOW_MS, coordinator_epoch=3, is_epoch_raised=False)
    append(log, batch_of(producer=(7, 2, 1), transactional=True))
    again = reopened(disk, log)
    before, after = (each.producer_state.producers[7] for each in (log, again))
    assert (after.epoch, after.coordinator_epoch, after.transaction_first_offset) == (2, 3, 2)
    assert after.last_timestamp == before.last_timestamp
    assert [batch.base_sequence for batch in after.batches] == [0, 1]
    assert again.producer_state.first_undecided_offset == 2


def test_after_a_truncation_they_are_known_as_of_its_offset() -> None:
    disk = new_disk()
    log = open_log(disk, LogConfig(segment_bytes=1000, index_interval_bytes=300))
    for sequence in range(30):
        append(log, batch_of(producer=(7, 0, sequence), value_bytes=100))
    log.truncate_to(24, now_ms=NOW_MS)
    assert [batch.base_sequence for batch in log.producer_state.producers[7].batches] == [19, 20, 21, 22, 23]


def test_a_snapshot_in_the_middle_of_a_segment() -> None:
    disk = new_disk()
    log = open_log(disk, LogConfig(index_interval_bytes=1))
    for sequence in range(10):
        append(log, batch_of(producer=(7, 0, sequence)))
    log = reopened(disk, log)
    for sequence in range(10, 10 + 2 * BLOCKS_MAX):
        append(log, batch_of(producer=(7, 0, sequence)))
    log.truncate_to(12, now_ms=NOW_MS)
    assert [batch.base_sequence for batch in log.producer_state.producers[7].batches] == [7, 8, 9, 10, 11]


def test_a_bounded_part_of_the_log_is_read_and_none_without_producers() -> None:
    disk = new_disk()
    log = open_log(disk, LogConfig(index_interval_bytes=1))
    for sequence in range(4):
        append(log, batch_of(producer=(7, 0, sequence)))  # Silent from here on: not looked for.
    for number in range(BLOCKS_MAX * 3):
        append(log, batch_of(producer=(8 + number % 2, 0, number // 2)))
    again = reopened(disk, log)
    assert [len(batches) for batches in known(again).values()] == [1, 5, 5]


@pytest.mark.parametrize("damage", [b"", b"\xff" * 160, b"\0" * 160])
def test_an_index_that_is_of_no_use_costs_nothing_but_time(damage: bytes) -> None:
    disk = new_disk()
    log = open_log(disk, LogConfig(index_interval_bytes=1000))
    for sequence in range(30):
        append(log, batch_of(producer=(7, 0, sequence), value_bytes=300))
    log.close()
    disk.replace(f"{DIRECTORY}/{0:020d}.index", damage)
    again = open_log(disk, clean_shutdown=True)
    assert known(again) == known(log)
