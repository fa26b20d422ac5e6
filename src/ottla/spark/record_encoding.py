"""Arrow columns to record batches, without an object per record: the mirror image of `record_columns`.

A record is some varints, its key, another varint, its value and its headers. numpy computes the varints of all records at
once, as columns of bytes of which each row has the first few; Arrow then joins varints, keys, values and headers row by
row into one buffer, which is the batch: the first row begins with the room for its header. Values are copied once.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ottla.base.types import NO_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE
from ottla.wire.batch import HEADER, HEADER_BYTES, LENGTH_OVERHEAD_BYTES, MAGIC
from ottla.wire.compression import Codec, compress
from ottla.wire.varint import zigzag_varint

Ints = npt.NDArray[np.int64]

RECORD_OVERHEAD_BYTES_MAX: Final = 36
"""Attributes, and the longest varints of length, timestamp, offset, key length and value length."""

_NULL_LENGTH: Final = -1
_PAYLOAD: Final = np.uint64(0x7F)
_CONTINUES: Final = np.uint8(0x80)
_NO_HEADERS: Final = zigzag_varint(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordRows:
    """Records to be written to one partition, column by column."""

    keys: pa.Array | None
    values: pa.Array
    timestamps_ms: Ints
    headers: pa.Array | None
    """As `encode_headers` makes them."""

    def __len__(self) -> int:
        return len(self.values)

    def slice(self, start: int, stop: int) -> "RecordRows":
        return RecordRows(
            keys=None if self.keys is None else self.keys[start:stop],
            values=self.values[start:stop],
            timestamps_ms=self.timestamps_ms[start:stop],
            headers=None if self.headers is None else self.headers[start:stop],
        )

    def take(self, rows: Ints) -> "RecordRows":
        chosen = pa.array(rows)
        return RecordRows(
            keys=None if self.keys is None else self.keys.take(chosen),
            values=self.values.take(chosen),
            timestamps_ms=self.timestamps_ms[rows],
            headers=None if self.headers is None else self.headers.take(chosen),
        )


class EncodedBatch(NamedTuple):
    """Without producer, sequence and checksum: whoever sends it sets those."""

    data: bytearray | memoryview
    record_count: int


def encode_batches(rows: RecordRows, *, batch_bytes_max: int, codec: Codec = Codec.NONE) -> Iterator[EncodedBatch]:
    """All rows in order, in batches of at most `batch_bytes_max` before compression; a larger record is alone in one."""
    sizes = np.full(len(rows), RECORD_OVERHEAD_BYTES_MAX, np.int64)
    for column in (rows.keys, rows.values, rows.headers):
        if column is not None:
            sizes += np.maximum(_lengths(column), 0)
    ends = np.cumsum(sizes)
    start, done_bytes = 0, 0
    while start < len(rows):
        fitting = int(np.searchsorted(ends, done_bytes + batch_bytes_max - HEADER_BYTES, side="right"))
        stop = max(fitting, start + 1)
        yield EncodedBatch(_encode(rows.slice(start, stop), codec), stop - start)
        start, done_bytes = stop, int(ends[stop - 1])


def encode_headers(column: pa.Array) -> pa.Array:
    """Of an array of lists of (key, value): the headers of each record as they end it."""
    return pa.array([_encoded_headers(row) for row in column.to_pylist()], pa.binary())


def _encoded_headers(headers: list[dict[str, Any]] | None) -> bytes:
    parts = [zigzag_varint(len(headers or ()))]
    for header in headers or ():
        name, value = header["key"], header["value"]
        if name is None:
            raise ValueError("a header without a key: every element of the column headers needs one")
        encoded = name.encode()
        parts += (zigzag_varint(len(encoded)), encoded)
        parts += (zigzag_varint(_NULL_LENGTH),) if value is None else (zigzag_varint(len(value)), value)
    return b"".join(parts)


# -- one batch --------------------------------------------------------------------------------------------------------


def _encode(rows: RecordRows, codec: Codec) -> bytearray | memoryview:
    first, last = int(rows.timestamps_ms[0]), int(rows.timestamps_ms.max())
    data: bytearray | memoryview = _room_and_records(rows)
    if codec is not Codec.NONE:
        data = bytearray(HEADER_BYTES) + compress(codec, data[HEADER_BYTES:])
    HEADER.pack_into(
        data,
        0,
        0,
        len(data) - LENGTH_OVERHEAD_BYTES,
        NO_EPOCH,
        MAGIC,
        0,
        codec,
        len(rows) - 1,
        first,
        last,
        NO_PRODUCER_ID,
        NO_EPOCH,
        NO_SEQUENCE,
        len(rows),
    )
    return data


def _room_and_records(rows: RecordRows) -> memoryview:
    """Writable: the room for a header, and the records."""
    count = len(rows)
    key_lengths = np.full(count, _NULL_LENGTH, np.int64) if rows.keys is None else _lengths(rows.keys)
    value_lengths = _lengths(rows.values)
    front = _Columns(count)
    front.add_constant(0)  # attributes
    front.add_varints(rows.timestamps_ms - rows.timestamps_ms[0])
    front.add_varints(np.arange(count))
    front.add_varints(key_lengths)
    middle = _Columns(count)
    middle.add_varints(value_lengths)
    header_bytes = 1 if rows.headers is None else _lengths(rows.headers)
    field_bytes = np.maximum(key_lengths, 0) + np.maximum(value_lengths, 0)
    sizes = _Columns(count)
    sizes.add_varints(front.widths() + middle.widths() + field_bytes + header_bytes)
    parts = [
        sizes.joined_with(front, room_bytes=HEADER_BYTES),
        *([] if rows.keys is None else [rows.keys]),
        middle.joined_with(),
        rows.values,
        pa.scalar(_NO_HEADERS, pa.binary()) if rows.headers is None else rows.headers,
        pa.scalar(b"", pa.binary()),  # Between the parts.
    ]
    joined = pc.binary_join_element_wise(*parts, null_handling="replace", null_replacement="")
    _, edges, content = joined.buffers()
    offsets = np.frombuffer(edges, np.int32)
    return memoryview(content).cast("B")[offsets[joined.offset] : offsets[joined.offset + count]]


class _Columns:
    """Columns of bytes; each row has some of them, and its bytes are those it has, from left to right."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._bytes: list[npt.NDArray[np.uint8]] = []
        self._present: list[npt.NDArray[np.bool_]] = []

    def add_constant(self, byte: int) -> None:
        self._bytes.append(np.full(self._count, byte, np.uint8))
        self._present.append(np.ones(self._count, np.bool_))

    def add_varints(self, values: Ints) -> None:
        """Zigzag, the lowest seven bits first."""
        rest = ((values << 1) ^ (values >> 63)).astype(np.uint64)
        present = np.ones(self._count, np.bool_)
        while True:
            continues = rest > _PAYLOAD
            low = (rest & _PAYLOAD).astype(np.uint8)
            self._bytes.append(np.where(continues, low | _CONTINUES, low))
            self._present.append(present)
            if not continues.any():
                return
            present, rest = continues, rest >> np.uint64(7)

    def widths(self) -> Ints:
        widths: Ints = np.sum(self._present, axis=0, dtype=np.int64)
        return widths

    def joined_with(self, *others: "_Columns", room_bytes: int = 0) -> pa.Array:
        """A value for each row; the first begins with some bytes of no meaning."""
        every = (self, *others)
        present = np.column_stack([column for one in every for column in one._present])
        content = np.column_stack([column for one in every for column in one._bytes])[present]
        if room_bytes:
            content = np.concatenate([np.zeros(room_bytes, np.uint8), content])
        edges = np.zeros(self._count + 1, np.int32)
        edges[1:] = np.cumsum(present.sum(axis=1)) + room_bytes
        return pa.Array.from_buffers(pa.binary(), self._count, [None, pa.py_buffer(edges), pa.py_buffer(content)])


def _lengths(column: pa.Array) -> Ints:
    """-1 for null."""
    lengths: Ints = pc.binary_length(column).fill_null(_NULL_LENGTH).to_numpy(zero_copy_only=False).astype(np.int64)
    return lengths
