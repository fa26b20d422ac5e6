"""The power or the process goes at every single disk change of every operation of a log.

After each: nothing flushed is lost, nothing is invented, offsets are dense, indexes and producers agree with the log
(`LogScenario.crash` judges all of it), and the log goes on.
"""

from collections.abc import Callable
from contextlib import suppress
from itertools import count

import pytest

from ottla.log.config import LogConfig
from sim.disk import SimulatedCrash
from sim.disk_nodes import Kept
from sim.log_scenario import COMPACTED, SMALL, LogScenario, with_config

Act = Callable[[LogScenario], None]


def append_until_rolled(scenario: LogScenario) -> None:
    segment_count = len(scenario.log.segments)
    while len(scenario.log.segments) == segment_count:
        scenario.append()


def append_and_flush(scenario: LogScenario) -> None:
    scenario.append()
    scenario.flush()


def roll_and_flush(scenario: LogScenario) -> None:
    """A roll writes the producer snapshot and the next segment; its flush saves the old one's indexes."""
    scenario.roll()
    scenario.append()
    scenario.flush()


def flush_and_checkpoint(scenario: LogScenario) -> None:
    scenario.flush()
    scenario.checkpoint()


def truncate_and_append(scenario: LogScenario) -> None:
    scenario.truncate()
    scenario.append()
    scenario.flush()


def delete_and_retain(scenario: LogScenario) -> None:
    scenario.delete_records()
    scenario.retain()
    scenario.checkpoint()


OPERATIONS: dict[str, Act] = {
    "append": LogScenario.append,
    "append until rolled": append_until_rolled,
    "append and flush": append_and_flush,
    "roll and flush": roll_and_flush,
    "flush and checkpoint": flush_and_checkpoint,
    "retention": delete_and_retain,
    "truncation": truncate_and_append,
    "clean restart": LogScenario.restart,
}


def lived_in(seed: int, config: LogConfig = SMALL) -> LogScenario:
    """A log with a past: several segments, some of it flushed, checkpoints, a restart, a tail that is not flushed."""
    scenario = LogScenario(seed, config)
    scenario.open()
    for _ in range(12):
        scenario.append()
    flush_and_checkpoint(scenario)
    if seed % 2:
        scenario.restart()
    for _ in range(seed % 5):
        scenario.append()
    return scenario


@pytest.mark.parametrize("kept", list(Kept))
@pytest.mark.parametrize("operation", list(OPERATIONS))
def test_a_crash_at_every_change_of(operation: str, kept: Kept) -> None:
    for seed in range(4):
        for change in count():
            scenario = lived_in(seed)
            crashed = scenario.crash_in(lambda: OPERATIONS[operation](scenario), change, kept)  # noqa: B023
            scenario.append()
            scenario.flush()
            scenario.crash(kept)
            if not crashed:
                break
        assert change > 0  # The operation does touch the disk.


def append_seal_and_compact(scenario: LogScenario) -> None:
    scenario.append()
    scenario.roll()
    scenario.flush()
    scenario.compact()


@pytest.mark.parametrize("kept", list(Kept))
def test_a_crash_at_every_change_of_a_compaction_and_its_swaps(kept: Kept) -> None:
    """Several segments become one, under the same name: old and new must never be mixed, nor be there together."""
    for seed in range(2):
        for change in count():
            scenario = lived_in(seed, COMPACTED)
            crashed = scenario.crash_in(lambda: append_seal_and_compact(scenario), change, kept)  # noqa: B023
            scenario.append()
            append_seal_and_compact(scenario)
            scenario.crash(kept)
            if not crashed:
                break
        assert scenario.hits["compacted"] > 0
        assert change > 40


@pytest.mark.parametrize("kept", list(Kept))
def test_a_crash_at_every_change_of_the_recovery_of_a_swap(kept: Kept) -> None:
    for swap_change in range(20, 60, 3):  # Some write `.cleaned` files, some are inside a swap.
        for change in count():
            scenario = lived_in(0, COMPACTED)
            scenario.disk.crash_at(swap_change)
            with suppress(SimulatedCrash):
                append_seal_and_compact(scenario)
            scenario.stop(Kept.EVERYTHING)
            if not scenario.crash_in(scenario.open, change, kept):
                break


@pytest.mark.parametrize("kept", list(Kept))
def test_a_crash_at_every_change_of_the_first_start(kept: Kept) -> None:
    """The log directory's identity, the partition's directory, its first files."""

    def start(scenario: LogScenario) -> None:
        scenario.open()
        append_and_flush(scenario)

    for seed in range(3):
        for change in count():
            scenario = LogScenario(seed)
            if not scenario.crash_in(lambda: start(scenario), change, kept):  # noqa: B023
                break
        assert change > 10


@pytest.mark.parametrize("kept", list(Kept))
def test_a_crash_at_every_change_of_the_recovery_itself(kept: Kept) -> None:
    for seed in range(6):
        for change in count():
            scenario = lived_in(seed)
            scenario.append()
            scenario.roll()
            scenario.append()
            scenario.stop(Kept.PART)
            if not scenario.crash_in(scenario.open, change, kept):
                break


@pytest.mark.parametrize("kept", list(Kept))
def test_with_a_flush_for_every_message_no_acknowledged_record_is_ever_lost(kept: Kept) -> None:
    for seed in range(3):
        for change in count():
            scenario = LogScenario(seed, with_config(SMALL, flush_messages=1))
            scenario.open()
            acknowledged = 0

            def produce(scenario: LogScenario = scenario) -> None:
                nonlocal acknowledged
                for _ in range(8):
                    scenario.append()
                    assert scenario.log.durable_end_offset == scenario.log.log_end_offset
                    acknowledged = scenario.log.durable_end_offset

            crashed = scenario.crash_in(produce, change, kept)
            assert scenario.log.log_end_offset >= acknowledged
            if not crashed:
                break
        assert change > 16
