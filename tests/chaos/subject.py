"""What chaos is done to: a broker of Ottla, three of them with OTTLA_CHAOS_SUBJECT=cluster, or Apache Kafka with
OTTLA_CHAOS_SUBJECT=kafka, to prove a test on the original.

Either is started with small time-outs where a test waits for them, and with the same settings.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import ottla.testing
from benchmarks.peers import ApacheKafka
from ottla.testing import Broker
from tests.chaos.brokers import require_untroubled
from tests.chaos.cluster_subject import cluster_under_test


class Subject(Protocol):
    """`start` may be repeated after `stop` (SIGTERM) and `kill` (SIGKILL): the same port, the same data."""

    @property
    def bootstrap_servers(self) -> str: ...

    def start(self) -> object: ...

    def stop(self) -> None: ...

    def kill(self) -> None: ...

    def require_untroubled(self) -> None:
        """No bug showed itself in the broker's log."""
        ...


class OttlaSubject:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.start, self.stop, self.kill = broker.start, broker.stop, broker.kill

    @property
    def bootstrap_servers(self) -> str:
        return self._broker.bootstrap_servers

    def require_untroubled(self) -> None:
        require_untroubled(self._broker)


class KafkaSubject:
    def __init__(self, peer: ApacheKafka) -> None:
        self.bootstrap_servers = peer.bootstrap
        self.start, self.stop, self.kill = peer.start, peer.stop, peer.kill

    def require_untroubled(self) -> None:
        """Its bugs are not ours to find."""


@contextmanager
def subject_under_test(name: str, *, directory: Path, port: int, config: Mapping[str, str]) -> Iterator[Subject]:
    if name == "kafka":
        peer = ApacheKafka(directory, properties=config)
        peer.prepare()
        peer.start()
        try:
            yield KafkaSubject(peer)
        finally:
            peer.discard()
    elif name == "cluster":
        with cluster_under_test(config) as cluster:
            yield cluster
    else:
        with ottla.testing.broker(port=port, config=config) as broker:
            yield OttlaSubject(broker)
