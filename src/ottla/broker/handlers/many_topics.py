"""A Metadata answer about thousands of topics, made a few at a time: other connections get their turns in between.

The codec encodes whole messages. So each handful is encoded as an answer about nothing but these topics, and what stands
around them is cut off; in the end the topics are set into an answer that has everything but them.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from ottla.wire import api
from ottla.wire.apis import ApiKey
from ottla.wire.codec import Codec, codec_for
from ottla.wire.frame import finish_frame, start_response
from ottla.wire.hot import put_count

TOPICS_PER_TURN: Final = 126  # A millisecond or two; their count is encoded as long as that of no topic, up to 126.
_FLEXIBLE_FROM: Final = 9

Topic = api.MetadataResponse.MetadataResponseTopic
T = TypeVar("T")


async def encode_in_turns(
    answer: api.MetadataResponse,
    asked: Sequence[T],
    describe: Callable[[T], Topic],
    api_version: int,
    correlation_id: int,
) -> bytes:
    """The frame of `answer`, which has no topics yet, with the description of each that is asked for."""
    codec = codec_for(api.MetadataResponse, api_version)
    topics = bytearray()
    bare = api.MetadataResponse()
    begin, behind_bytes = _place_of_topics(codec, bare)
    for first in range(0, len(asked), TOPICS_PER_TURN):
        bare.topics = [describe(one) for one in asked[first : first + TOPICS_PER_TURN]]
        encoded = codec.encode(bare)
        topics += memoryview(encoded)[begin : len(encoded) - behind_bytes]
        await asyncio.sleep(0)
    is_flexible = api_version >= _FLEXIBLE_FROM
    begin, _ = _place_of_topics(codec, answer)
    around = codec.encode(answer)
    out = start_response(ApiKey.METADATA, api_version, correlation_id)
    out += around[: begin - (1 if is_flexible else 4)]
    put_count(out, len(asked), flexible=is_flexible)
    out += topics
    out += around[begin:]
    return finish_frame(out)


def _place_of_topics(codec: Codec[api.MetadataResponse], answer: api.MetadataResponse) -> tuple[int, int]:
    """Where topics begin in the encoded `answer`, and how many bytes follow them.

    With one topic instead of none the last byte of the count, just before them, is the first to differ.
    """
    none = codec.encode(answer)
    answer.topics = [Topic()]
    one = codec.encode(answer)
    answer.topics = []
    begin = next(place for place, (left, right) in enumerate(zip(none, one, strict=False), 1) if left != right)
    return begin, len(none) - begin
