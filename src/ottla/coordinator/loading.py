"""Reading a log into a machine: all of it, or what has come since the last time (standby.py).

Of records with the same key only the last counts, as it does after compaction: outside transactions they are gathered as
bytes first, and only what is left is decoded and replayed, in the order of the log. A batch of a transaction, or its
marker, ends such a stretch. Work is done in small turns, one at a time over all partitions of a node (`Turns`): requests go
on meanwhile.
"""

import asyncio
import logging
from collections import deque
from typing import Final, Generic, TypeVar

from ottla.base.errors import ApiError, ErrorCode, ProtocolError, invariant
from ottla.base.types import Offset
from ottla.coordinator.machine import Machine, ProducerIdentity, ReplayedLog
from ottla.coordinator.records import RecordTypes
from ottla.wire.batch import CONTROL_BIT, TRANSACTIONAL_BIT
from ottla.wire.key_value_reader import keys_and_values
from ottla.wire.records import Batch, ControlType, batches, control_type_of

logger = logging.getLogger(__name__)

M = TypeVar("M", bound=Machine)

TURN_RECORDS: Final = 1_000  # A turn of the loop takes about as long as a large request.
DECODED_WEIGHT: Final = 5  # To decode and replay a record takes as long as to gather so many.
_SPECIAL: Final = TRANSACTIONAL_BIT | CONTROL_BIT


class Turns:
    """However many logs are loaded at a time, one turn of the loop is for one of them; for a leader's before others."""

    def __init__(self) -> None:
        self._waiting: tuple[deque[asyncio.Future[None]], ...] = (deque(), deque())
        self._is_giving = False

    async def wait(self, *, is_urgent: bool) -> None:
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        self._waiting[0 if is_urgent else 1].append(turn)
        if not self._is_giving:
            self._is_giving = True
            loop.call_soon(self._give)
        await turn

    def _give(self) -> None:
        for line in self._waiting:
            while line:
                turn = line.popleft()
                if not turn.done():  # Whoever waited may have been cancelled.
                    turn.set_result(None)
                    asyncio.get_running_loop().call_soon(self._give)
                    return
        self._is_giving = False


class Loading(Generic[M]):
    def __init__(
        self, *, name: str, log: ReplayedLog, record_types: RecordTypes, machine: M, turns: Turns | None = None
    ) -> None:
        self._name = name
        self._log = log
        self._is_urgent = False
        self.machine = machine
        self.next_offset: Offset = log.start_offset
        self._record_types = record_types
        self._turns = turns or Turns()
        self._turn_count = 0
        self._latest: dict[bytes | None, tuple[Offset, bytes | None]] = {}

    @property
    def is_contradicted(self) -> bool:
        """The log has lost what was loaded, or what was to be loaded next."""
        return not self._log.start_offset <= self.next_offset <= self._log.end_offset

    def hurry_to_end_of(self, log: ReplayedLog) -> None:
        """The same log shows more by now, and somebody waits for it; also while `run` is under way."""
        self._log = log
        self._is_urgent = True

    async def run(self) -> None:
        """To the end of the log. `ApiError` when it cannot be read: the next run goes on from there."""
        while data := await self._log.read(self.next_offset):
            await self._rest()
            start_offset = self.next_offset
            for batch in batches(memoryview(data), stop_at_partial=True):
                header = batch.header
                if header.attributes & _SPECIAL:
                    await self._replay_latest()
                self._take(batch)
                self.next_offset = header.next_offset
                self._turn_count += header.record_count
                if self._turn_count >= TURN_RECORDS:
                    await self._rest()
            if self.next_offset == start_offset:
                raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self._name}: half a batch at {start_offset}")
        await self._replay_latest()
        invariant(self.next_offset <= self._log.end_offset, "a log is replayed to its end", offset=self.next_offset)

    def _take(self, batch: Batch) -> None:
        header = batch.header
        try:
            found = keys_and_values(batch)
        except ProtocolError as error:
            self._pass_over(header.base_offset, error)
            return
        if header.attributes & _SPECIAL:
            producer = ProducerIdentity(header.producer_id, header.producer_epoch)
            for offset, key, value in found:
                if header.is_control:
                    self._replay_control(producer, key)
                else:
                    self._replay(offset, key, value, producer)
            return
        latest = self._latest
        for offset, key, value in found:
            latest.pop(key, None)  # So that it moves to its place in the order.
            latest[key] = offset, value

    async def _replay_latest(self) -> None:
        latest, self._latest = self._latest, {}
        for key, (offset, value) in latest.items():
            self._replay(offset, key, value, None)
            self._turn_count += DECODED_WEIGHT
            if self._turn_count >= TURN_RECORDS:
                await self._rest()

    async def _rest(self) -> None:
        self._turn_count = 0
        await self._turns.wait(is_urgent=self._is_urgent)

    def _replay(
        self, offset: Offset, key: bytes | None, value: bytes | None, producer: ProducerIdentity | None
    ) -> None:
        try:
            record = self._record_types.decode(key, value)
        except ProtocolError as error:
            self._pass_over(offset, error)
            return
        if record is not None:
            self.machine.replay(record, offset=offset, transaction=producer)

    def _replay_control(self, producer: ProducerIdentity, key: bytes | None) -> None:
        control_type = control_type_of(key)
        if control_type in (ControlType.COMMIT, ControlType.ABORT):
            self.machine.replay_marker(producer, is_commit=control_type is ControlType.COMMIT)

    def _pass_over(self, offset: Offset, error: ProtocolError) -> None:
        logger.error("passing over a record", extra={"partition": self._name, "offset": offset, "reason": str(error)})
