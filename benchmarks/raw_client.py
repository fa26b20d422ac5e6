"""A Kafka connection without a client library, where the library's own work would blur what the broker did.

Messages go through Ottla's own codecs, which speak to Apache Kafka just as well.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks.probe import SIZE, connect, receive_frame
from ottla.wire import api
from ottla.wire.apis import API_INFO, ApiKey
from ottla.wire.codec import codec_for


class RawClient:
    """One connection that sends messages as they are given and decodes their answers."""

    def __init__(self, port: int) -> None:
        self._connection = connect(port)
        self._correlation_id = 0

    def close(self) -> None:
        self._connection.close()

    def ask(self, key: ApiKey, version: int, request: Any) -> Any:
        self.send(key, version, request)
        return self.receive(key, version)

    def send(self, key: ApiKey, version: int, request: Any) -> None:
        self._correlation_id += 1
        info = API_INFO[key]
        header = api.RequestHeader(
            request_api_key=int(key),
            request_api_version=version,
            correlation_id=self._correlation_id,
            client_id="benchmark",
        )
        header_version = 2 if info.is_flexible(version) else 1
        body = codec_for(api.RequestHeader, header_version).encode(header) + codec_for(type(request), version).encode(
            request
        )
        self._connection.sendall(SIZE.pack(len(body)) + body)

    def receive(self, key: ApiKey, version: int) -> Any:
        frame = memoryview(receive_frame(self._connection))
        info = API_INFO[key]
        header_version = 1 if info.is_flexible(version) else 0
        header, position = codec_for(api.ResponseHeader, header_version).decode(frame, 0)
        if header.correlation_id != self._correlation_id:
            raise ConnectionError(f"answer {header.correlation_id} to request {self._correlation_id}")
        response, _ = codec_for(info.response, version).decode(frame, position)
        return response


@contextmanager
def raw_client(port: int) -> Iterator[RawClient]:
    client = RawClient(port)
    try:
        yield client
    finally:
        client.close()
