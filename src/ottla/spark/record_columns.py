"""Record batches straight to Arrow columns, without an object per record.

Python walks only the records' lengths; numpy decodes every other field of all records at once, and Arrow gathers keys
and values: an array whose offsets are [start₀, end₀, start₁, end₁, …] over the received buffer holds each value as every
second element, and `take` copies those out in one go. All positions are checked against their record before Arrow sees
them, because Arrow would follow them anywhere.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ottla.base.errors import ProtocolError
from ottla.base.types import Offset
from ottla.wire.batch import HEADER_BYTES, Batch, TimestampType, check_crc
from ottla.wire.compression import Codec, decompress
from ottla.wire.record_reader import DECOMPRESSED_BYTES_MAX, headers_at

Ints = npt.NDArray[np.int64]

HEADERS_TYPE: Final = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))

_VARINT_BYTES_MAX: Final = 10
_ARROW_OFFSET_MAX: Final = 2**31 - 1
_CONTINUES: Final = 0x80
_PAYLOAD: Final = 0x7F


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordColumns:
    """The records of some batches, column by column."""

    offsets: Ints
    timestamps_ms: Ints
    timestamp_types: npt.NDArray[np.int32]
    keys: pa.Array
    values: pa.Array
    headers: pa.Array | None  # Only where they were asked for.

    def __len__(self) -> int:
        return len(self.offsets)

    def between(self, low: Offset, high: Offset) -> "RecordColumns":
        """The records of [low, high)."""
        first, last = (int(edge) for edge in np.searchsorted(self.offsets, [low, high]))
        if last - first == len(self):
            return self
        return RecordColumns(
            offsets=self.offsets[first:last],
            timestamps_ms=self.timestamps_ms[first:last],
            timestamp_types=self.timestamp_types[first:last],
            keys=self.keys[first:last],
            values=self.values[first:last],
            headers=None if self.headers is None else self.headers[first:last],
        )


def decode_columns(received: memoryview, found: Sequence[Batch], *, with_headers: bool = False) -> RecordColumns:
    """All records of data batches found in what was received, in order. `ProtocolError` for anything that is not what
    its header says."""
    for batch in found:
        check_crc(batch.view)
    buffer, bodies = _bodies(received, found)
    if len(buffer) > _ARROW_OFFSET_MAX:
        raise ProtocolError(
            f"{len(buffer)} bytes of records are more than one Arrow array can hold: fetch less at once"
        )
    starts, ends = _walk(buffer, bodies, [batch.header.record_count for batch in found])
    return _decode(buffer, starts, ends, found, with_headers)


def _bodies(received: memoryview, found: Sequence[Batch]) -> tuple[memoryview, list[tuple[int, int]]]:
    """One buffer with the uncompressed records of all batches, and where those of each lie in it."""
    if all(batch.header.codec is Codec.NONE for batch in found):
        return received, [(one.position + HEADER_BYTES, one.position + one.header.size_bytes) for one in found]
    parts: list[memoryview | bytes] = []
    spans: list[tuple[int, int]] = []
    size = 0
    for batch in found:
        body: memoryview | bytes = batch.view[HEADER_BYTES:]
        if batch.header.codec is not Codec.NONE:
            body = decompress(batch.header.codec, body, max_bytes=DECOMPRESSED_BYTES_MAX)
        parts.append(body)
        spans.append((size, size + len(body)))
        size += len(body)
    return memoryview(b"".join(parts)), spans


def _walk(buffer: memoryview, bodies: list[tuple[int, int]], counts: list[int]) -> tuple[Ints, Ints]:
    """Where the body of each record begins and ends: the one loop over records in Python."""
    starts: list[int] = []
    ends: list[int] = []
    for (position, limit), count in zip(bodies, counts, strict=True):
        try:
            for _ in range(count):
                length = buffer[position]
                position += 1
                if length >= _CONTINUES:
                    second = buffer[position]
                    position += 1
                    length = length & _PAYLOAD | (second & _PAYLOAD) << 7
                    shift = 14
                    while second >= _CONTINUES:
                        second = buffer[position]
                        position += 1
                        length |= (second & _PAYLOAD) << shift
                        shift += 7
                starts.append(position)
                position += length >> 1
                ends.append(position)
        except IndexError:
            raise ProtocolError("a record's length leaves its batch") from None
        if position != limit:
            raise ProtocolError(f"{count} records end at {position}, their batch at {limit}")
    return np.array(starts, np.int64), np.array(ends, np.int64)


def _decode(buffer: memoryview, starts: Ints, ends: Ints, found: Sequence[Batch], with_headers: bool) -> RecordColumns:
    data = np.frombuffer(buffer, np.uint8)
    counts = [batch.header.record_count for batch in found]

    def of_batch(values: list[int]) -> Ints:
        return np.repeat(np.array(values, np.int64), counts)

    reader = _Reader(data, starts + 1, ends)  # Behind the attributes, which are unused.
    timestamps = of_batch([batch.header.base_timestamp for batch in found]) + reader.varints()
    offsets = of_batch([batch.header.base_offset for batch in found]) + reader.varints()
    keys = reader.fields(buffer)
    values = reader.fields(buffer)
    headers = _headers(buffer, reader.positions, ends) if with_headers else None
    types = of_batch([batch.header.timestamp_type for batch in found])
    append_times = of_batch([batch.header.max_timestamp for batch in found])
    timestamps = np.where(types == TimestampType.LOG_APPEND_TIME, append_times, timestamps)
    return RecordColumns(
        offsets=offsets,
        timestamps_ms=timestamps,
        timestamp_types=types.astype(np.int32),
        keys=keys,
        values=values,
        headers=headers,
    )


class _Reader:
    """A position in every record, all moved on together."""

    def __init__(self, data: npt.NDArray[np.uint8], positions: Ints, ends: Ints) -> None:
        self._data = data
        self.positions = positions
        self._ends = ends
        self._last = len(data) - 1

    def varints(self) -> Ints:
        """The next zigzag varint of every record."""
        positions = self.positions
        read = self._bytes_at(positions)
        value = (read & _PAYLOAD).astype(np.uint64)
        positions = positions + 1
        (going,) = np.nonzero(read >= _CONTINUES)
        for shift in range(7, 7 * _VARINT_BYTES_MAX, 7):
            if not len(going):
                break
            read = self._bytes_at(positions[going])
            value[going] |= (read & _PAYLOAD).astype(np.uint64) << np.uint64(shift)
            positions[going] += 1
            going = going[read >= _CONTINUES]
        if len(going):
            raise ProtocolError("a varint has more than ten bytes")
        self._move(positions)
        return (value >> np.uint64(1)).astype(np.int64) ^ -(value & np.uint64(1)).astype(np.int64)

    def fields(self, buffer: memoryview) -> pa.Array:
        """The next length and bytes of every record as an Arrow array; length -1 is null."""
        lengths = self.varints()
        if len(lengths) and int(lengths.min()) < -1:
            raise ProtocolError("a length in a record is below -1")
        begins = self.positions
        self._move(begins + np.maximum(lengths, 0))
        return _gather(buffer, begins, self.positions, lengths < 0)

    def _bytes_at(self, positions: Ints) -> npt.NDArray[np.uint8]:
        return self._data[np.minimum(positions, self._last)]  # Past the end is found out by `_move`.

    def _move(self, positions: Ints) -> None:
        if np.any(positions > self._ends):
            raise ProtocolError("a field leaves its record")
        self.positions = positions


def _gather(buffer: memoryview, begins: Ints, ends: Ints, nulls: npt.NDArray[np.bool_]) -> pa.Array:
    count = len(begins)
    if count == 0:
        return pa.array([], pa.binary())
    edges = np.empty(2 * count, np.int32)
    edges[0::2] = begins
    edges[1::2] = ends
    pieces = pa.Array.from_buffers(pa.binary(), 2 * count - 1, [None, pa.py_buffer(edges), pa.py_buffer(buffer)])
    return pieces.take(pa.array(np.arange(0, 2 * count, 2, dtype=np.int32), mask=nulls if nulls.any() else None))


def _headers(buffer: memoryview, positions: Ints, ends: Ints) -> pa.Array:
    """Most records have none, which is one zero byte; those that do are read one by one."""
    (rows_with_headers,) = np.nonzero(ends - positions > 1)
    rows: list[list[dict[str, str | bytes | None]] | None] = [None] * len(positions)
    for row in rows_with_headers.tolist():
        encoded = bytes(buffer[int(positions[row]) : int(ends[row])])
        found = headers_at(encoded, 0, len(encoded))
        rows[row] = [{"key": name, "value": value} for name, value in found]
    return pa.array(rows, HEADERS_TYPE)
