"""One broker: connected and asked what it can do by the constructor, then a request and its answer at a time."""

import socket
import struct
from typing import Final, Self, TypeVar, cast

import ottla
from ottla.base.errors import ErrorCode, ProtocolError
from ottla.client.errors import ClientError
from ottla.client.raw.address import Address
from ottla.wire import api
from ottla.wire.apis import API_INFO, ApiKey
from ottla.wire.frame import decode_response, encode_request
from ottla.wire.message import Message

R = TypeVar("R", bound=Message)

NO_CONNECTION: Final = "_TRANSPORT"  # librdkafka's name, and so the SDK's
RESPONSE_BYTES_MAX: Final = 256 * 1024 * 1024
# Version 3 leaves out features whose lowest version is 0, version 0 all of them; any broker knows version 0.
API_VERSIONS_TRIED: Final = (4, 3, 0)

_SIZE: Final = struct.Struct(">i")
_CORRELATION_ID_AND_ERROR: Final = struct.Struct(">ih")


class Connection:
    """`abilities` is what the broker said of itself. Whatever goes wrong is a `ClientError` of code `NO_CONNECTION`."""

    def __init__(self, address: Address, *, client_id: str, timeout_s: float) -> None:
        self._address = address
        self._client_id = client_id
        self._correlation_id = 0
        try:
            self._socket = socket.create_connection(address, timeout=timeout_s)
            # The end of a request is not to wait until the broker has acknowledged its beginning.
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            raise self._failed(error) from None
        self._answers = self._socket.makefile("rb")
        try:
            self.abilities = self._ask_abilities()
        except BaseException:
            self.close()
            raise
        self._offered = {each.api_key: (each.min_version, each.max_version) for each in self.abilities.api_keys}

    def close(self) -> None:
        self._answers.close()
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(self, key: ApiKey, request: Message, response_class: type[R]) -> R:
        version = self.send(key, request)
        return self.receive(key, version, response_class)

    def send(self, key: ApiKey, request: Message) -> int:
        """Without waiting for the answer, which is to be `receive`d before anything else; the version that it will have."""
        lowest, highest = API_INFO[key].versions
        their_lowest, their_highest = self._offered.get(key, (0, -1))
        version = min(highest, their_highest)
        if version < max(lowest, their_lowest):
            raise ClientError(
                ErrorCode.UNSUPPORTED_VERSION.name,
                f"{self._address} does not offer {API_INFO[key].name} in a version known here",
            )
        self._send(key, version, request)
        return version

    def receive(self, key: ApiKey, version: int, response_class: type[R]) -> R:
        return cast(R, self._decoded(key, version, self._receive_frame()))

    def _ask_abilities(self) -> api.ApiVersionsResponse:
        request = api.ApiVersionsRequest(client_software_name="ottla", client_software_version=ottla.__version__)
        for version in API_VERSIONS_TRIED:
            self._send(ApiKey.API_VERSIONS, version, request)
            frame = self._receive_frame()
            if len(frame) >= _CORRELATION_ID_AND_ERROR.size:
                _, error_code = _CORRELATION_ID_AND_ERROR.unpack_from(frame)
                if error_code != ErrorCode.UNSUPPORTED_VERSION:
                    break
        return cast(api.ApiVersionsResponse, self._decoded(ApiKey.API_VERSIONS, version, frame))

    def _send(self, key: ApiKey, version: int, request: Message) -> None:
        self._correlation_id += 1
        try:
            self._socket.sendall(encode_request(key, version, self._correlation_id, self._client_id, request))
        except OSError as error:
            raise self._failed(error) from None

    def _receive_frame(self) -> memoryview:
        try:
            (size_bytes,) = _SIZE.unpack(self._receive(_SIZE.size))
            if not 0 <= size_bytes <= RESPONSE_BYTES_MAX:
                raise ConnectionError(f"{size_bytes} bytes are no answer")
            return memoryview(self._receive(size_bytes))
        except OSError as error:
            raise self._failed(error) from None

    def _receive(self, size_bytes: int) -> bytes:
        received = self._answers.read(size_bytes)
        if len(received) < size_bytes:
            raise ConnectionResetError("it closed the connection")
        return received

    def _decoded(self, key: ApiKey, version: int, frame: memoryview) -> Message:
        try:
            return decode_response(key, version, frame)[1]
        except ProtocolError as error:
            raise self._failed(error) from None

    def _failed(self, error: Exception) -> ClientError:
        return ClientError(NO_CONNECTION, f"{self._address}: {error}", retriable=True)
