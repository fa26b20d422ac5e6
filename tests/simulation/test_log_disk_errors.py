"""Every single disk call of every operation fails once, with EIO or ENOSPC: a clear error, then the log goes on.

A refused append leaves the log as it was. After any other failure the log is opened again, as a node does it, and
recovers like after a crash of the process: nothing is lost, nothing is half there.
"""

import errno
from collections.abc import Callable

import pytest

from ottla.log.config import LogConfig
from sim.disk_nodes import Kept
from sim.log_scenario import COMPACTED, SMALL, LogScenario

ERRORS = {"EIO": errno.EIO, "ENOSPC": errno.ENOSPC}
every_error = pytest.mark.parametrize("error", list(ERRORS))


def lived_in(seed: int, config: LogConfig = SMALL) -> LogScenario:
    scenario = LogScenario(seed, config)
    scenario.open()
    for _ in range(18):
        scenario.append()
    scenario.flush()
    scenario.checkpoint()
    for _ in range(seed + 2):
        scenario.append()
    return scenario


def visit_every_call(
    act: Callable[[LogScenario], None], error: int, then: Callable[[LogScenario], None], config: LogConfig = SMALL
) -> int:
    """Lets each call of `act` fail in turn and returns how often that was told."""
    told = 0
    for seed in range(2):
        for call in range(calls_of(act, seed, config)):
            scenario = lived_in(seed, config)
            told += scenario.fail_in(lambda: act(scenario), call, error)  # noqa: B023
            then(scenario)
    return told


def calls_of(act: Callable[[LogScenario], None], seed: int, config: LogConfig) -> int:
    scenario = lived_in(seed, config)
    before = scenario.disk.call_count
    act(scenario)
    return scenario.disk.call_count - before


def goes_on(scenario: LogScenario) -> None:
    """Nothing of a refused append is visible, the next one is taken, and all of it survives the process."""
    scenario.model.check(scenario.log)
    for _ in range(3):
        scenario.append()
    scenario.model.check(scenario.log)
    scenario.crash(Kept.EVERYTHING)


def is_opened_again(scenario: LogScenario) -> None:
    scenario.crash(Kept.EVERYTHING)
    for _ in range(3):
        scenario.append()
    scenario.flush()
    scenario.crash(Kept.PART)


def append_several(scenario: LogScenario) -> None:
    for _ in range(4):
        scenario.append()


@every_error
def test_append_and_roll(error: str) -> None:
    assert visit_every_call(append_several, ERRORS[error], goes_on) > 10


@every_error
@pytest.mark.parametrize("act", ["flush", "checkpoint", "retain", "truncate", "restart"])
def test_other_operations(act: str, error: str) -> None:
    told = visit_every_call(getattr(LogScenario, act), ERRORS[error], is_opened_again)
    if (act, error) == ("retain", "ENOSPC"):
        assert told == 0  # What makes room needs none.
    else:
        assert told > 3


@every_error
def test_compaction(error: str) -> None:
    assert visit_every_call(LogScenario.compact, ERRORS[error], is_opened_again, COMPACTED) > 20


@every_error
def test_opening(error: str) -> None:
    for seed in range(3):
        for call in range(200):
            scenario = lived_in(seed)
            scenario.stop(Kept.PART)
            if not scenario.fail_in(scenario.open, call, ERRORS[error]):
                break
            scenario.crash(Kept.EVERYTHING)


def test_a_full_disk_heals_when_space_is_freed() -> None:
    """Scene 7: writes are refused while the disk is full, retention frees it, writes go on without a restart."""
    scenario = LogScenario(1, capacity_bytes=12_000)
    scenario.open()
    with pytest.raises(OSError, match="No space"):
        for _ in range(200):
            scenario.append()
    for _ in range(3):
        with pytest.raises(OSError, match="No space"):
            for _ in range(10):
                scenario.append()
    scenario.model.check(scenario.log)
    scenario.retain()
    for _ in range(5):
        scenario.append()
    scenario.model.check(scenario.log)
    scenario.crash(Kept.EVERYTHING)
