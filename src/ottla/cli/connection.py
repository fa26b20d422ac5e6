"""How a command reaches a cluster: addresses, client settings, and a quick "nobody is there".

librdkafka retries an address that refuses for as long as it may wait. A person should read why at once, so each
command first knocks on the bootstrap addresses with a plain TCP connection.
"""

import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import confluent_kafka
from confluent_kafka import KafkaException

from ottla.cli.errors import UNREACHABLE, Failure, failure_of
from ottla.client.admin import Admin
from ottla.client.errors import ClientError, ConfigError, client_error
from ottla.client.options import ClientKind, opened, other_owner, settings
from ottla.client.raw.address import Address, parse_address
from ottla.client.raw.cluster import Cluster
from ottla.client.raw.security_options import sdk_security

CLIENT_ID: Final = "ottla-cli"
REQUEST_TIMEOUT_S: Final = 15.0
KNOCK_TIMEOUT_S: Final = 3.0
LOCAL_HOSTS: Final = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """Where the cluster is, and client settings of the user's own, by Kafka's or librdkafka's names."""

    servers: str
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def addresses(self) -> list[Address]:
        return [parse_address(server) for server in self.servers.split(",")]

    def admin(self) -> Admin:
        """With the settings that are an admin's, too: `consume -X isolation.level=…` is about reading."""
        chosen = self.options({"default.api.timeout.ms": round(REQUEST_TIMEOUT_S * 1000)})
        return Admin({name: value for name, value in chosen.items() if other_owner(ClientKind.ADMIN, name) is None})

    def producer(self, options: Mapping[str, object]) -> confluent_kafka.Producer:
        """librdkafka's own, with the SDK's names and defaults: murmur2, idempotence."""
        return opened(confluent_kafka.Producer, settings(ClientKind.PRODUCER, self.options(options)))

    def consumer(self, options: Mapping[str, object]) -> confluent_kafka.Consumer:
        return opened(confluent_kafka.Consumer, settings(ClientKind.CONSUMER, self.options(options)))

    @property
    def can_ask_directly(self) -> bool:
        """Not where brokers are reached in a way that only librdkafka knows, such as Kerberos."""
        try:
            sdk_security(self.properties)
        except ConfigError:
            return False
        return True

    def cluster(self) -> Cluster:
        """For the requests that librdkafka has no function for."""
        return Cluster(
            self.servers,
            client_id=CLIENT_ID,
            timeout_s=REQUEST_TIMEOUT_S,
            security=sdk_security(self.properties),
        )

    def options(self, others: Mapping[str, object]) -> dict[str, Any]:
        """Of a client of the SDK: where the cluster is, a command's own settings, and the user's, which win."""
        # Failures reach the user as one line of ours; librdkafka's own log lines would double them.
        common = {"bootstrap.servers": self.servers, "client.id": CLIENT_ID, "log_level": 0}
        return {**common, **others, **self.properties}


@contextmanager
def connected(connection: Connection) -> Iterator[Connection]:
    """The block runs only if somebody answers the door; a client's error inside it becomes a `Failure`."""
    knock(connection)
    try:
        yield connection
    except KafkaException as exception:
        raise failure_of(client_error(exception, "asking the cluster"), servers=connection.servers) from exception
    except ClientError as error:
        raise failure_of(error, servers=connection.servers) from error


def knock(connection: Connection) -> None:
    for address in connection.addresses:
        try:
            socket.create_connection(address, timeout=KNOCK_TIMEOUT_S).close()
        except (OSError, UnicodeError):  # The latter: a name that cannot even be looked up, such as a..b
            continue
        return
    is_local = all(address.host in LOCAL_HOSTS for address in connection.addresses)
    remedy = "start one with `ottla up`" if is_local else "check --bootstrap-server"
    raise Failure(f"no broker at {connection.servers}: {remedy}", exit_code=UNREACHABLE)
