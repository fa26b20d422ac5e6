"""What only a segment knows: bytes kept in memory, index entries, the handle it gives back."""

from ottla.log.batch_scan import scan_headers, scan_verified
from ottla.log.config import LogConfig
from ottla.log.handles import HandleCache
from ottla.log.partition_log import PartitionLog
from ottla.log.segment import RECENT_BATCHES_MAX
from tests.unit.log.support import DIRECTORY, NOW_MS, PARTITION, append, batch_of, batch_of_bytes, new_disk, open_log


def test_an_index_entry_every_interval() -> None:
    """As Kafka does it: the first batch after more than the interval gets an entry, with its last offset."""
    log = open_log(new_disk(), LogConfig(index_interval_bytes=1000))
    for number in range(8):
        append(log, batch_of_bytes(400, 2, timestamp=NOW_MS + number))
    offset_index, time_index = log.active_segment.indexes()
    assert offset_index.entries() == [(7, 1200), (13, 2400)]
    assert time_index.entries() == [(NOW_MS + 3, 7), (NOW_MS + 6, 13)]


def test_many_partitions_share_few_handles() -> None:
    disk = new_disk()
    handles = HandleCache(open_files_max=4)
    logs = [
        PartitionLog.open(disk, f"/logs/many-{number}", PARTITION, LogConfig(), NOW_MS, handles=handles)
        for number in range(20)
    ]
    for round_number in range(3):
        for log in logs:
            assert append(log, batch_of()).base_offset == round_number
    assert len(handles) == 4
    for log in logs:
        log.close()
    assert len(handles) == 0


def test_a_sealed_segment_gives_its_indexes_back_with_its_handle() -> None:
    disk = new_disk()
    log = open_log(disk, LogConfig(index_interval_bytes=100))
    for _ in range(50):
        append(log, batch_of_bytes(200, 2))
    log.roll()
    log.flush()
    sealed = log.segments.first
    before = [index.entries() for index in sealed.indexes()]
    sealed.release_handle()
    assert sealed.index_entry_count == 0
    assert [index.entries() for index in sealed.indexes()] == before


def test_positions_in_memory_are_bounded() -> None:
    log = open_log(new_disk())
    for _ in range(3 * RECENT_BATCHES_MAX):
        append(log, batch_of())
    remembered = [offset for offset in range(log.log_end_offset) if log.active_segment.has_recent(offset)]
    assert RECENT_BATCHES_MAX // 2 <= len(remembered) <= RECENT_BATCHES_MAX


def test_header_scans_hop_and_stop_at_what_is_no_batch() -> None:
    disk = new_disk()
    log = open_log(disk)
    for _ in range(5):
        append(log, batch_of_bytes(5000, 3))
    file = disk.open(f"{DIRECTORY}/{0:020d}.log")
    assert [batch.header.base_offset for batch in scan_headers(file, 0, 25_000)] == [0, 3, 6, 9, 12]
    assert [batch.position for batch in scan_headers(file, 10_000, 24_999)] == [10_000, 15_000]
    file.pwrite(bytes(61), 15_000)
    assert [batch.position for batch in scan_headers(file, 0, 25_000)] == [0, 5000, 10_000]


def test_verifying_scans_read_batches_larger_than_a_chunk() -> None:
    disk = new_disk()
    log = open_log(disk, LogConfig(max_message_bytes=4_000_000))
    for size_bytes in (700_000, 3_000_000, 500, 900_000):
        append(log, batch_of_bytes(size_bytes))
    file = disk.open(f"{DIRECTORY}/{0:020d}.log")
    file.pwrite(b"\xff", 3_700_000 + 400)
    verdicts = [(batch.position, batch.is_crc_valid) for batch in scan_verified(file, 0, 4_600_500)]
    assert verdicts == [(0, True), (700_000, True), (3_700_000, False), (3_700_500, True)]
