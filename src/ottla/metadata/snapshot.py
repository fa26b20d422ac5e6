"""Metadata snapshots: the image at one offset as a file of record batches, in Kafka's format.

`<end offset, 20 digits>-<epoch, 10 digits>.checkpoint` holds a SnapshotHeader control batch, control records of the quorum
(who votes), the image's records and a SnapshotFooter; the end offset is exclusive. A file without its footer, or with a
rotten batch, is not a snapshot. It is written whole and renamed into place, so that a crash leaves the old one; what comes
in pieces from another node is a `.part` until it is whole and checked. Two are kept, and the log from the older one on, so
that one bad file does not end the cluster.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from posixpath import join
from typing import Final, NamedTuple

from ottla.base.disk import Disk
from ottla.base.errors import ProtocolError
from ottla.base.types import LeaderEpoch, Offset, TimestampMs
from ottla.metadata.image import MetadataBatch, MetadataImage
from ottla.metadata.image_records import image_records
from ottla.metadata.records import MetadataRecord, decode_record, encode_record
from ottla.wire import api
from ottla.wire.codec import codec_for
from ottla.wire.records import (
    Batch,
    BatchBuilder,
    ControlType,
    batches,
    check_crc,
    control_batch,
    control_type_of,
    records_of,
)

SNAPSHOTS_KEPT: Final = 2
RECORDS_PER_BATCH: Final = 1000
CONTROL_VERSION: Final = 0
PART: Final = ".part"

ControlRecord = tuple[ControlType, bytes]
"""A record of the quorum's own among those of the image."""

_NAME: Final = re.compile(r"(\d{20})-(\d{10})\.checkpoint", re.ASCII)


class SnapshotId(NamedTuple):
    """Ordered by age: the newest is the greatest."""

    end_offset: Offset
    epoch: LeaderEpoch

    @property
    def file_name(self) -> str:
        return f"{self.end_offset:020d}-{self.epoch:010d}.checkpoint"


class Snapshot(NamedTuple):
    id: SnapshotId
    image: MetadataImage
    controls: Sequence[ControlRecord]


def snapshot_id_of(image: MetadataImage) -> SnapshotId:
    return SnapshotId(image.offset + 1, image.epoch)


# ---- bytes ----


def encode_snapshot(image: MetadataImage, now_ms: TimestampMs, controls: Sequence[ControlRecord] = ()) -> bytes:
    """Reads the image only; give it a copy and run it outside the loop."""
    writer = _SnapshotWriter(image.epoch, now_ms)
    header = api.SnapshotHeaderRecord(version=0, last_contained_log_timestamp=image.timestamp_ms)
    writer.control(ControlType.SNAPSHOT_HEADER, codec_for(api.SnapshotHeaderRecord, CONTROL_VERSION).encode(header))
    for control_type, value in controls:
        writer.control(control_type, value)
    for chunk in _chunks(image_records(image)):
        writer.records(chunk)
    footer = api.SnapshotFooterRecord(version=0)
    writer.control(ControlType.SNAPSHOT_FOOTER, codec_for(api.SnapshotFooterRecord, CONTROL_VERSION).encode(footer))
    return bytes(writer.out)


class _SnapshotWriter:
    """Batches one after the other; offsets count from 0 within the file."""

    def __init__(self, epoch: LeaderEpoch, now_ms: TimestampMs) -> None:
        self.out = bytearray()
        self._epoch = epoch
        self._now_ms = now_ms
        self._next_offset = 0

    def control(self, control_type: ControlType, value: bytes) -> None:
        self.out += control_batch(
            control_type, value, timestamp=self._now_ms, base_offset=self._next_offset, leader_epoch=self._epoch
        )
        self._next_offset += 1

    def records(self, records: list[MetadataRecord]) -> None:
        builder = BatchBuilder(base_offset=self._next_offset, leader_epoch=self._epoch)
        for record in records:
            builder.append(self._now_ms, None, encode_record(record))
        self.out += builder.build()
        self._next_offset += len(records)


