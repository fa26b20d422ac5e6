"""Raw bytes to a broker: connections that are counted, frames that are built and read by hand."""

import random
import select
import socket
import struct
from typing import Any, Final

from ottla.wire import api
from ottla.wire.apis import ApiKey
from ottla.wire.frame import decode_response, encode_request

LOOPBACK: Final = "127.0.0.1"
ANSWER_SECONDS_MAX: Final = 10.0
CLIENT_ID: Final = "hostile"
FETCH_BYTES: Final = 50 << 20
FETCH_VERSION: Final = 12  # The last that names topics.
PRODUCE_VERSION: Final = 9
SIZE: Final = struct.Struct(">i")


class Target:
    """The broker's port, and a count of what was done to it."""

    def __init__(self, port: int, seed: int) -> None:
        self._port = port
        self.chance = random.Random(seed)
        self.connections = 0
        self.frames = 0
        self.answers: dict[str, int] = {}

    def connect(self, *, receive_buffer_bytes: int | None = None) -> socket.socket:
        sock = socket.socket()
        if receive_buffer_bytes is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        sock.settimeout(ANSWER_SECONDS_MAX)
        sock.connect((LOOPBACK, self._port))
        self.connections += 1
        return sock

    def send(self, sock: socket.socket, data: bytes) -> bool:
        """Whether the connection took it."""
        self.frames += 1
        try:
            sock.sendall(data)
        except OSError:
            return False
        return True

    def count(self, answer: str) -> None:
        self.answers[answer] = self.answers.get(answer, 0) + 1

    def outcome(self) -> dict[str, Any]:
        return {"connections": self.connections, "frames": self.frames, "answers": self.answers}


def read_frame(sock: socket.socket) -> bytes | None:
    """One answer, or None where the connection is closed."""
    try:
        size = _read_exactly(sock, SIZE.size)
        return None if size is None else _read_exactly(sock, SIZE.unpack(size)[0])
    except OSError:
        return None


def _read_exactly(sock: socket.socket, count: int) -> bytes | None:
    data = bytearray()
    while len(data) < count:
        received = sock.recv(count - len(data))
        if not received:
            return None
        data += received
    return bytes(data)


def is_closed(sock: socket.socket) -> bool:
    readable, _, _ = select.select([sock], [], [], 0)
    if not readable:
        return False
    try:
        return not sock.recv(1 << 16)
    except OSError:
        return True


def api_versions_frame() -> bytes:
    return encode_request(ApiKey.API_VERSIONS, 0, 1, CLIENT_ID, api.ApiVersionsRequest())


def fetch_frame(topic: str, *, offset: int = 0, max_wait_ms: int = 0, min_bytes: int = 0) -> bytes:
    """Asks for all that a partition has, up to 50 MB."""
    partition = api.FetchRequest.FetchPartition(
        partition=0, fetch_offset=offset, partition_max_bytes=FETCH_BYTES, current_leader_epoch=-1
    )
    request = api.FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=FETCH_BYTES,
        session_id=0,
        session_epoch=-1,
        topics=[api.FetchRequest.FetchTopic(topic=topic, partitions=[partition])],
    )
    return encode_request(ApiKey.FETCH, FETCH_VERSION, 1, CLIENT_ID, request)


def produce_frame(topic: str, batch: bytes, acks: int) -> bytes:
    partition = api.ProduceRequest.PartitionProduceData(index=0, records=batch)
    request = api.ProduceRequest(
        acks=acks,
        timeout_ms=1_000,
        topic_data=[api.ProduceRequest.TopicProduceData(name=topic, partition_data=[partition])],
    )
    return encode_request(ApiKey.PRODUCE, PRODUCE_VERSION, 1, CLIENT_ID, request)


def produce_error_of(answer: bytes) -> int:
    _, response = decode_response(ApiKey.PRODUCE, PRODUCE_VERSION, memoryview(answer))
    assert isinstance(response, api.ProduceResponse)
    return response.responses[0].partition_responses[0].error_code
