"""What the tests of the log share: batches to append, a log on a simulated disk, and a way to read it back."""

from random import Random
from typing import Final

from ottla.base.disk import Disk
from ottla.base.types import TopicPartition
from ottla.log.config import LogConfig
from ottla.log.partition_log import AppendResult, PartitionLog
from ottla.wire.records import BatchBuilder, BatchHeader, Codec, batches, parse_header
from sim.disk import SimulatedDisk

NOW_MS: Final = 1_700_000_000_000
DIRECTORY: Final = "/logs/orders-0"
PARTITION: Final = TopicPartition("orders", 0)


def new_disk() -> SimulatedDisk:
    disk = SimulatedDisk(Random(0))
    disk.make_directory("/logs")
    disk.sync_directory("/")
    return disk


def batch_of(
    record_count: int = 1,
    *,
    value_bytes: int = 10,
    timestamp: int = NOW_MS,
    timestamps: list[int] | None = None,
    producer: tuple[int, int, int] = (-1, -1, -1),
    codec: Codec = Codec.NONE,
    transactional: bool = False,
) -> memoryview:
    """A producer's batch. `producer` is id, epoch and base sequence."""
    producer_id, producer_epoch, base_sequence = producer
    builder = BatchBuilder(
        codec=codec,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        transactional=transactional,
    )
    for number in range(record_count):
        builder.append(timestamps[number] if timestamps else timestamp, b"key", b"v" * value_bytes)
    return memoryview(builder.build())


def batch_of_bytes(size_bytes: int, record_count: int = 1, *, timestamp: int = NOW_MS) -> memoryview:
    """A batch of exactly `size_bytes`."""
    value_bytes = (size_bytes - len(batch_of(record_count, value_bytes=0))) // record_count
    while len(batch := batch_of(record_count, value_bytes=value_bytes, timestamp=timestamp)) > size_bytes:
        value_bytes -= 1
    padding = size_bytes - len(batch)
    builder = BatchBuilder()
    for number in range(record_count):
        extra = padding if number == 0 else 0
        builder.append(timestamp, b"key", b"v" * (value_bytes + extra))
    built = memoryview(builder.build())
    assert len(built) == size_bytes, (len(built), size_bytes)
    return built


def open_log(disk: Disk, config: LogConfig | None = None, **circumstances: object) -> PartitionLog:
    return PartitionLog.open(disk, DIRECTORY, PARTITION, config or LogConfig(), NOW_MS, **circumstances)  # type: ignore[arg-type]


def append(log: PartitionLog, batch: memoryview, *, leader_epoch: int = 0, now_ms: int = NOW_MS) -> AppendResult:
    """As a leader does it: rolls first where it must."""
    if log.should_roll(len(batch), now_ms):
        log.roll()
    return log.append_as_leader(batch, leader_epoch=leader_epoch, now_ms=now_ms)


def headers_of(log: PartitionLog) -> list[BatchHeader]:
    """Every batch of the log, read from its files."""
    found = []
    for segment in log.segments:
        data = memoryview(segment.handle().pread(segment.size, 0))
        found += [batch.header for batch in batches(data)]
    return found


def first_header(log: PartitionLog, offset: int, max_bytes: int = 1 << 20) -> BatchHeader:
    """The first batch that a reader at `offset` gets."""
    piece = log.read(offset, max_bytes)
    assert piece.file is not None
    return parse_header(piece.file.pread(61, piece.position))
