"""The files beside a segment: indexes, producer snapshots, aborted transactions, and Kafka's small text files."""

import struct
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from fastcrc.crc32 import iscsi as crc32c

from ottla.cli.dump import Column, Dump, Kind
from ottla.cli.output import counted

OFFSET_ENTRY: Final = struct.Struct(">ii")  # Offset after the base, position in the segment.
TIME_ENTRY: Final = struct.Struct(">qi")  # Timestamp, offset after the base.
SNAPSHOT_HEAD: Final = struct.Struct(">hI")  # Version, CRC-32C of what follows.
SNAPSHOT_COUNT: Final = struct.Struct(">i")
SNAPSHOT_ENTRY: Final = struct.Struct(">qhiqiqiq")
ABORTED_ENTRY: Final = struct.Struct(">hqqqq")


def dump_offset_index(data: bytes, base_offset: int) -> Dump:
    rows = [(base_offset + delta, position) for delta, position in filled_entries(OFFSET_ENTRY, data)]
    return Dump(
        kind="offset index",
        columns=(Column("offset"), Column("position")),
        rows=rows,
        remark=entries_remark(rows, data, OFFSET_ENTRY),
        trouble=index_trouble(rows, data, OFFSET_ENTRY),
    )


def dump_time_index(data: bytes, base_offset: int) -> Dump:
    rows = [(timestamp, base_offset + delta) for timestamp, delta in filled_entries(TIME_ENTRY, data)]
    return Dump(
        kind="time index",
        columns=(Column("timestamp", Kind.TIME), Column("offset")),
        rows=rows,
        remark=entries_remark(rows, data, TIME_ENTRY),
        trouble=index_trouble(rows, data, TIME_ENTRY),
    )


def filled_entries(entry: struct.Struct, data: bytes) -> Iterator[tuple[int, ...]]:
    """Up to the first empty one: the index of an active segment may be allocated ahead, in zeros."""
    whole = data[: len(data) - len(data) % entry.size]
    for fields in entry.iter_unpack(whole):
        if not any(fields):
            return
        yield fields


def entries_remark(rows: Sequence[tuple[int, ...]], data: bytes, entry: struct.Struct) -> str:
    spare = len(data) // entry.size - len(rows)
    return counted(len(rows), "entry", "entries") + (f", room for {spare:,} more" if spare else "")


def index_trouble(rows: Sequence[tuple[int, ...]], data: bytes, entry: struct.Struct) -> str | None:
    if len(data) % entry.size:
        return f"{len(data):,} bytes are not a multiple of {entry.size}"
    if any(earlier[0] >= later[0] or earlier[1] > later[1] for earlier, later in pairwise(rows)):
        return "entries do not grow"
    return None


def dump_snapshot(data: bytes) -> Dump:
    """Producer state as of the offset in the file's name (KIP-98)."""
    columns = (
        Column("producer id"),
        Column("epoch"),
        Column("last sequence"),
        Column("first offset"),
        Column("last offset"),
        Column("last timestamp", Kind.TIME),
        Column("coordinator epoch", hidden=True),
        Column("transaction starts"),
    )
    if len(data) < SNAPSHOT_HEAD.size + SNAPSHOT_COUNT.size:
        return Dump(kind="producer snapshot", columns=columns, trouble=f"{len(data)} bytes are too few")
    version, crc = SNAPSHOT_HEAD.unpack_from(data)
    body = data[SNAPSHOT_HEAD.size :]
    (count,) = SNAPSHOT_COUNT.unpack_from(body)
    entries = body[SNAPSHOT_COUNT.size :]
    trouble = None
    if crc32c(body) != crc:
        trouble = "wrong checksum"
    elif len(entries) != count * SNAPSHOT_ENTRY.size:
        trouble = f"{len(entries):,} bytes do not hold {count:,} producers"
    whole = entries[: len(entries) - len(entries) % SNAPSHOT_ENTRY.size]
    rows = [snapshot_row(fields) for fields in SNAPSHOT_ENTRY.iter_unpack(whole)]
    remark = f"{counted(len(rows), 'producer')}, format {version}"
    return Dump(kind="producer snapshot", columns=columns, rows=rows, remark=remark, trouble=trouble)


def snapshot_row(fields: tuple[int, ...]) -> tuple[int | None, ...]:
    producer_id, epoch, last_sequence, last_offset, delta, timestamp, coordinator_epoch, transaction_start = fields
    return (
        producer_id,
        epoch,
        last_sequence,
        None if last_offset < 0 else last_offset - delta,
        None if last_offset < 0 else last_offset,
        timestamp,
        coordinator_epoch,
        None if transaction_start < 0 else transaction_start,
    )


def dump_aborted(data: bytes) -> Dump:
    whole = data[: len(data) - len(data) % ABORTED_ENTRY.size]
    rows = [fields[1:] for fields in ABORTED_ENTRY.iter_unpack(whole)]
    return Dump(
        kind="aborted transactions",
        columns=(Column("producer id"), Column("first offset"), Column("last offset"), Column("last stable offset")),
        rows=rows,
        remark=counted(len(rows), "transaction"),
        trouble=f"{len(data):,} bytes are not a multiple of {ABORTED_ENTRY.size}" if len(whole) != len(data) else None,
    )


def dump_checkpoint(data: bytes, *, columns: Sequence[str]) -> Dump:
    """Version, number of lines, lines of words."""
    lines = data.decode(errors="replace").splitlines()
    rows = [tuple(line.rsplit(" ", len(columns) - 1)) for line in lines[2:] if line]
    trouble = None
    if lines[:1] != ["0"] or lines[1:2] != [str(len(rows))] or any(len(row) != len(columns) for row in rows):
        trouble = "not a checkpoint: version 0, the number of lines, then the lines"
        rows = [row for row in rows if len(row) == len(columns)]
    return Dump(
        kind="checkpoint",
        columns=tuple(Column(name, Kind.TEXT) for name in columns),
        rows=rows,
        remark=counted(len(rows), "line"),
        trouble=trouble,
    )


def dump_properties(data: bytes, *, separator: str) -> Dump:
    lines = [line for line in data.decode(errors="replace").splitlines() if line and not line.startswith("#")]
    pairs = [line.partition(separator) for line in lines]
    rows = [(name.strip(), value.strip()) for name, _, value in pairs]
    columns = (Column("name", Kind.TEXT), Column("value", Kind.TEXT))
    return Dump(kind="properties", columns=columns, rows=rows, remark=counted(len(rows), "property", "properties"))
