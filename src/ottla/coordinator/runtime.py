"""Decide, append, replay, commit: the one path on which groups and transactions change.

A runtime holds the machines of one internal topic's partitions that this broker leads. A decision sees every record before
it, committed or not, because records are replayed at once and written right behind. A reply, and every read a client sees,
waits until all that its machine knew is committed. When a write or a commit fails, the state is void: the machine is thrown
away, whoever waits is told to look for the coordinator again, and the log is loaded anew.

No await lies between a decision and its replay: two requests cannot decide on the same state.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

from ottla.base.clock import Clock
from ottla.base.errors import ApiError, ErrorCode
from ottla.base.owned_tasks import OwnedTasks
from ottla.coordinator.loading import Loading
from ottla.coordinator.machine import Appended, CoordinatorLog, Decision, Machine, ProducerIdentity, Submit
from ottla.coordinator.pending_writes import PendingWrites
from ottla.coordinator.records import RecordTypes

logger = logging.getLogger(__name__)

M = TypeVar("M", bound=Machine)
Reply = TypeVar("Reply")

RELOAD_SECONDS: Final = 0.1
LOAD_WAIT_SECONDS: Final = 1.0


class CoordinatorRuntime(Generic[M]):
    def __init__(
        self, *, record_types: RecordTypes, new_machine: Callable[[Submit], M], clock: Clock, topic: str
    ) -> None:
        self._record_types = record_types
        self._new_machine = new_machine
        self._clock = clock
        self._topic = topic
        self._shards: dict[int, _Shard[M]] = {}
        self._gathering: list[_Shard[M]] = []

    # -- requests ----------------------------------------------------------------------------------------------------

    async def submit(self, index: int, decide: Callable[[M], Decision[Reply]]) -> Reply:
        """Runs one decision on the machine of partition `index`. A reply, and an `ApiError` of `decide`, mean that its
        records, and all that the decision could know of, are committed."""
        shard = self._ready_shard(index)
        try:
            decision = decide(shard.machine)
        except ApiError:
            await shard.all_committed()  # A refusal is a reply, too, and its reason may be taken back.
            raise
        shard.record(decision)
        shard.write()
        if not shard.is_all_committed:
            await shard.all_committed()
        return decision.reply

    def submit_gathered(
        self, index: int, decide: Callable[[M], Decision[Reply]]
    ) -> tuple[Reply, "asyncio.Future[None]"]:
        """Like `submit`, for many that are small: what one turn of the loop brings is written together at its end. The
        reply counts once the future is done, which all of them share: who may be cancelled must shield it."""
        shard = self._ready_shard(index)
        decision = decide(shard.machine)
        shard.record(decision)
        gathered = shard.gathered
        if gathered is None:
            loop = asyncio.get_running_loop()
            gathered = shard.gathered = loop.create_future()
            if not self._gathering:
                loop.call_soon(self._write_gathered)
            self._gathering.append(shard)
        return decision.reply, gathered

    def _write_gathered(self) -> None:
        gathering, self._gathering = self._gathering, []
        for shard in gathering:
            shard.write_gathered()

    async def submit_and_wait(self, index: int, decide: Callable[[M], Decision["asyncio.Future[Reply]"]]) -> Reply:
        """Like `submit`, for a reply that other requests complete (a join waits for the group's other members)."""
        shard = self._ready_shard(index)
        machine = shard.machine
        try:
            decision = decide(machine)
        except ApiError:
            await shard.all_committed()
            raise
        try:
            shard.record(decision)
            shard.write()
            reply = await decision.reply
        finally:
            decision.reply.cancel()  # Where it is not completed, nobody listens any more: the machine can see that.
        if shard.machine is not machine or not shard.is_ready:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{self._topic}-{index} was loaded anew meanwhile")
        await shard.all_committed()
        return reply

    async def append_marker(
        self, index: int, transaction: ProducerIdentity, *, is_commit: bool, coordinator_epoch: int
    ) -> None:
        """Ends a transaction that wrote to partition `index`; returns once that is committed."""
        shard = self._ready_shard(index)
        shard.record_marker(transaction, is_commit=is_commit, coordinator_epoch=coordinator_epoch)
        shard.write()
        await shard.all_committed()

    def machines(self) -> dict[int, M]:
        """Those that are loaded, for what asks all of them (ListGroups)."""
        return {index: shard.machine for index, shard in self._shards.items() if shard.is_ready}

    async def wait_loaded(self, index: int) -> None:
        """Until partition `index` is loaded if that is soon, as it is for a new one."""
        shard = self._shards.get(index)
        if shard is not None and shard.loader is not None:
            await asyncio.wait([shard.loader], timeout=LOAD_WAIT_SECONDS)

    @property
    def is_loading(self) -> bool:
        return any(not shard.is_ready for shard in self._shards.values())

    def _ready_shard(self, index: int) -> "_Shard[M]":
        shard = self._shards.get(index)
        if shard is None:
            raise ApiError(ErrorCode.NOT_COORDINATOR, f"this broker does not lead {self._topic}-{index}")
        if not shard.is_ready:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"{self._topic}-{index} is being loaded")
        return shard

    # -- leadership --------------------------------------------------------------------------------------------------

    def lead(self, index: int, log: CoordinatorLog) -> None:
        """This broker leads partition `index` from now on: its log is loaded in the background."""
        self.resign(index)
        self._shards[index] = _Shard(
            name=f"{self._topic}-{index}",
            log=log,
            record_types=self._record_types,
            new_machine=self._new_machine,
            clock=self._clock,
        )

    def resign(self, index: int) -> None:
        shard = self._shards.pop(index, None)
        if shard is not None:
            shard.close()

    def close(self) -> None:
        for index in list(self._shards):
            self.resign(index)


