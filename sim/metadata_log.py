"""A metadata log whose commits lag, fail and lose leadership: what a quorum of several nodes will do to a controller.

`append` is immediate, as its port says. A commit takes a while; now and then leadership is lost instead: some first part
of what was not committed survives under the next leader, the rest is gone, and everyone who waits is told that nothing
is known.
"""

import asyncio
import errno
from collections.abc import Sequence
from random import Random

from ottla.metadata.image import MetadataBatch
from ottla.metadata.metadata_log import CommitFailed
from ottla.metadata.records import MetadataRecord
from sim.clock import SimulatedClock
from sim.trace import Trace


class SimulatedMetadataLog:
    """Implements `MetadataLog`."""

    def __init__(
        self,
        clock: SimulatedClock,
        chance: Random,
        trace: Trace,
        *,
        loss_probability: float = 0.1,
        full_probability: float = 0.02,
        lag_seconds_max: float = 0.5,
    ) -> None:
        self._clock = clock
        self._chance = chance
        self._trace = trace
        self._loss_probability = loss_probability
        self._full_probability = full_probability
        self._lag_seconds_max = lag_seconds_max
        self.batches: list[MetadataBatch] = []
        self.committed_offset = -1
        self.epoch = 1

    def append(self, records: Sequence[MetadataRecord]) -> MetadataBatch:
        if self._chance.random() < self._full_probability:
            raise OSError(errno.ENOSPC, "no space left for metadata")
        end_offset = self.batches[-1].last_offset if self.batches else -1
        batch = MetadataBatch(tuple(records), end_offset + len(records), self.epoch, self._clock.now_ms())
        self.batches.append(batch)
        self._trace.add("append metadata", batch.last_offset)
        return batch

    async def committed(self, offset: int) -> None:
        epoch = self.epoch
        await asyncio.sleep(self._chance.random() * self._lag_seconds_max)
        if self.epoch == epoch and self._chance.random() < self._loss_probability:
            self.lose_leadership()
        if self.epoch != epoch:
            raise CommitFailed("another node leads")
        self.committed_offset = max(self.committed_offset, offset)
        self._trace.add("commit metadata", self.committed_offset)

    def lose_leadership(self) -> None:
        self.epoch += 1
        committed = [batch for batch in self.batches if batch.last_offset <= self.committed_offset]
        doubtful = self.batches[len(committed) :]
        self.batches = committed + doubtful[: self._chance.randint(0, len(doubtful))]
        self.committed_offset = self.batches[-1].last_offset if self.batches else -1
        self._trace.add("leadership lost", self.epoch, self.committed_offset)

    def after(self, offset: int) -> list[MetadataBatch]:
        return [batch for batch in self.batches if batch.last_offset > offset]
