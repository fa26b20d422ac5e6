"""The life of one pipeline in a run: it starts, fails and starts again, is asked to stop, ends.

`advance` is called again and again and never waits, so one thread lives the lives of many. A stop lets the micro-batch
that is under way end; asked a second time, it does not wait for that. Either way the next run goes on from the
checkpoint: what was not committed is done again.
"""

import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from ottla.spark.pipelines.contract import PipelineContext
from ottla.spark.pipelines.definition import Pipeline, Trigger
from ottla.spark.pipelines.failures import BackOff, Failure, failure_of
from ottla.spark.pipelines.progress import Progress
from ottla.spark.pipelines.query import start_query
from ottla.spark.pipelines.status_files import State, Status

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


class Execution:
    def __init__(
        self,
        session: SparkSession,
        pipeline: Pipeline,
        context: PipelineContext,
        *,
        trigger: Trigger,
        back_off: BackOff,
        tell: Callable[[str], None],
    ) -> None:
        self._session = session
        self._pipeline = pipeline
        self._context = context
        self._trigger = trigger
        self._back_off = back_off
        self._tell = tell
        self._query: StreamingQuery | None = None
        self._progress = Progress()
        self._restarts = 0
        self._batches_done_at_start = 0
        self._batches_done_at_stop = 0
        self._restart_at_s = 0.0
        self._started_s = time.time()
        self.state = State.STARTING
        self.failure: Failure | None = None

    @property
    def name(self) -> str:
        return self._pipeline.name

    def status(self) -> Status:
        progress = self._progress
        return Status(
            name=self.name,
            state=self.state,
            pid=os.getpid(),
            file=str(self._pipeline.file.absolute()),
            guarantee=self._pipeline.guarantee,
            checkpoint=str(self._context.checkpoint),
            started_s=self._started_s,
            updated_s=time.time(),
            batch=progress.batch,
            rows_per_second=progress.rows_per_second,
            rows_total=progress.rows_total,
            lag=progress.lag,
            batch_ms=progress.batch_ms,
            restarts=self._restarts,
            reason=None if self.failure is None else self.failure.reason,
        )

    def advance(self) -> None:
        try:
            self._advance()
        except Exception as error:  # Of Spark, of a source or sink, of a Python step: all of them end or restart it.
            self._fail(failure_of(error))

    def _advance(self) -> None:
        match self.state:
            case State.STARTING:
                self._start()
            case State.RESTARTING if time.monotonic() >= self._restart_at_s:
                self._start()
            case State.RUNNING | State.STOPPING:
                self._watch()
            case _:
                pass

    def ask_to_stop(self) -> None:
        match self.state:
            case State.RUNNING:
                self.state = State.STOPPING
                self._batches_done_at_stop = self._progress.batches_done
            case State.STOPPING if self._query is not None:
                self._query.stop()
            case State.STARTING | State.RESTARTING:
                self.state = State.STOPPED
            case _:
                pass

    def _start(self) -> None:
        self._batches_done_at_start = self._progress.batches_done
        self._query = start_query(self._session, self._pipeline, self._context, trigger=self._trigger)
        self.state = State.RUNNING

    def _watch(self) -> None:
        query = self._query
        assert query is not None
        was_active = query.isActive  # Asked first: an ended query makes no more reports.
        self._progress = self._progress.with_reports(query.recentProgress)
        if was_active:
            if self.state is State.STOPPING and self._is_between_batches(query):
                query.stop()
            return
        error = query.exception()
        if error is not None:
            self._fail(failure_of(error))
        else:
            self.state = State.STOPPED if self.state is State.STOPPING else State.FINISHED

    def _is_between_batches(self, query: "StreamingQuery") -> bool:
        has_ended_one = self._progress.batches_done > self._batches_done_at_stop
        return has_ended_one or not query.status["isTriggerActive"]

    def _fail(self, failure: Failure) -> None:
        self.failure = failure
        if self._progress.batches_done > self._batches_done_at_start:
            self._restarts = 0
        is_worn_out = self._restarts >= self._back_off.restarts_max
        if failure.is_mistake or is_worn_out or self.state is State.STOPPING:
            self.state = State.FAILED
            after = f" (after {self._restarts} restarts in a row)" if self._restarts else ""
            self._tell(f"{self.name} failed{after}: {failure.reason}")
            return
        self._restarts += 1
        delay_s = self._back_off.delay_s(self._restarts)
        self._restart_at_s = time.monotonic() + delay_s
        self.state = State.RESTARTING
        attempt = f"restart {self._restarts} of {self._back_off.restarts_max} in {delay_s:g} s"
        self._tell(f"{self.name} failed: {failure.reason}; {attempt}")