class _Shard(Generic[M]):
    """One partition: its machine, and what of it is on its way into the log."""

    def __init__(
        self,
        *,
        name: str,
        log: CoordinatorLog,
        record_types: RecordTypes,
        new_machine: Callable[[Submit], M],
        clock: Clock,
    ) -> None:
        self.log = log
        self._name = name
        self._record_types = record_types
        self._new_machine = new_machine
        self._clock = clock
        self.machine: M = new_machine(self._submit_soon)
        self.is_ready = False
        self.writes = PendingWrites(log, clock)
        self.gathered: asyncio.Future[None] | None = None
        """Done once what this turn of the loop has gathered is committed."""
        self._tasks = OwnedTasks()
        self._writer: asyncio.Task[None] | None = None
        self.loader: asyncio.Task[None] | None = self._tasks.spawn(self._load(), name=f"load {name}")

    # -- deciding ----------------------------------------------------------------------------------------------------

    def record(self, decision: Decision[object]) -> None:
        """Replays it; `write` or `write_gathered` is to follow in this turn of the loop."""
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
        self.writes.check_room()
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

    async def all_committed(self) -> None:
        """Until everything replayed so far is committed."""
        writes = self.writes
        last_offset = writes.next_offset - 1
        written = writes.written(last_offset)
        if written is not None:
            await written
        committed = self.log.committed(last_offset) if last_offset >= 0 else None
        if committed is not None:
            try:
                await committed
            except ApiError as error:
                if writes is self.writes:
                    self._void(error)
                raise self._not_known(error) from error

    def _submit_soon(self, decide: Callable[[], Decision[Any]]) -> None:
        self._tasks.spawn(self._submit(decide, self.machine), name=f"decide {self._name}")

    async def _submit(self, decide: Callable[[], Decision[Any]], machine: M) -> None:
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
            waits_on = self._begin_writes()
        except ApiError as error:
            self._void(error)
            return
        if waits_on is not None:
            self._writer = self._tasks.spawn(self._write(waits_on), name=f"write {self._name}")

    def write_gathered(self) -> None:
        self.write()
        gathered, self.gathered = self.gathered, None
        if gathered is None:
            return  # It is void, and whoever waits was told.
        if self.is_all_committed:
            gathered.set_result(None)
        else:
            self._tasks.spawn(self._commit(gathered), name=f"commit {self._name}")

    async def _commit(self, gathered: "asyncio.Future[None]") -> None:
        try:
            await self.all_committed()
        except ApiError as error:
            gathered.set_exception(error)
        else:
            gathered.set_result(None)

    def _begin_writes(self) -> "asyncio.Future[Appended] | None":
        """Writes what is left, up to the first that must be waited for."""
        while self.writes.is_any_left:
            waits_on = self.writes.begin_write()
            if waits_on is not None:
                return waits_on
        return None

    async def _write(self, waits_on: "asyncio.Future[Appended] | None") -> None:
        try:
            while waits_on is not None:
                # Shielded: an append that has its place in the log's order happens, whoever waits.
                self.writes.on_written(await asyncio.shield(waits_on))
                waits_on = self._begin_writes()
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
        self.loader = self._tasks.spawn(self._load(), name=f"load {self._name}")

    def _not_known(self, error: ApiError) -> ApiError:
        return ApiError(
            ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{self._name}: not known to be committed: {error.message}"
        )

    def _discard(self, error: ApiError) -> None:
        self.is_ready = False
        self.machine.unload(error)
        self.writes.fail(error)
        gathered, self.gathered = self.gathered, None
        if gathered is not None:
            gathered.set_exception(error)

    def close(self) -> None:
        loader, self.loader = self.loader, None
        if loader is not None:
            loader.cancel()
        self._discard(ApiError(ErrorCode.NOT_COORDINATOR, f"this broker leads {self._name} no more"))

    # -- loading -----------------------------------------------------------------------------------------------------

    async def _load(self) -> None:
        if self._writer is not None:
            await asyncio.wait([self._writer])  # An append under way may still come to be: the log is read behind it.
        while True:
            machine = self._new_machine(self._submit_soon)
            try:
                await Loading(self._name, self.log, self._record_types, machine).run()
            except ApiError as error:
                machine.unload(self._not_known(error))
                logger.warning("a coordinator cannot be loaded", extra={"partition": self._name, "reason": str(error)})
                await asyncio.sleep(RELOAD_SECONDS)
                continue
            break
        self.machine = machine
        self.writes = PendingWrites(self.log, self._clock)
        self.loader = None
        self.is_ready = True
        machine.start()
