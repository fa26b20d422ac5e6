"""Frames: headers of both versions, and the special ways of ApiVersions."""

import pytest

from ottla.base.errors import ProtocolError
from ottla.wire import api
from ottla.wire.apis import API_INFO, ApiKey
from ottla.wire.codec import codec_for
from ottla.wire.frame import (
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
    finish_frame,
    start_response,
)


def test_a_header_without_tags() -> None:
    frame = bytes.fromhex("0003 0008 0000002a 0003 61c5be")
    assert decode_request_header(memoryview(frame)) == (3, 8, 42, "až", 13)


def test_a_header_with_tags_that_nobody_knows() -> None:
    frame = bytes.fromhex("0003 000c 0000002a ffff 02 05 02 aabb 07 00 01")
    assert decode_request_header(memoryview(frame)) == (3, 12, 42, None, 17)


def test_headers_agree_with_the_compiled_codec() -> None:
    for info in API_INFO.values():
        for version in range(info.versions.low, info.versions.high + 1):
            header_version = 2 if info.is_flexible(version) else 1
            header = api.RequestHeader(
                request_api_key=info.key, request_api_version=version, correlation_id=7, client_id="ottla"
            )
            encoded = codec_for(api.RequestHeader, header_version).encode(header)
            head = decode_request_header(memoryview(encoded + b"body"))
            assert head == (info.key, version, 7, "ottla", len(encoded))


def test_a_version_of_the_future_is_read_like_the_newest() -> None:
    frame = bytes.fromhex("0001 0063 00000001 0000 00")
    assert decode_request_header(memoryview(frame)) == (1, 99, 1, "", 11)


@pytest.mark.parametrize("rest", ["ffff 00", "7fff", "0001 ff 00", "0000 ff"])
def test_api_versions_of_the_future_gives_its_correlation_id_whatever_its_header(rest: str) -> None:
    frame = bytes.fromhex("0012 0063 0000002a" + rest)
    api_key, version, correlation_id, _, body_position = decode_request_header(memoryview(frame))
    assert (api_key, version, correlation_id) == (ApiKey.API_VERSIONS, 99, 42)
    assert body_position <= len(frame)


@pytest.mark.parametrize(
    "frame",
    [
        "",
        "0003 0008 0000002a",
        "0003 0008 0000002a 0004 616263",
        "0003 0008 0000002a 0001 ff",
        "0003 000c 0000002a ffff",
        "0003 000c 0000002a ffff 01 00 09",
        "0004 0000 00000001 ffff",
        "0003 ffff 00000001 ffff",
        "0012 0003 00000001 0001 ff 00",
    ],
)
def test_what_is_no_header_is_a_protocol_error(frame: str) -> None:
    with pytest.raises(ProtocolError):
        decode_request_header(memoryview(bytes.fromhex(frame)))


def test_response_frames() -> None:
    heartbeat = api.HeartbeatResponse(throttle_time_ms=1, error_code=27)
    assert encode_response(ApiKey.HEARTBEAT, 1, 42, heartbeat) == bytes.fromhex("0000000a 0000002a 00000001 001b")
    flexible = encode_response(ApiKey.HEARTBEAT, 4, 42, heartbeat)
    assert flexible == bytes.fromhex("0000000c 0000002a 00 00000001 001b 00")


def test_api_versions_is_answered_without_tags_in_the_header() -> None:
    frame = encode_response(ApiKey.API_VERSIONS, 3, 42, api.ApiVersionsResponse(error_code=35))
    assert frame == bytes.fromhex("0000000c 0000002a 0023 01 00000000 00")


def test_a_body_may_be_written_by_hand() -> None:
    out = start_response(ApiKey.HEARTBEAT, 4, 42)
    codec_for(api.HeartbeatResponse, 4).encode_into(api.HeartbeatResponse(), out)
    assert finish_frame(out) == encode_response(ApiKey.HEARTBEAT, 4, 42, api.HeartbeatResponse())


@pytest.mark.parametrize("version", [0, 3, 4])
def test_a_client_reads_what_a_broker_writes(version: int) -> None:
    request = api.HeartbeatRequest(group_id="g", generation_id=3, member_id="m")
    frame = memoryview(encode_request(ApiKey.HEARTBEAT, version, 9, "client", request))
    assert int.from_bytes(frame[:4]) == len(frame) - 4
    *head, body_position = decode_request_header(frame[4:])
    assert tuple(head) == (ApiKey.HEARTBEAT, version, 9, "client")
    decoded, end = codec_for(api.HeartbeatRequest, version).decode(frame[4:], body_position)
    assert decoded == request
    assert end == len(frame) - 4

    response = api.HeartbeatResponse(error_code=25)
    answer = memoryview(encode_response(ApiKey.HEARTBEAT, version, 9, response))
    assert decode_response(ApiKey.HEARTBEAT, version, answer[4:]) == (9, response)


def test_a_response_that_ends_in_its_header_is_a_protocol_error() -> None:
    for frame in (b"", b"\0\0\0", b"\0\0\0\1"):
        with pytest.raises(ProtocolError):
            decode_response(ApiKey.HEARTBEAT, 4, memoryview(frame))
