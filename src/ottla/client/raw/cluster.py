"""Which broker to ask. Connections are opened when needed and kept until `close`; metadata is asked for anew each time.

Not for several threads at once: `Admin` holds a lock around it.
"""

from collections import deque
from collections.abc import Callable, Iterable
from enum import IntEnum
from typing import Self, TypeVar

import ottla
from ottla.base.errors import ErrorCode
from ottla.base.types import NO_NODE, NodeId, TopicPartition
from ottla.client.errors import ClientError, coded_error
from ottla.client.raw.address import Address, parse_address
from ottla.client.raw.connection import NO_CONNECTION, Connection
from ottla.client.raw.security import PLAINTEXT, Security
from ottla.wire import api
from ottla.wire.apis import ApiKey
from ottla.wire.message import Message

R = TypeVar("R", bound=Message)
T = TypeVar("T")


class CoordinatorKind(IntEnum):
    GROUP = 0
    TRANSACTION = 1


class Cluster:
    def __init__(self, servers: str, *, client_id: str, timeout_s: float, security: Security = PLAINTEXT) -> None:
        self._bootstrap = deque(parse_address(server) for server in servers.split(","))
        self._client_id = client_id
        self._timeout_s = timeout_s
        self._security = security
        self._connections: dict[Address, Connection] = {}

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(self, key: ApiKey, request: Message, response_class: type[R], *, at: Address | None = None) -> R:
        """Of the broker at an address, or of the first bootstrap server that answers."""
        return self._with_broker(at, lambda connection: connection.ask(key, request, response_class))

    def abilities(self) -> api.ApiVersionsResponse:
        """As they are now: what a cluster has finalized changes, and a node that starts does not know it yet."""
        request = api.ApiVersionsRequest(client_software_name="ottla", client_software_version=ottla.__version__)
        return self.ask(ApiKey.API_VERSIONS, request, api.ApiVersionsResponse)

    def _with_broker(self, at: Address | None, use: Callable[[Connection], T]) -> T:
        if at is not None:
            return self._used(at, use)
        failure: ClientError | None = None
        for _ in range(len(self._bootstrap)):
            try:
                return self._used(self._bootstrap[0], use)
            except ClientError as error:
                if error.code != NO_CONNECTION:
                    raise
                failure = error
                self._bootstrap.rotate(-1)  # Asked last from now on: it may be one that lets everybody wait.
        assert failure is not None, "there is at least one server"
        raise failure

    def _used(self, address: Address, use: Callable[[Connection], T]) -> T:
        """A connection that broke is forgotten, so that the next request opens another."""
        try:
            return use(self._connection(address))
        except ClientError as error:
            if error.code == NO_CONNECTION and address in self._connections:
                self._connections.pop(address).close()
            raise

    def _connection(self, address: Address) -> Connection:
        if address not in self._connections:
            self._connections[address] = Connection(
                address, client_id=self._client_id, timeout_s=self._timeout_s, security=self._security
            )
        return self._connections[address]

    def brokers(self) -> dict[NodeId, Address]:
        return broker_addresses(self.metadata([]))

    def leaders(self, topics: Iterable[str]) -> dict[TopicPartition, Address | None]:
        """Of all partitions of these topics; None where there is no leader now."""
        answer = self.metadata(topics)
        addresses = broker_addresses(answer)
        for topic in answer.topics:
            if topic.error_code != ErrorCode.NONE:
                raise coded_error(topic.error_code, f"asking for the leaders of {topic.name}")
        return {
            TopicPartition(topic.name or "", partition.partition_index): addresses.get(partition.leader_id)
            for topic in answer.topics
            for partition in topic.partitions
        }

    def coordinator(self, kind: CoordinatorKind, key: str) -> Address:
        """Of a group or a transactional id."""
        request = api.FindCoordinatorRequest(key=key, key_type=int(kind), coordinator_keys=[key])
        answer = self.ask(ApiKey.FIND_COORDINATOR, request, api.FindCoordinatorResponse)
        found = answer.coordinators[0] if answer.coordinators else answer  # before version 4 the answer itself
        if found.error_code != ErrorCode.NONE:
            raise coded_error(found.error_code, f"looking for the coordinator of {key}")
        return Address(found.host, found.port)

    def metadata(self, topics: Iterable[str] | None) -> api.MetadataResponse:
        """Of these topics, or of all; none is created by asking."""
        asked = None if topics is None else [api.MetadataRequest.MetadataRequestTopic(name=name) for name in topics]
        request = api.MetadataRequest(topics=asked, allow_auto_topic_creation=False)
        return self.ask(ApiKey.METADATA, request, api.MetadataResponse)


def broker_addresses(answer: api.MetadataResponse) -> dict[NodeId, Address]:
    return {broker.node_id: Address(broker.host, broker.port) for broker in answer.brokers if broker.node_id != NO_NODE}
