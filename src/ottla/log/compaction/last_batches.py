"""Which batch holds a live producer's last sequence: it stays, or the producer's next batch would be out of order.

Two batches of a producer may be that: the last of all, as the state of the log knows it, and the last that is met in
what is cleaned. All behind it may still be lost in a crash, and then the sequence goes on from there.
"""

from collections.abc import Mapping
from typing import NamedTuple

from ottla.base.types import Offset, ProducerId
from ottla.wire.batch import BatchHeader


class LastOfProducer(NamedTuple):
    """`last_offset` -1: the producer has no batch of data, its last trace is the marker of this epoch."""

    last_offset: Offset
    epoch: int


class LastBatches:
    __slots__ = ("_live", "_met")

    def __init__(self, live: Mapping[ProducerId, LastOfProducer]) -> None:
        self._live = live
        self._met: dict[ProducerId, Offset] = {}

    def meet(self, header: BatchHeader) -> None:
        """Every batch of data, in order."""
        if header.producer_id in self._live:
            self._met[header.producer_id] = header.last_offset

    @property
    def not_met(self) -> set[ProducerId]:
        return {producer_id for producer_id in self._live if producer_id not in self._met}

    def is_last(self, header: BatchHeader) -> bool:
        producer_id = header.producer_id
        last = self._live.get(producer_id) if producer_id >= 0 else None
        if last is None:
            return False
        if header.is_control:
            return last.last_offset < 0 and header.producer_epoch == last.epoch
        return header.last_offset in (last.last_offset, self._met.get(producer_id))
