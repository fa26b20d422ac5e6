"""Reading a coordinator's log back into a machine.

Of records with the same key only the last counts, as it does after compaction: outside transactions they are gathered as
bytes first, and only what is left is decoded and replayed, in the order of the log. A batch of a transaction, or its
marker, ends such a stretch. Work is done in small turns: requests for other partitions go on meanwhile.
"""

import asyncio
import logging
from typing import Final

from ottla.base.errors import ProtocolError, invariant
from ottla.base.types import Offset
from ottla.coordinator.machine import CoordinatorLog, Machine, ProducerIdentity
from ottla.coordinator.records import RecordTypes
from ottla.wire.batch import CONTROL_BIT, TRANSACTIONAL_BIT
from ottla.wire.key_value_reader import keys_and_values
from ottla.wire.records import Batch, ControlType, batches, control_type_of

logger = logging.getLogger(__name__)

TURN_RECORDS: Final = 1_000  # A turn of the loop takes about as long as a large request.
DECODED_WEIGHT: Final = 5  # To decode and replay a record takes as long as to gather so many.
_SPECIAL: Final = TRANSACTIONAL_BIT | CONTROL_BIT


class Loading:
    def __init__(self, name: str, log: CoordinatorLog, record_types: RecordTypes, machine: Machine) -> None:
        self._name = name
        self._log = log
        self._record_types = record_types
        self._machine = machine
        self._latest: dict[bytes | None, tuple[Offset, bytes | None]] = {}
        self._turn_count = 0

    async def run(self) -> None:
        """`ApiError` when the log cannot be read."""
        offset = 0
        while data := await self._log.read(offset):
            for batch in batches(memoryview(data)):
                header = batch.header
                offset = header.next_offset
                if header.attributes & _SPECIAL:
                    await self._replay_latest()
                self._take(batch)
                self._turn_count += header.record_count
                if self._turn_count >= TURN_RECORDS:
                    await self._rest()
        await self._replay_latest()
        invariant(offset <= self._log.end_offset, "nobody else appends while a coordinator is loaded", offset=offset)

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
        await asyncio.sleep(0)

    def _replay(
        self, offset: Offset, key: bytes | None, value: bytes | None, producer: ProducerIdentity | None
    ) -> None:
        try:
            record = self._record_types.decode(key, value)
        except ProtocolError as error:
            self._pass_over(offset, error)
            return
        if record is not None:
            self._machine.replay(record, offset=offset, transaction=producer)

    def _replay_control(self, producer: ProducerIdentity, key: bytes | None) -> None:
        control_type = control_type_of(key)
        if control_type in (ControlType.COMMIT, ControlType.ABORT):
            self._machine.replay_marker(producer, is_commit=control_type is ControlType.COMMIT)

    def _pass_over(self, offset: Offset, error: ProtocolError) -> None:
        logger.error("passing over a record", extra={"partition": self._name, "offset": offset, "reason": str(error)})
