"""Hypothesis drives the log against the model and shrinks what fails to a few steps."""

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from ottla.wire.records import TimestampType
from sim.disk_nodes import Kept
from sim.log_scenario import SMALL, LogScenario, with_config


class LogMachine(RuleBasedStateMachine):
    scenario: LogScenario

    @initialize(seed=st.integers(0, 2**32), flush_messages=st.sampled_from((1, 4, 2**63 - 1)))
    def begin(self, seed: int, flush_messages: int) -> None:
        self.scenario = LogScenario(seed, with_config(SMALL, flush_messages=flush_messages))
        self.scenario.open()

    @rule(count=st.integers(1, 8))
    def append(self, count: int) -> None:
        for _ in range(count):
            self.scenario.append()

    @rule()
    def flush(self) -> None:
        self.scenario.flush()

    @rule()
    def checkpoint(self) -> None:
        self.scenario.checkpoint()

    @rule()
    def roll(self) -> None:
        self.scenario.roll()

    @rule()
    def retry_and_gap(self) -> None:
        self.scenario.retry()
        self.scenario.gap()

    @rule()
    def delete_records(self) -> None:
        self.scenario.delete_records()

    @rule()
    def retain(self) -> None:
        self.scenario.retain()

    @precondition(lambda self: self.scenario.log.log_end_offset > 0)
    @rule()
    def truncate(self) -> None:
        self.scenario.truncate()

    @rule()
    def restart(self) -> None:
        self.scenario.restart()

    @rule(kept=st.sampled_from(Kept))
    def crash(self, kept: Kept) -> None:
        self.scenario.crash(kept)

    @rule(kept=st.sampled_from(Kept), change=st.integers(0, 10), what=st.sampled_from(("append", "roll", "flush")))
    def crash_in(self, kept: Kept, change: int, what: str) -> None:
        self.scenario.crash_in(getattr(self.scenario, what), change, kept)

    def teardown(self) -> None:
        if hasattr(self, "scenario"):
            self.scenario.model.check(self.scenario.log)


LogMachine.TestCase.settings = settings(
    max_examples=60, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)
test_the_log_against_the_model = LogMachine.TestCase


def test_log_append_time_is_found_by_timestamp() -> None:
    scenario = LogScenario(3, with_config(SMALL, message_timestamp_type=TimestampType.LOG_APPEND_TIME))
    scenario.open()
    for _ in range(10):
        scenario.pass_time()
        before_ms, end_offset = scenario.clock.now_ms(), scenario.log.log_end_offset
        scenario.append()
        found = scenario.log.offset_for_timestamp(before_ms)
        assert found is not None
        assert (found.offset, found.timestamp) == (end_offset, before_ms)
    scenario.crash(Kept.EVERYTHING)
