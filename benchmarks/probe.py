"""The smallest Kafka connection there is: ApiVersions, spelled out in bytes.

It is the question every broker answers first, and needs no codec, so that asking it costs next to nothing: for
waiting until a broker is up, and for the heartbeat that finds its stalls.
"""

import socket
import struct
from typing import Final

ANSWER_SECONDS_MAX: Final = 120.0

SIZE: Final = struct.Struct(">i")
# size, api key 18, version 0, correlation id 0, no client id
API_VERSIONS_REQUEST: Final = struct.pack(">ihhih", 10, 18, 0, 0, -1)


def receive_frame(connection: socket.socket) -> bytes:
    """One answer without its size."""
    (size,) = SIZE.unpack(_receive_exactly(connection, SIZE.size))
    return _receive_exactly(connection, size)


def _receive_exactly(connection: socket.socket, size: int) -> bytes:
    received = bytearray(size)
    view = memoryview(received)
    while view:
        count = connection.recv_into(view)
        if count == 0:
            raise ConnectionError("the broker closed the connection")
        view = view[count:]
    return bytes(received)


def connect(port: int, *, timeout_seconds: float = ANSWER_SECONDS_MAX) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), timeout=timeout_seconds)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def answers_api_versions(port: int) -> bool:
    try:
        with connect(port, timeout_seconds=5) as connection:
            connection.sendall(API_VERSIONS_REQUEST)
            return len(receive_frame(connection)) > 0
    except OSError:
        return False
