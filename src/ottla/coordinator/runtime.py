"""Decide, append, replay, commit: the one path on which groups and transactions change.

A runtime holds the machines of one internal topic's partitions that this broker has: of those that it leads, to decide on
requests; of the others, to be ready for it (standby.py). A decision sees every record before it, committed or not, because
records are replayed at once and written right behind. A reply, and every read a client sees, waits until all that its
machine knew is committed (shard.py).

No await lies between a decision and its replay: two requests cannot decide on the same state.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from ottla.base.clock import Clock
from ottla.base.errors import ApiError, ErrorCode
from ottla.base.outcome import Outcome
from ottla.base.types import Offset
from ottla.coordinator.loading import M, Turns
from ottla.coordinator.machine import (
    CoordinatorLog,
    Decision,
    FollowedLog,
    ProducerIdentity,
    ReplayedLog,
    Submit,
)
from ottla.coordinator.records import RecordTypes
from ottla.coordinator.shard import Shard
from ottla.coordinator.standby import Standby

Reply = TypeVar("Reply")


class CoordinatorRuntime(Generic[M]):
    def __init__(
        self,
        *,
        record_types: RecordTypes,
        new_machine: Callable[[Submit], M],
        clock: Clock,
        topic: str,
        turns: Turns | None = None,
        commit_timeout_seconds: float | None = None,
        is_blind: Callable[[], bool] = lambda: False,
    ) -> None:
        """`turns`: shared with what else is loaded on this node. `commit_timeout_seconds`: how long a client waits for
        the replicas; then it is told COORDINATOR_NOT_AVAILABLE, and what was decided stands. `is_blind`: this node does
        not learn any more who leads; what it knows may be old, so that nobody is told of it."""
        self._record_types = record_types
        self._new_machine = new_machine
        self._clock = clock
        self._topic = topic
        self._turns = turns or Turns()
        self._commit_timeout_seconds = commit_timeout_seconds
        self._is_blind = is_blind
        self._shards: dict[int, Shard[M]] = {}
        self._standbys: dict[int, Standby[M]] = {}
        self._gathering: list[Shard[M]] = []

    # -- requests ----------------------------------------------------------------------------------------------------

    async def submit(self, index: int, decide: Callable[[M], Decision[Reply]]) -> Reply:
        """Runs one decision on the machine of partition `index`. A reply, and an `ApiError` of `decide`, mean that its
        records, and all that the decision could know of, are committed."""
        shard = self._ready_shard(index)
        try:
            decision = decide(shard.machine)
        except ApiError:
            # A refusal is a reply, too, and its reason may be taken back.
            await shard.all_committed(self._commit_timeout_seconds)
            raise
        shard.record(decision)
        shard.write()
        if not shard.is_all_committed:
            await shard.all_committed(self._commit_timeout_seconds)
        return decision.reply

    def submit_gathered(self, index: int, decide: Callable[[M], Decision[Reply]]) -> tuple[Reply, Outcome]:
        """Like `submit`, for many that are small: what one turn of the loop brings is written together at its end. The
        reply counts once the outcome, which all of them share, is known to be good."""
        shard = self._shards.get(index)
        if shard is None or not shard.is_ready or self._is_blind():
            shard = self._ready_shard(index)
        decision = decide(shard.machine)
        shard.record(decision)
        gathered = shard.gathered
        if gathered is None:
            gathered = shard.gathered = Outcome()
            if not self._gathering:
                asyncio.get_running_loop().call_soon(self._write_gathered)
            self._gathering.append(shard)
        return decision.reply, gathered

    def _write_gathered(self) -> None:
        gathering, self._gathering = self._gathering, []
        for shard in gathering:
            shard.write()
        # Only now: an answer wakes a client, who had better find all of its answers. And who is told may commit again:
        # that is for the next turn, also where the shard has not had its turn in this one.
        for shard, gathered in [(shard, shard.take_gathered()) for shard in gathering]:
            if gathered is not None:
                shard.tell(gathered, self._commit_timeout_seconds)

    async def submit_and_wait(self, index: int, decide: Callable[[M], Decision["asyncio.Future[Reply]"]]) -> Reply:
        """Like `submit`, for a reply that other requests complete (a join waits for the group's other members)."""
        shard = self._ready_shard(index)
        machine = shard.machine
        try:
            decision = decide(machine)
        except ApiError:
            await shard.all_committed(self._commit_timeout_seconds)
            raise
        try:
            shard.record(decision)
            shard.write()
            reply = await decision.reply
        finally:
            decision.reply.cancel()  # Where it is not completed, nobody listens any more: the machine can see that.
        if shard.machine is not machine or not shard.is_ready:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"{self._topic}-{index} was loaded anew meanwhile")
        await shard.all_committed(self._commit_timeout_seconds)
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

    def is_ready(self, index: int) -> bool:
        """Whether partition `index` is led here, and loaded."""
        shard = self._shards.get(index)
        return shard is not None and shard.is_ready and not self._is_blind()

    @property
    def is_loading(self) -> bool:
        return any(not shard.is_ready for shard in self._shards.values())

    def _ready_shard(self, index: int) -> "Shard[M]":
        shard = self._shards.get(index)
        if shard is None:
            raise ApiError(ErrorCode.NOT_COORDINATOR, f"this broker does not lead {self._topic}-{index}")
        if self._is_blind():
            raise ApiError(ErrorCode.NOT_COORDINATOR, f"others may lead {self._topic}-{index} by now: the disk is full")
        if not shard.is_ready:
            raise ApiError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"{self._topic}-{index} is being loaded")
        return shard

    # -- leadership --------------------------------------------------------------------------------------------------

    def lead(self, index: int, log: CoordinatorLog) -> None:
        """This broker leads partition `index` from now on: what is not replayed of its log yet is, in the background."""
        standby = self._standbys.pop(index, None) or self._new_standby(index, log)
        self.resign(index)
        self._shards[index] = Shard(
            name=self._name(index),
            log=log,
            record_types=self._record_types,
            clock=self._clock,
            standby=standby,
            new_standby=lambda: self._new_standby(index, log),
        )

    def follow(self, index: int, log: FollowedLog) -> None:
        """Another broker leads partition `index`, of which this one has a copy: it is replayed as it grows."""
        self.resign(index)
        standby = self._standbys[index] = self._new_standby(index, log)
        standby.follow(log)

    def resign(self, index: int) -> None:
        """Neither leads nor follows any more."""
        shard = self._shards.pop(index, None)
        if shard is not None:
            shard.close()
        standby = self._standbys.pop(index, None)
        if standby is not None:
            standby.close()

    def replayed_offset(self, index: int) -> Offset:
        """How far the copy of a partition that another broker leads has been replayed; -1 where there is none."""
        standby = self._standbys.get(index)
        return -1 if standby is None else standby.next_offset

    def close(self) -> None:
        for index in [*self._shards, *self._standbys]:
            self.resign(index)

    def _new_standby(self, index: int, log: ReplayedLog) -> Standby[M]:
        return Standby(
            name=self._name(index),
            log=log,
            record_types=self._record_types,
            new_machine=lambda: self._new_machine(lambda decide: self._decide_soon(index, decide)),
            turns=self._turns,
        )

    def _decide_soon(self, index: int, decide: Callable[[], Decision[Any]]) -> None:
        shard = self._shards.get(index)
        if shard is not None:
            shard.decide_soon(decide)

    def _name(self, index: int) -> str:
        return f"{self._topic}-{index}"
