"""One partition that this broker leads, with its coordinator: the machine, and what of it is on its way into the log.

When a write or a commit fails, or leadership is lost, the state is void: the machine is thrown away, whoever waits is told
to look for the coordinator again, and the log is loaded anew, from its start.

Called by the runtime alone.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Generic

from ottla.base.clock import Clock
from ottla.base.errors import ApiError, ErrorCode
from ottla.base.outcome import Outcome
from ottla.base.owned_tasks import OwnedTasks
from ottla.coordinator.loading import M
from ottla.coordinator.machine import Appended, CoordinatorLog, Decision, ProducerIdentity
from ottla.coordinator.pending_writes import PendingWrites
from ottla.coordinator.records import RecordTypes
from ottla.coordinator.standby import Standby

logger = logging.getLogger(__name__)


class Shard(Generic[M]):
    def __init__(
        self,
        *,
        name: str,
        log: CoordinatorLog,
        record_types: RecordTypes,
        clock: Clock,
        standby: Standby[M],
        new_standby: Callable[[], Standby[M]],
    ) -> None:
        self.log = log
        self._name = name
        self._record_types = record_types
        self._clock = clock
        self._standby = standby
        self._new_standby = new_standby
        self.machine: M = standby.machine
        self.is_ready = False
        self.writes = PendingWrites(log, clock)
        self.gathered: Outcome | None = None
        """Good once what this turn of the loop has gathered is committed."""
        self._tasks = OwnedTasks()
        self._writer: asyncio.Task[None] | None = None
        self.loader: asyncio.Task[None] | None = self._tasks.spawn(self._load(), name=f"load {name}")

    # -- deciding ----------------------------------------------------------------------------------------------------

    def record(self, decision: Decision[object]) -> None:
        """Replays it; `write` is to follow in this turn of the loop."""
        if not decision.records:
            return  # Who only reads is served by a full disk, too.
        transaction = decision.transaction
        self._check_writable(transaction)
        # All are encoded before any is replayed: a decision happens whole or not at all.
        encoded = [self._record_types.encode(record) for record in decision.records]
        offset = self.writes.add(encoded, transaction)
        for record in decision.records:
            self.machine.replay(record, offset=offset, transaction=transaction)
            offset += 1

    def _check_writable(self, transaction: ProducerIdentity | None) -> None:
        refusal = self.log.refusal()
        if refusal is not None:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, refusal.message)
        if transaction is not None:
            self.log.check_epoch(transaction)

    def record_marker(self, transaction: ProducerIdentity, *, is_commit: bool, coordinator_epoch: int) -> None:
        self._check_writable(transaction)
        self.writes.add_marker(transaction, is_commit=is_commit, coordinator_epoch=coordinator_epoch)
        self.machine.replay_marker(transaction, is_commit=is_commit)

    @property
    def is_all_committed(self) -> bool:
        """As it is at once where this broker alone has the partition."""
        return self.writes.is_all_written and self.log.is_all_committed

    async def all_committed(self, timeout_seconds: float | None = None) -> None:
        """Until everything replayed so far is committed; a log that takes longer voids nothing: it may do so yet."""
        writes = self.writes
        last_offset = writes.next_offset - 1
        written = writes.written(last_offset)
        if written is not None:
            await written
        try:
            committed = self.log.committed(last_offset, timeout_seconds) if last_offset >= 0 else None
            if committed is not None:
                await committed
        except ApiError as error:
            if writes is self.writes and error.code is not ErrorCode.REQUEST_TIMED_OUT:
                self._void(error)
            raise self._not_known(error) from error

    def decide_soon(self, decide: Callable[[], Decision[Any]]) -> None:
        """What the machine decides by itself."""
        self._tasks.spawn(self._decide(decide, self.machine), name=f"decide {self._name}")

    async def _decide(self, decide: Callable[[], Decision[Any]], machine: M) -> None:
        if machine is not self.machine or not self.is_ready:
            return  # It was unloaded meanwhile; whatever it wanted to decide is void.
        try:
            self.record(decide())
            self.write()
            await self.all_committed()
        except ApiError as error:
            logger.warning("a coordinator's own decision failed", extra={"partition": self._name, "reason": str(error)})

    # -- writing -----------------------------------------------------------------------------------------------------

    def write(self) -> None:
        """Everything recorded: at once, as a rule; behind a write that waits, in its turn."""
        if self._writer is not None:
            return
        try:
            waits_on = self.writes.begin_writes()
        except ApiError as error:
            self._void(error)
            return
        if waits_on is not None:
            self._writer = self._tasks.spawn(self._write(waits_on), name=f"write {self._name}")

    def take_gathered(self) -> Outcome | None:
        """Behind `write`: `tell` is to follow. None where it is void: whoever waits is told."""
        gathered, self.gathered = self.gathered, None
        return gathered

    def tell(self, gathered: Outcome, commit_timeout_seconds: float | None) -> None:
        if self.is_all_committed:
            gathered.tell(None)
        else:
            self._tasks.spawn(self._commit(gathered, commit_timeout_seconds), name=f"commit {self._name}")

    async def _commit(self, gathered: Outcome, timeout_seconds: float | None) -> None:
        try:
            await self.all_committed(timeout_seconds)
        except ApiError as error:
            gathered.tell(error)
        else:
            gathered.tell(None)

    async def _write(self, waits_on: "asyncio.Future[Appended] | None") -> None:
        try:
            while waits_on is not None:
                # Shielded: an append that has its place in the log's order happens, whoever waits.
                self.writes.on_written(await asyncio.shield(waits_on))
                waits_on = self.writes.begin_writes()
        except ApiError as error:
            self._void(error)
        finally:
            self._writer = None

    def _void(self, error: ApiError) -> None:
        """What was replayed is not known to be in the log: begin again from what is."""
        if not self.is_ready:
            return
        logger.warning("reloading a coordinator", extra={"partition": self._name, "reason": error.message})
        self._discard(self._not_known(error))
        self._standby = self._new_standby()
        self.loader = self._tasks.spawn(self._load(), name=f"load {self._name}")

    def _not_known(self, error: ApiError) -> ApiError:
        return ApiError(
            ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{self._name}: not known to be committed: {error.message}"
        )

    def _discard(self, error: ApiError) -> None:
        self.is_ready = False
        self.machine.unload(error)
        self.writes.fail(error)
        gathered = self.take_gathered()
        if gathered is not None:
            # Later: who hears of it may do anything, and we are in the middle of something.
            asyncio.get_running_loop().call_soon(gathered.tell, error)

    def close(self) -> None:
        loader, self.loader = self.loader, None
        if loader is not None:
            loader.cancel()
        self._standby.close()
        self._discard(ApiError(ErrorCode.NOT_COORDINATOR, f"this broker leads {self._name} no more"))

    # -- loading -----------------------------------------------------------------------------------------------------

    async def _load(self) -> None:
        if self._writer is not None:
            await asyncio.wait([self._writer])  # An append under way may still come to be: the log is read behind it.
        self.machine = machine = await self._standby.take_over(self.log)
        self.writes = PendingWrites(self.log, self._clock)
        self.loader = None
        self.is_ready = True
        machine.start()
