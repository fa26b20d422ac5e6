"""The `.snapshot` files: producer state as of an offset, the one in the file's name.

Kafka's format 1: version int16, CRC-32C uint32 of all that follows, count int32, then 46 bytes a producer. Only the
last batch of each is in it; those before are looked for in the log (log/producer_tail.py). A snapshot is written at every
roll and at a clean close, and goes with its segment; one that does not check out is worth nothing and is replaced by an
older one and a longer replay.
"""

import struct
from collections.abc import Iterator
from typing import Final

from fastcrc.crc32 import iscsi as crc32c

from ottla.base.types import NO_OFFSET, ProducerId
from ottla.log.producer_state import Producer, ProducerBatch, ProducerState
from ottla.wire.batch import SEQUENCE_MAX

_VERSION: Final = 1
_HEAD: Final = struct.Struct(">hI")
_COUNT: Final = struct.Struct(">i")
_ENTRY: Final = struct.Struct(">qhiqiqiq")


class CorruptSnapshot(Exception):
    pass


def encode_snapshot(state: ProducerState) -> bytes:
    body = bytearray(_COUNT.pack(len(state.producers)))
    for producer_id, producer in state.producers.items():
        last = producer.batches[-1] if producer.batches else None
        body += _ENTRY.pack(
            producer_id,
            producer.epoch,
            producer.last_sequence,
            last.last_offset if last else NO_OFFSET,
            last.last_offset - last.base_offset if last else 0,
            producer.last_timestamp,
            producer.coordinator_epoch,
            producer.transaction_first_offset,
        )
    return _HEAD.pack(_VERSION, crc32c(body)) + body


def decode_snapshot(data: bytes) -> Iterator[tuple[ProducerId, Producer]]:
    if len(data) < _HEAD.size + _COUNT.size:
        raise CorruptSnapshot(f"{len(data)} bytes are too few")
    version, crc = _HEAD.unpack_from(data)
    body = memoryview(data)[_HEAD.size :]
    if version != _VERSION:
        raise CorruptSnapshot(f"version {version} is not one we know")
    if crc32c(body) != crc:
        raise CorruptSnapshot("its checksum does not match its bytes")
    if len(body) != _COUNT.size + _COUNT.unpack_from(body)[0] * _ENTRY.size:
        raise CorruptSnapshot("its length does not match its count")
    return map(_decode_entry, _ENTRY.iter_unpack(body[_COUNT.size :]))


def _decode_entry(fields: tuple[int, ...]) -> tuple[ProducerId, Producer]:
    producer_id, epoch, last_sequence, last_offset, offset_delta, timestamp, coordinator_epoch, first_offset = fields
    batches = []
    if last_offset >= 0:
        base_sequence = (last_sequence - offset_delta) & SEQUENCE_MAX
        batches = [ProducerBatch(base_sequence, last_sequence, last_offset - offset_delta, last_offset, timestamp)]
    producer = Producer(
        epoch,
        coordinator_epoch=coordinator_epoch,
        last_timestamp=timestamp,
        transaction_first_offset=max(first_offset, NO_OFFSET),
        batches=batches,
    )
    return producer_id, producer