def decode_snapshot(data: bytes, snapshot_id: SnapshotId) -> Snapshot:
    """What the file says; `ProtocolError` if it is no whole snapshot."""
    found = list(batches(memoryview(data)))
    for batch in found:
        check_crc(batch.view)
    controls = [control for batch in found if batch.header.is_control for control in _controls_in(batch)]
    if len(controls) < 2 or controls[0][0] is not ControlType.SNAPSHOT_HEADER or not found[0].header.is_control:
        raise ProtocolError("a snapshot begins with its header")
    if controls[-1][0] is not ControlType.SNAPSHOT_FOOTER or not found[-1].header.is_control:
        raise ProtocolError("a snapshot ends with its footer")
    header, _ = codec_for(api.SnapshotHeaderRecord, CONTROL_VERSION).decode(memoryview(controls[0][1]), 0)
    records = [
        decode_record(record.value)
        for batch in found
        if not batch.header.is_control
        for record in records_of(batch.view)
    ]
    image = MetadataImage()
    end_offset, epoch = snapshot_id
    image.replay_batch(MetadataBatch(records, end_offset - 1, epoch, header.last_contained_log_timestamp))
    image.take_delta()
    return Snapshot(snapshot_id, image, controls[1:-1])


def _controls_in(batch: Batch) -> Iterator[ControlRecord]:
    for record in records_of(batch.view):
        control_type = control_type_of(record.key)
        if control_type is not None:
            yield control_type, record.value or b""


def _chunks(records: Iterable[MetadataRecord]) -> Iterator[list[MetadataRecord]]:
    chunk: list[MetadataRecord] = []
    for record in records:
        chunk.append(record)
        if len(chunk) == RECORDS_PER_BATCH:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


# ---- files; every call blocks ----


class SnapshotFiles:
    """The snapshots in the metadata log's directory."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory

    def ids(self) -> list[SnapshotId]:
        """Newest first."""
        matches = (_NAME.fullmatch(name) for name in self._disk.list(self._directory))
        return sorted((SnapshotId(int(found[1]), int(found[2])) for found in matches if found), reverse=True)

    def load_newest(self) -> Snapshot | None:
        """The newest valid one; the caller checks that the log goes on from there."""
        for snapshot_id in self.ids():
            try:
                return decode_snapshot(self._disk.read(self._path(snapshot_id)), snapshot_id)
            except ProtocolError:
                continue
        return None

    def write(self, image: MetadataImage, now_ms: TimestampMs, controls: Sequence[ControlRecord] = ()) -> SnapshotId:
        snapshot_id = snapshot_id_of(image)
        self._disk.replace(self._path(snapshot_id), encode_snapshot(image, now_ms, controls))
        return snapshot_id

    def remove_old(self) -> Offset:
        """Keeps the newest ones; returns the offset from which on the log is still needed."""
        ids = self.ids()
        for snapshot_id in ids[SNAPSHOTS_KEPT:]:
            self._disk.remove(self._path(snapshot_id))
        return ids[:SNAPSHOTS_KEPT][-1].end_offset if len(ids) >= SNAPSHOTS_KEPT else 0

    # Pieces, to another node and from one

    def read_piece(self, snapshot_id: SnapshotId, position: int, bytes_max: int) -> tuple[int, bytes] | None:
        """The file's size and bytes of it; None if there is no such snapshot."""
        try:
            file = self._disk.open(self._path(snapshot_id))
        except FileNotFoundError:
            return None
        try:
            return file.size(), file.pread(bytes_max, position)
        finally:
            file.close()

    def write_piece(self, snapshot_id: SnapshotId, position: int, data: bytes | memoryview) -> None:
        file = self._disk.open(self._path(snapshot_id) + PART, create=True)
        try:
            if position == 0:
                file.truncate(0)
            file.pwrite(data, position)
        finally:
            file.close()

    def complete(self, snapshot_id: SnapshotId) -> Snapshot:
        """All pieces are there: checked, durable, in its place. `ProtocolError`: it is no whole snapshot, and gone."""
        path = self._path(snapshot_id)
        try:
            data = self._disk.read(path + PART)
            found = decode_snapshot(data, snapshot_id)
        except ProtocolError:
            self._disk.remove(path + PART)
            raise
        self._disk.replace(path, data)
        self._disk.remove(path + PART)
        return found

    def remove_pieces(self) -> None:
        """What a crash left of downloads."""
        for name in self._disk.list(self._directory):
            if name.endswith(PART) and _NAME.fullmatch(name.removesuffix(PART)):
                self._disk.remove(join(self._directory, name))

    def _path(self, snapshot_id: SnapshotId) -> str:
        return join(self._directory, snapshot_id.file_name)
