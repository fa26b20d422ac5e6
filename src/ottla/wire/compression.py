"""The five codecs of a record batch, with a bound on what comes out.

The bytes are those the Java client reads and writes: gzip members, snappy in xerial's framing (raw snappy is read too),
one lz4 frame of independent blocks, one zstd frame with or without its content size. Whatever the input, `decompress`
returns at most `max_bytes` or raises `ProtocolError`: a few kilobytes that unfold to gigabytes are refused before the
memory is spent. Produce and fetch never come here, so each library is imported by its first use, not at start-up.
"""

import struct
import zlib
from collections.abc import Callable
from enum import IntEnum
from typing import Final

from ottla.base.disk import Buffer
from ottla.base.errors import ProtocolError


class Codec(IntEnum):
    """The lowest three bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


GZIP_LEVEL_DEFAULT: Final = -1
LZ4_LEVEL_DEFAULT: Final = 9  # Kafka's name for the fast compressor; any other level asks for the high-compression one.
ZSTD_LEVEL_DEFAULT: Final = 3

_GZIP_WINDOW_BITS: Final = 31  # 15 bits of window, plus 16: with a gzip header and trailer.
_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)  # version, lowest version that can read it
_XERIAL_BLOCK_BYTES: Final = 32 * 1024
_BLOCK_LENGTH: Final = struct.Struct(">i")
_ZSTD_SIZE_UNKNOWN: Final = -1


def compress(codec: Codec, data: Buffer, level: int | None = None) -> bytes:
    """`level` is Kafka's per-codec level; `None` is the codec's default, and snappy has none."""
    match codec:
        case Codec.NONE:
            return bytes(data)
        case Codec.GZIP:
            return _gzip_compress(data, GZIP_LEVEL_DEFAULT if level is None else level)
        case Codec.SNAPPY:
            return _snappy_compress(data)
        case Codec.LZ4:
            return _lz4_compress(data, LZ4_LEVEL_DEFAULT if level is None else level)
        case Codec.ZSTD:
            return _zstd_compress(data, ZSTD_LEVEL_DEFAULT if level is None else level)


def decompress(codec: Codec, data: Buffer, *, max_bytes: int) -> bytes:
    if codec is Codec.NONE:
        return _bounded(bytes(data), max_bytes)
    try:
        return _bounded(_DECOMPRESS[codec](data, max_bytes), max_bytes)
    except ProtocolError:
        raise
    except (
        Exception
    ) as error:  # Four libraries, each with errors of its own, all of which mean: not that codec's bytes.
        raise ProtocolError(f"{codec.name.lower()} data cannot be decompressed: {error}") from error


def _bounded(data: bytes, max_bytes: int) -> bytes:
    if len(data) > max_bytes:
        raise _past_the_bound(max_bytes)
    return data


def _past_the_bound(max_bytes: int) -> ProtocolError:
    return ProtocolError(f"decompressed data would exceed {max_bytes} bytes")


def _gzip_compress(data: Buffer, level: int) -> bytes:
    stream = zlib.compressobj(level, zlib.DEFLATED, _GZIP_WINDOW_BITS)
    return stream.compress(data) + stream.flush()


def _gzip_decompress(data: Buffer, max_bytes: int) -> bytes:
    out = bytearray()
    rest: Buffer = data
    while True:  # A gzip file may be several members one after another.
        stream = zlib.decompressobj(_GZIP_WINDOW_BITS)
        out += stream.decompress(rest, max_bytes - len(out) + 1)
        if len(out) > max_bytes:
            raise _past_the_bound(max_bytes)
        if not stream.eof:
            raise ProtocolError("gzip data ends inside a member")
        rest = stream.unused_data
        if not rest:
            return bytes(out)


def _snappy_compress(data: Buffer) -> bytes:
    from cramjam import snappy

    view = memoryview(data)
    out = bytearray(_XERIAL_HEADER)
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(snappy.compress_raw(view[start : start + _XERIAL_BLOCK_BYTES]))
        out += _BLOCK_LENGTH.pack(len(block))
        out += block
    return bytes(out)


def _snappy_decompress(data: Buffer, max_bytes: int) -> bytes:
    view = memoryview(data)
    if bytes(view[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        return _snappy_decompress_block(view, max_bytes)
    position = len(_XERIAL_HEADER)
    if len(view) < position:
        raise ProtocolError("snappy data ends inside its header")
    out = bytearray()
    while position < len(view):
        (length,) = _BLOCK_LENGTH.unpack_from(view, position)
        position += _BLOCK_LENGTH.size
        if not 0 <= length <= len(view) - position:
            raise ProtocolError(f"snappy block of {length} bytes where {len(view) - position} are left")
        out += _snappy_decompress_block(view[position : position + length], max_bytes - len(out))
        position += length
    return bytes(out)


def _snappy_decompress_block(block: memoryview, max_bytes: int) -> bytes:
    from cramjam import snappy

    if snappy.decompress_raw_len(block) > max_bytes:  # The block's own claim, by which the library allocates.
        raise _past_the_bound(max_bytes)
    return bytes(snappy.decompress_raw(block))


def _lz4_compress(data: Buffer, level: int) -> bytes:
    import lz4.frame

    # The Java client refuses linked blocks, so each one stands alone.
    return bytes(
        lz4.frame.compress(
            data,
            compression_level=0 if level == LZ4_LEVEL_DEFAULT else level,
            block_size=lz4.frame.BLOCKSIZE_MAX64KB,
            block_linked=False,
            store_size=False,
        )
    )


def _lz4_decompress(data: Buffer, max_bytes: int) -> bytes:
    import lz4.frame

    stream = lz4.frame.LZ4FrameDecompressor()
    out = bytes(stream.decompress(data, max_length=max_bytes + 1))
    if len(out) > max_bytes:
        raise _past_the_bound(max_bytes)
    if not stream.eof or stream.unused_data:
        raise ProtocolError("lz4 data is not exactly one frame")
    return out


def _zstd_compress(data: Buffer, level: int) -> bytes:
    import zstandard

    return zstandard.ZstdCompressor(level=level).compress(data)


def _zstd_decompress(data: Buffer, max_bytes: int) -> bytes:
    import zstandard

    # The library believes a declared size over `max_output_size`, so the claim is judged first.
    content_bytes = zstandard.frame_content_size(data)
    if content_bytes != _ZSTD_SIZE_UNKNOWN and content_bytes > max_bytes:
        raise _past_the_bound(max_bytes)
    return zstandard.ZstdDecompressor().decompress(data, max_output_size=max_bytes + 1, allow_extra_data=False)


_DECOMPRESS: Final[dict[Codec, Callable[[Buffer, int], bytes]]] = {
    Codec.GZIP: _gzip_decompress,
    Codec.SNAPPY: _snappy_decompress,
    Codec.LZ4: _lz4_decompress,
    Codec.ZSTD: _zstd_decompress,
}
