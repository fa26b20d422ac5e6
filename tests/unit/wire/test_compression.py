"""Codecs: round trips, the framing other clients expect, and bounds that hold whatever the bytes."""

import gzip
import struct

import cramjam
import lz4.frame
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.base.errors import ProtocolError
from ottla.wire.compression import Codec, compress, decompress

COMPRESSING = [codec for codec in Codec if codec is not Codec.NONE]
every_codec = pytest.mark.parametrize("codec", list(Codec))
every_compressing_codec = pytest.mark.parametrize("codec", COMPRESSING)

TEXT = b'{"user": 17, "page": "/cart"}' * 5_000


@every_codec
@pytest.mark.parametrize("data", [b"", b"a", TEXT, bytes(range(256)) * 700], ids=["empty", "byte", "text", "binary"])
def test_what_is_compressed_comes_back(codec: Codec, data: bytes) -> None:
    assert decompress(codec, compress(codec, data), max_bytes=len(data)) == data


@given(codec=st.sampled_from(Codec), data=st.binary(max_size=2_000), repeat=st.integers(1, 60))
def test_any_bytes_come_back(codec: Codec, data: bytes, repeat: int) -> None:
    packed = compress(codec, memoryview(data * repeat))
    assert decompress(codec, memoryview(packed), max_bytes=len(data) * repeat) == data * repeat


@every_codec
def test_one_byte_past_the_bound_is_refused(codec: Codec) -> None:
    with pytest.raises(ProtocolError, match="exceed"):
        decompress(codec, compress(codec, TEXT), max_bytes=len(TEXT) - 1)


@every_compressing_codec
def test_a_bomb_is_refused(codec: Codec) -> None:
    bomb = compress(codec, bytes(50_000_000))
    with pytest.raises(ProtocolError, match="exceed"):
        decompress(codec, bomb, max_bytes=1_000_000)


def test_a_zstd_bomb_without_content_size_is_refused() -> None:
    bomb = zstandard.ZstdCompressor(write_content_size=False).compress(bytes(50_000_000))
    with pytest.raises(ProtocolError):
        decompress(Codec.ZSTD, bomb, max_bytes=1_000_000)


def test_a_snappy_block_that_claims_gigabytes_is_refused() -> None:
    claims_4_gib = b"\xff\xff\xff\xff\x0f" + b"\x00"
    with pytest.raises(ProtocolError, match="exceed"):
        decompress(Codec.SNAPPY, claims_4_gib, max_bytes=1_000_000)


@every_compressing_codec
def test_every_cut_is_refused(codec: Codec) -> None:
    packed = compress(codec, TEXT[:200])
    for end in range(1, len(packed)):
        # Snappy's framing says nothing about where the last block ends, so a cut between blocks reads as fewer records.
        if codec is Codec.SNAPPY and end == 16:
            continue
        with pytest.raises(ProtocolError):
            decompress(codec, packed[:end], max_bytes=1_000_000)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_garbage_behind_the_frame_is_refused(codec: Codec) -> None:
    with pytest.raises(ProtocolError):
        decompress(codec, compress(codec, TEXT) + b"garbage", max_bytes=1_000_000)


@settings(max_examples=300)
@given(codec=st.sampled_from(COMPRESSING), data=st.binary(max_size=300))
def test_random_bytes_end_in_a_value_or_a_protocol_error(codec: Codec, data: bytes) -> None:
    try:
        assert len(decompress(codec, data, max_bytes=10_000)) <= 10_000
    except ProtocolError:
        pass


def test_gzip_of_several_members_is_one_stream() -> None:
    assert decompress(Codec.GZIP, gzip.compress(b"one") + gzip.compress(b"two"), max_bytes=6) == b"onetwo"


def test_a_gzip_bomb_in_the_second_member_is_refused() -> None:
    with pytest.raises(ProtocolError, match="exceed"):
        decompress(Codec.GZIP, gzip.compress(b"one") + gzip.compress(bytes(1_000)), max_bytes=100)


def test_snappy_is_written_in_xerial_frames_of_32_kib() -> None:
    packed = compress(Codec.SNAPPY, TEXT)
    assert packed[:16] == b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
    (first_length,) = struct.unpack_from(">i", packed, 16)
    assert bytes(cramjam.snappy.decompress_raw(packed[20 : 20 + first_length])) == TEXT[: 32 * 1024]


def test_raw_snappy_is_read() -> None:
    assert decompress(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(TEXT)), max_bytes=len(TEXT)) == TEXT


def test_lz4_frames_have_independent_blocks_and_no_checksums() -> None:
    info = lz4.frame.get_frame_info(compress(Codec.LZ4, TEXT))
    assert not info["block_linked"]
    assert not info["content_checksum"]
    assert not info["block_checksum"]


@pytest.mark.parametrize(("codec", "fast", "small"), [(Codec.GZIP, 1, 9), (Codec.LZ4, 9, 12), (Codec.ZSTD, 1, 19)])
def test_a_level_changes_the_size(codec: Codec, fast: int, small: int) -> None:
    varied = b"".join(b'{"id": %d, "page": "/cart/%d"}' % (number, number * 7919 % 1000) for number in range(5_000))
    assert len(compress(codec, varied, small)) < len(compress(codec, varied, fast))
    assert decompress(codec, compress(codec, varied, small), max_bytes=len(varied)) == varied
