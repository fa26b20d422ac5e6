"""Several pipelines in one driver, until all have ended.

The runner holds the locks of their checkpoints, lives their lives (`execution`), keeps their status files and passes on
requests to stop. It is given a Spark session and neither makes nor ends it.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Final

from pyspark.sql import SparkSession

from ottla.spark.pipelines.definition import Pipeline, Trigger, TriggerKind
from ottla.spark.pipelines.execution import Execution
from ottla.spark.pipelines.failures import BackOff
from ottla.spark.pipelines.query import context_of
from ottla.spark.pipelines.session import pipeline_session
from ottla.spark.pipelines.status_files import StateDirectory, Status, locked

POLL_S: Final = 0.1
STATUS_INTERVAL_S: Final = 1.0  # A change of state is written at once, numbers this often.

_UNTIL_NOW: Final = Trigger(kind=TriggerKind.AVAILABLE_NOW)


class Runner:
    def __init__(
        self,
        driver: SparkSession,
        pipelines: Sequence[Pipeline],
        state: StateDirectory,
        *,
        until_now: bool = False,
        conf: Mapping[str, str] | None = None,
        back_off: BackOff | None = None,
        observe: Callable[[Sequence[Status]], None] = lambda statuses: None,
        tell: Callable[[str], None] = lambda line: None,
    ) -> None:
        """`until_now`: what there is, whatever the pipelines' triggers say, and then end."""
        self._pipelines = pipelines
        self._state = state
        self._observe = observe
        self._stops_asked = 0
        self._written: dict[str, Status] = {}
        self._executions = [
            Execution(
                pipeline_session(driver, pipeline, conf or {}),
                pipeline,
                context_of(pipeline, state.checkpoint_of(pipeline)),
                trigger=_UNTIL_NOW if until_now else pipeline.trigger,
                back_off=back_off or BackOff(),
                tell=tell,
            )
            for pipeline in pipelines
        ]

    def ask_to_stop(self) -> None:
        """May be called by a signal handler: it only counts."""
        self._stops_asked += 1

    def run(self) -> Sequence[Status]:
        """How each ended. `AlreadyRunning` where another process has one of the checkpoints."""
        with ExitStack() as locks:
            for pipeline in self._pipelines:
                locks.enter_context(locked(self._state.checkpoint_of(pipeline), pipeline.name))
                self._state.take_stop(pipeline.name)  # Meant for an earlier run.
            for execution in self._executions:
                self._maybe_write(execution)
            while not all(execution.state.is_over for execution in self._executions):
                self._pass_on_stops()
                for execution in self._executions:
                    execution.advance()
                    self._maybe_write(execution)
                self._observe([execution.status() for execution in self._executions])
                time.sleep(POLL_S)
        return [self._written[execution.name] for execution in self._executions]

    def _pass_on_stops(self) -> None:
        asked, self._stops_asked = self._stops_asked, 0
        for execution in self._executions:
            for _ in range(asked + self._state.take_stop(execution.name)):
                execution.ask_to_stop()

    def _maybe_write(self, execution: Execution) -> bool:
        status, written = execution.status(), self._written.get(execution.name)
        is_new_state = written is None or written.state is not status.state
        is_due = written is None or status.updated_s - written.updated_s >= STATUS_INTERVAL_S
        if not is_new_state and (status.state.is_over or not is_due):
            return False
        if is_new_state and execution.failure is not None:
            self._state.write_failure(execution.name, execution.failure.details)
        self._state.write(status)
        self._written[execution.name] = status
        return True
