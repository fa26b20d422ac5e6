"""Varints, skipped tags, UUIDs, and tables of array readers."""

from uuid import UUID

import pytest

from ottla.base.errors import ProtocolError
from ottla.wire.primitives import packers, read_varint, skip_tags, unpackers, uuid_of, varint


@pytest.mark.parametrize(
    ("value", "encoded"),
    [(0, "00"), (1, "01"), (127, "7f"), (128, "8001"), (300, "ac02"), (16_384, "808001"), (2**32 - 1, "ffffffff0f")],
)
def test_varints(value: int, encoded: str) -> None:
    assert varint(value).hex() == encoded
    assert read_varint(memoryview(bytes.fromhex("aa" + encoded + "bb")), 1) == (value, 1 + len(encoded) // 2)


def test_a_varint_has_five_bytes_at_most() -> None:
    with pytest.raises(ProtocolError):
        read_varint(memoryview(b"\x80" * 6), 0)


def test_a_varint_that_is_cut_off_is_an_index_error_for_the_decoder_to_translate() -> None:
    with pytest.raises(IndexError):
        read_varint(memoryview(b"\x80"), 0)


def test_tags_are_skipped() -> None:
    tags = memoryview(bytes.fromhex("00 00 05 03 aabbcc 8101 01 dd ee"))
    assert skip_tags(tags, 0, 3) == len(tags) - 1


def test_a_count_of_tags_may_take_two_bytes() -> None:
    tags = memoryview(varint(200)[1:] + b"\x09\x00" * 200)
    assert skip_tags(tags, 0, varint(200)[0]) == len(tags)


def test_a_tag_past_the_end_is_refused() -> None:
    with pytest.raises(ProtocolError):
        skip_tags(memoryview(b"\x00\x02\xaa"), 0, 1)


def test_uuids_are_kept() -> None:
    raw = bytes(range(16))
    assert uuid_of(raw) == UUID(bytes=raw)
    assert uuid_of(raw) is uuid_of(bytes(raw))


@pytest.mark.parametrize("length", [0, 1, 3, 1024, 5000])
def test_arrays(length: int) -> None:
    values = tuple(range(length))
    encoded = packers("i")[length](*values)
    assert len(encoded) == 4 * length
    assert unpackers("i")[length](memoryview(b"x" + encoded), 1) == values


def test_formats_of_long_arrays_are_not_kept() -> None:
    unpackers("q")[100_000]
    unpackers("q")[7]
    assert 100_000 not in unpackers("q")
    assert 7 in unpackers("q")
