"""What is refused before it reaches the log, and with which code."""

from collections.abc import Callable

import pytest

from ottla.base.errors import ApiError, ErrorCode
from ottla.log.batch_checks import BatchLimits, check_client_batch
from ottla.log.config import LogConfig
from ottla.wire.records import BatchBuilder, Codec, parse_header, set_crc
from tests.unit.log.support import NOW_MS, batch_of, batch_of_bytes

LIMITS = BatchLimits(LogConfig(max_message_bytes=1000, segment_bytes=5000))


def code_of(batch: memoryview, limits: BatchLimits = LIMITS) -> ErrorCode:
    try:
        check_client_batch(batch, limits, NOW_MS)
    except ApiError as error:
        return error.code
    return ErrorCode.NONE


def changed(change: Callable[[bytearray], None], *, fix_crc: bool = True) -> memoryview:
    data = bytearray(batch_of(2))
    change(data)
    if fix_crc:
        set_crc(data)
    return memoryview(data)


def put(at: int, data: bytes) -> Callable[[bytearray], None]:
    def change(batch: bytearray) -> None:
        batch[at : at + len(data)] = data

    return change


def lies_about_count(record_count: int) -> Callable[[bytearray], None]:
    def change(batch: bytearray) -> None:
        batch[23:27] = (record_count - 1).to_bytes(4, "big")
        batch[57:61] = record_count.to_bytes(4, "big")

    return change


@pytest.mark.parametrize("codec", list(Codec))
def test_a_good_batch_is_accepted_whatever_its_codec(codec: Codec) -> None:
    batch = batch_of(3, codec=codec)
    assert check_client_batch(batch, LIMITS, NOW_MS) == parse_header(batch)


@pytest.mark.parametrize(
    ("what", "batch", "code"),
    [
        ("nothing", memoryview(b""), ErrorCode.INVALID_RECORD),
        ("half a header", batch_of()[:40], ErrorCode.INVALID_RECORD),
        ("cut off", batch_of()[:-1], ErrorCode.CORRUPT_MESSAGE),
        ("two batches", memoryview(bytes(batch_of()) * 2), ErrorCode.INVALID_RECORD),
        ("absurd length", changed(put(8, b"\x00\x00\x00\x01")), ErrorCode.CORRUPT_MESSAGE),
        ("format 1", changed(put(16, b"\x01")), ErrorCode.INVALID_RECORD),
        ("format 9", changed(put(16, b"\x09")), ErrorCode.CORRUPT_MESSAGE),
        ("a flipped bit", changed(put(70, b"\xff"), fix_crc=False), ErrorCode.CORRUPT_MESSAGE),
        ("too few offsets", changed(put(23, b"\0\0\0\0")), ErrorCode.INVALID_RECORD),
        ("no records", changed(put(57, b"\0\0\0\0")), ErrorCode.INVALID_RECORD),
        ("negative count", changed(put(57, b"\xff\xff\xff\xff")), ErrorCode.INVALID_RECORD),
        ("more records than bytes", changed(lies_about_count(1000)), ErrorCode.INVALID_RECORD),
        ("records beyond number", changed(lies_about_count(2**31 - 1)), ErrorCode.INVALID_RECORD),
        ("unknown codec", changed(put(21, b"\x00\x05")), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        ("control batch", changed(put(21, b"\x00\x20")), ErrorCode.INVALID_RECORD),
        ("append time of its own", changed(put(21, b"\x00\x08")), ErrorCode.INVALID_TIMESTAMP),
        ("producer without sequence", batch_of(producer=(5, 0, -1)), ErrorCode.INVALID_RECORD),
        ("producer without epoch", batch_of(producer=(5, -1, 0)), ErrorCode.INVALID_RECORD),
    ],
)
def test_a_wrong_batch_gets_the_code_that_clients_expect(what: str, batch: memoryview, code: ErrorCode) -> None:
    assert code_of(batch) is code, what


def test_a_batch_of_the_limit_passes_and_one_byte_more_does_not() -> None:
    assert code_of(batch_of_bytes(1000)) is ErrorCode.NONE
    assert code_of(batch_of_bytes(1001)) is ErrorCode.MESSAGE_TOO_LARGE


def test_a_batch_must_fit_a_segment() -> None:
    limits = BatchLimits(LogConfig(max_message_bytes=10_000, segment_bytes=800))
    assert code_of(batch_of_bytes(801), limits) is ErrorCode.RECORD_LIST_TOO_LARGE


def test_timestamps_far_off_are_refused() -> None:
    limits = BatchLimits(LogConfig(message_timestamp_before_max_ms=1000, message_timestamp_after_max_ms=2000))
    assert code_of(batch_of(timestamp=NOW_MS + 2000), limits) is ErrorCode.NONE
    assert code_of(batch_of(timestamp=NOW_MS + 2001), limits) is ErrorCode.INVALID_TIMESTAMP
    assert code_of(batch_of(timestamp=NOW_MS - 1000), limits) is ErrorCode.NONE
    assert code_of(batch_of(timestamp=NOW_MS - 1001), limits) is ErrorCode.INVALID_TIMESTAMP
    assert code_of(batch_of(timestamp=-1), limits) is ErrorCode.NONE, "records without a timestamp"


def test_many_records_need_not_be_looked_at() -> None:
    """The records stay opaque: garbage behind a good header with a good checksum is the clients' affair."""
    builder = BatchBuilder()
    builder.append(NOW_MS, b"k", b"v")
    data = builder.build()
    data[61:] = b"\xff" * (len(data) - 61)
    set_crc(data)
    assert code_of(memoryview(data)) is ErrorCode.NONE
