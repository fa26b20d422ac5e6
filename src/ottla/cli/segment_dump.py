"""A segment (`.log`) or a metadata snapshot (`.checkpoint`): record batches one after another, checked on the way.

What cannot be read ends the walk and is reported, not raised: whoever dumps a file often suspects it already.
"""

from collections.abc import Iterator
from typing import Final

from ottla.base.errors import ProtocolError
from ottla.cli.dump import Column, Dump, Kind, Row, first_rows
from ottla.cli.metadata_text import metadata_text
from ottla.cli.output import counted, size_text
from ottla.cli.record_format import visible
from ottla.wire.records import Batch, BatchHeader, Record, batches, control_type_of, is_crc_valid, records_of

BATCH_COLUMNS: Final = (
    Column("position"),
    Column("offsets", Kind.TEXT),
    Column("first offset", hidden=True),
    Column("last offset", hidden=True),
    Column("records"),
    Column("size", Kind.SIZE),
    Column("codec", Kind.TEXT),
    Column("first timestamp", Kind.TIME, hidden=True),
    Column("last timestamp", Kind.TIME),
    Column("leader epoch", hidden=True),
    Column("producer", Kind.TEXT),
    Column("producer id", hidden=True),
    Column("producer epoch", hidden=True),
    Column("first sequence", hidden=True),
    Column("kind", Kind.TEXT),
    Column("crc", Kind.CHECK),
)
RECORD_COLUMNS: Final = (
    Column("offset"),
    Column("timestamp", Kind.TIME),
    Column("key", Kind.CLIPPED),
    Column("value", Kind.CLIPPED),
    Column("headers", Kind.CLIPPED),
)


class Walk:
    """Batches of a file until its end or the first that cannot be one. Totals and `trouble` are known after it."""

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self._troubles: list[str] = []
        self._bad_positions: list[int] = []
        self.batch_count = 0
        self.record_count = 0
        self.first_offset: int | None = None
        self.last_offset: int | None = None

    def __iter__(self) -> Iterator[tuple[Batch, bool]]:
        """Each batch, and whether its checksum is right."""
        try:
            for batch in batches(self._data):
                is_valid = is_crc_valid(batch.view)
                self._count(batch, is_valid)
                yield batch, is_valid
        except ProtocolError as error:
            self.note(str(error))
        if self._bad_positions:
            self.note(f"wrong checksum at position {', '.join(f'{at:,}' for at in self._bad_positions[:5])}")

    def note(self, trouble: str) -> None:
        self._troubles.append(trouble)

    @property
    def trouble(self) -> str | None:
        return "; ".join(self._troubles) or None

    def _count(self, batch: Batch, is_valid: bool) -> None:
        self.batch_count += 1
        self.record_count += batch.header.record_count
        if self.first_offset is None:
            self.first_offset = batch.header.base_offset
        self.last_offset = batch.header.last_offset
        if not is_valid:
            self._bad_positions.append(batch.position)

    @property
    def remark(self) -> str:
        if not self.batch_count:
            return "no batches"
        held = f"{counted(self.batch_count, 'batch', 'batches')}, {counted(self.record_count, 'record')}"
        return f"{held}, offsets {self.first_offset:,} to {self.last_offset:,}, {size_text(len(self._data))}"


def dump_batches(data: memoryview, *, rows_max: int | None = None) -> Dump:
    walk = Walk(data)
    rows, left_out = first_rows((batch_row(batch, is_valid) for batch, is_valid in walk), rows_max)
    return Dump(
        kind="segment",
        columns=BATCH_COLUMNS,
        rows=rows,
        rows_left_out=left_out,
        remark=walk.remark,
        trouble=walk.trouble,
    )


def batch_row(batch: Batch, is_valid: bool) -> Row:
    header = batch.header
    return (
        batch.position,
        f"{header.base_offset:,} – {header.last_offset:,}",
        header.base_offset,
        header.last_offset,
        header.record_count,
        header.size_bytes,
        codec_text(header),
        header.base_timestamp,
        header.max_timestamp,
        header.partition_leader_epoch,
        producer_text(header),
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        kind_text(header),
        is_valid,
    )


def codec_text(header: BatchHeader) -> str:
    try:
        return header.codec.name.lower()
    except ProtocolError:
        return "unknown"


def producer_text(header: BatchHeader) -> str | None:
    """id:epoch@first sequence"""
    if not header.has_producer_id:
        return None
    return f"{header.producer_id}:{header.producer_epoch}@{header.base_sequence}"


def kind_text(header: BatchHeader) -> str:
    words = [("txn", header.is_transactional), ("control", header.is_control)]
    return " ".join(word for word, holds in words if holds) or "data"


def dump_records(data: memoryview, *, is_metadata: bool, rows_max: int | None = None) -> Dump:
    walk = Walk(data)
    rows, left_out = first_rows(record_rows(walk, is_metadata=is_metadata), rows_max)
    return Dump(
        kind="records",
        columns=RECORD_COLUMNS,
        rows=rows,
        rows_left_out=left_out,
        remark=walk.remark,
        trouble=walk.trouble,
    )


def record_rows(walk: Walk, *, is_metadata: bool) -> Iterator[Row]:
    for batch, _ in walk:
        try:
            for record in records_of(batch.view):
                yield record_row(record, is_control=batch.header.is_control, is_metadata=is_metadata)
        except ProtocolError as error:
            walk.note(f"unreadable records at position {batch.position:,}")
            yield batch.header.base_offset, batch.header.base_timestamp, None, f"unreadable: {error}", None


def record_row(record: Record, *, is_control: bool, is_metadata: bool) -> Row:
    key: str | None = None if record.key is None else visible(record.key)
    value: str | None = None if record.value is None else visible(record.value)
    if is_control:
        control_type = control_type_of(record.key)
        key, value = None, f"control: {'unknown' if control_type is None else control_type.name}"
    elif is_metadata and record.value is not None:
        value = metadata_text(record.value)
    headers = " ".join(f"{name}={'null' if data is None else visible(data)}" for name, data in record.headers)
    return record.offset, record.timestamp, key, value, headers or None
