"""Frames: what stands around a message on a connection.

    request  = size (4), api key (2), version (2), correlation id (4), client id, [tags], body
    response = size (4), correlation id (4), [tags], body

The tags belong to flexible versions (KIP-482). ApiVersions is the exception: its response never has them, because the
client does not know yet what the broker speaks, and a request of a version that we do not know must still give its
correlation id, so that it can be answered.
"""

import struct
from functools import cache
from typing import Final, TypeAlias

from ottla.base.errors import ProtocolError
from ottla.wire.apis import API_INFO, ApiKey
from ottla.wire.codec import Codec, codec_for
from ottla.wire.message import Message
from ottla.wire.primitives import skip_tags

SIZE_BYTES: Final = 4

_REQUEST_START: Final = struct.Struct(">hhih")
_RESPONSE_START: Final = struct.Struct(">ii")
_RESPONSE_START_WITH_TAGS: Final = struct.Struct(">iix")
_SIZE: Final = struct.Struct(">i")
_NEVER_FLEXIBLE: Final = 1 << 15
_FLEXIBLE_FROM: Final = {
    key: _NEVER_FLEXIBLE if info.flexible_from is None else info.flexible_from for key, info in API_INFO.items()
}


@cache
def request_codec(api_key: int, api_version: int) -> Codec[Message]:
    return codec_for(API_INFO[api_key].request, api_version)


@cache
def _response_codec(api_key: int, api_version: int) -> Codec[Message]:
    return codec_for(API_INFO[api_key].response, api_version)


RequestHead: TypeAlias = tuple[int, int, int, str | None, int]
"""API key and version, correlation id, client id, and where the body begins."""


def decode_request_header(view: memoryview) -> RequestHead:
    """`view` is a frame without its size. A version that we do not speak is read too: the answer may have to say so."""
    try:
        api_key, api_version, correlation_id, client_id_size = _REQUEST_START.unpack_from(view, 0)
    except struct.error as error:
        raise ProtocolError(f"a request header that cannot be read: {error}") from error
    flexible_from = _FLEXIBLE_FROM.get(api_key)
    if flexible_from is None or api_version < 0:
        raise ProtocolError(f"no API has key {api_key} and version {api_version}")
    client_id, position = None, _REQUEST_START.size
    try:
        if client_id_size >= 0:
            start, position = position, position + client_id_size
            if position > len(view):
                raise ProtocolError("the client id is longer than the request")
            client_id = str(view[start:position], "utf-8")
        if api_version >= flexible_from:
            tag_count = view[position]
            position += 1
            if tag_count:
                position = skip_tags(view, position, tag_count)
    except (IndexError, ValueError, ProtocolError) as error:
        if api_key != ApiKey.API_VERSIONS or API_INFO[api_key].versions.includes(api_version):
            raise ProtocolError(f"a request header that cannot be read: {error}") from error
        # From a future client, perhaps with another header: it shall learn what we speak.
        client_id, position = None, len(view)
    return api_key, api_version, correlation_id, client_id, position


def encode_response(api_key: int, api_version: int, correlation_id: int, message: Message) -> bytes:
    """A whole frame, with its size."""
    out = start_response(api_key, api_version, correlation_id)
    codec_for(type(message), api_version).encode_into(message, out)
    return finish_frame(out)


def start_response(api_key: int, api_version: int, correlation_id: int) -> bytearray:
    """A frame up to its body, for those who write the body themselves; `finish_frame` sets the size."""
    with_tags = api_version >= _FLEXIBLE_FROM[api_key] and api_key != ApiKey.API_VERSIONS
    start = _RESPONSE_START_WITH_TAGS if with_tags else _RESPONSE_START
    return bytearray(start.pack(0, correlation_id))


def finish_frame(out: bytearray) -> bytes:
    _SIZE.pack_into(out, 0, len(out) - SIZE_BYTES)
    return bytes(out)


def encode_request(
    api_key: int, api_version: int, correlation_id: int, client_id: str | None, message: Message
) -> bytes:
    """The client's side: a whole frame, with its size."""
    encoded_id = b"" if client_id is None else client_id.encode()
    id_size = -1 if client_id is None else len(encoded_id)
    out = bytearray(SIZE_BYTES)
    out += _REQUEST_START.pack(api_key, api_version, correlation_id, id_size)
    out += encoded_id
    if api_version >= _FLEXIBLE_FROM[api_key]:
        out.append(0)
    codec_for(type(message), api_version).encode_into(message, out)
    return finish_frame(out)


def decode_response(api_key: int, api_version: int, view: memoryview) -> tuple[int, Message]:
    """The client's side: correlation id and message of a frame without its size."""
    try:
        (correlation_id,) = _SIZE.unpack_from(view, 0)
        position = _SIZE.size
        if api_version >= _FLEXIBLE_FROM[api_key] and api_key != ApiKey.API_VERSIONS:
            tag_count = view[position]
            position += 1
            if tag_count:
                position = skip_tags(view, position, tag_count)
    except (IndexError, struct.error) as error:
        raise ProtocolError(f"a response header that cannot be read: {error}") from error
    message, _ = _response_codec(api_key, api_version).decode(view, position)
    return correlation_id, message
