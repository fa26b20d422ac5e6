"""What the parts of `Admin` share: librdkafka's admin client, a way to ask brokers directly, and how a call ends."""

import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, Self, TypeVar

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from ottla.client.errors import ClientError, PartialFailure, client_error
from ottla.client.options import ClientKind, opened, settings
from ottla.client.raw.cluster import Cluster
from ottla.client.raw.security_options import sdk_security

K = TypeVar("K")


class AdminBase:
    def __init__(self, config: Mapping[str, object] | None = None, **options: object) -> None:
        chosen = settings(ClientKind.ADMIN, config, **options)
        self._kafka = opened(AdminClient, chosen)
        self._timeout_s = chosen.integer("default.api.timeout.ms") / 1000
        self._options = chosen
        self._cluster: Cluster | None = None
        self._cluster_lock = threading.Lock()

    def close(self) -> None:
        """Nothing has to be flushed: librdkafka ends its threads with the last reference."""
        self.__dict__.pop("_kafka", None)
        with self._cluster_lock:
            if self._cluster is not None:
                self._cluster.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _brokers(self) -> Iterator[Cluster]:
        """For requests that librdkafka has no function for: one thread at a time."""
        with self._cluster_lock:
            if self._cluster is None:
                self._cluster = self._opened_cluster()
            yield self._cluster

    def _opened_cluster(self) -> Cluster:
        """When it is first needed: librdkafka may know ways to prove oneself that are not known here."""
        return Cluster(
            str(self._options.librdkafka.get("bootstrap.servers", "")),
            client_id=str(self._options.kafka["client.id"]),
            timeout_s=self._timeout_s,
            security=sdk_security(self._options.kafka),
        )

    def _timeouts(self) -> dict[str, Any]:
        return {"request_timeout": self._timeout_s, "operation_timeout": self._timeout_s}

    def _finish(self, doing: str, futures: Mapping[K, Future[Any]], *, name: Callable[[K], str] = str) -> dict[K, Any]:
        done, failures = finished(doing, futures, name=name)
        raise_failures(failures)
        return done


def finished(
    doing: str, futures: Mapping[K, Future[Any]], *, name: Callable[[K], str] = str
) -> tuple[dict[K, Any], dict[str, ClientError]]:
    """Waits for all: what was done, and what failed by its name."""
    done: dict[K, Any] = {}
    failures: dict[str, ClientError] = {}
    for part, future in futures.items():
        try:
            done[part] = future.result()
        except KafkaException as error:
            failures[name(part)] = client_error(error, f"{doing} {name(part)}")
    return done, failures


def raise_failures(failures: Mapping[str, ClientError]) -> None:
    """One as it is, several as a `PartialFailure`."""
    if len(failures) > 1:
        raise PartialFailure(failures)
    for failure in failures.values():
        raise failure
