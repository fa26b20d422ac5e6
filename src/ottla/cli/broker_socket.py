"""One broker, asked directly: for the few requests that librdkafka has no function for.

Those are the features in ApiVersions, DescribeLogDirs, and DescribeConfigs with documentation. Blocking, one request at
a time, in the highest version that both sides know; plain TCP only.
"""

import socket
import struct
from types import TracebackType
from typing import Final, Self, TypeVar, cast

import ottla
from ottla.base.errors import ErrorCode, ProtocolError
from ottla.cli.connection import REQUEST_TIMEOUT_S, Address, Connection
from ottla.cli.errors import Failure, no_answer
from ottla.wire import api
from ottla.wire.apis import API_INFO, ApiKey
from ottla.wire.frame import decode_response, encode_request
from ottla.wire.message import Message

R = TypeVar("R", bound=Message)

CLIENT_ID: Final = "ottla-cli"
RESPONSE_BYTES_MAX: Final = 256 * 1024 * 1024
# Version 3 leaves out features whose lowest version is 0, version 0 all of them; any broker knows version 0.
API_VERSIONS_TRIED: Final = (4, 3, 0)

_SIZE: Final = struct.Struct(">i")
_CORRELATION_ID_AND_ERROR: Final = struct.Struct(">ih")


def is_plaintext(connection: Connection) -> bool:
    return connection.properties.get("security.protocol", "plaintext").lower() == "plaintext"


class BrokerSocket:
    """Connected after `__init__`; `abilities` is what the broker said of itself then."""

    def __init__(self, address: Address) -> None:
        self._name = f"{address.host}:{address.port}"
        self._correlation_id = 0
        try:
            self._socket = socket.create_connection(address, timeout=REQUEST_TIMEOUT_S)
        except OSError as error:
            raise no_answer(self._name) from error
        self.abilities = self._ask_abilities()
        self._offered = {each.api_key: (each.min_version, each.max_version) for each in self.abilities.api_keys}

    @classmethod
    def open_any(cls, connection: Connection) -> Self:
        """The first bootstrap address that answers."""
        if not is_plaintext(connection):
            raise Failure("this asks a broker directly, which needs a PLAINTEXT listener")
        *others, last = connection.addresses
        for address in others:
            try:
                return cls(address)
            except Failure:
                continue
        return cls(last)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def ask(self, key: ApiKey, request: Message, response_class: type[R]) -> R:
        lowest, highest = API_INFO[key].versions
        their_lowest, their_highest = self._offered.get(key, (0, -1))
        version = min(highest, their_highest)
        if version < max(lowest, their_lowest):
            raise Failure(f"{self._name} does not offer {API_INFO[key].name} in a version known here")
        return cast(R, self._decoded(key, version, self._exchange(key, version, request)))

    def _ask_abilities(self) -> api.ApiVersionsResponse:
        request = api.ApiVersionsRequest(client_software_name=CLIENT_ID, client_software_version=ottla.__version__)
        for version in API_VERSIONS_TRIED:
            frame = self._exchange(ApiKey.API_VERSIONS, version, request)
            if len(frame) >= _CORRELATION_ID_AND_ERROR.size:
                _, error_code = _CORRELATION_ID_AND_ERROR.unpack_from(frame)
                if error_code != ErrorCode.UNSUPPORTED_VERSION:
                    break
        return cast(api.ApiVersionsResponse, self._decoded(ApiKey.API_VERSIONS, version, frame))

    def _exchange(self, key: ApiKey, version: int, request: Message) -> memoryview:
        """One request, and the frame that answers it."""
        self._correlation_id += 1
        try:
            self._socket.sendall(encode_request(key, version, self._correlation_id, CLIENT_ID, request))
            (size_bytes,) = _SIZE.unpack(self._receive(_SIZE.size))
            if not 0 <= size_bytes <= RESPONSE_BYTES_MAX:
                raise no_answer(self._name)
            return memoryview(self._receive(size_bytes))
        except OSError as error:
            raise no_answer(self._name) from error

    def _receive(self, size_bytes: int) -> bytes:
        received = bytearray()
        while len(received) < size_bytes:
            piece = self._socket.recv(min(size_bytes - len(received), 1 << 20))
            if not piece:
                raise ConnectionResetError(f"{self._name} closed the connection")
            received += piece
        return bytes(received)

    def _decoded(self, key: ApiKey, version: int, frame: memoryview) -> Message:
        try:
            return decode_response(key, version, frame)[1]
        except ProtocolError as error:
            raise no_answer(self._name) from error
