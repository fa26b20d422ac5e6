"""What the tests are handed: the broker under test, its clients, and the keeper of topics."""

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from tests.conformance.client import Client
from tests.conformance.registry import start
from tests.conformance.waiting import eventually


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerUnderTest:
    bootstrap: str
    data_dir: Path | None

    @property
    def port(self) -> int:
        return int(self.bootstrap.rsplit(":", 1)[1])


class Clients:
    """Drivers, started when first asked for and kept for the whole run; one that died is started again."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._started: dict[str, Client] = {}
        self._stack = ExitStack()

    def __getitem__(self, name: str) -> Client:
        if name not in self._started or not self._started[name].is_running:
            self._started[name] = self._stack.enter_context(start(name, self._bootstrap))
        return self._started[name]

    def close(self) -> None:
        self._stack.close()


class Keeper:
    """Makes the topics that tests need and reads back where the client under test cannot; not counted as tested."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.produce, self.fetch, self.locate = client.produce, client.fetch, client.locate
        self.topics, self.partitions, self.topic_configs = client.topics, client.partitions, client.topic_configs

    def create(self, topic: str, *, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
        """Create a topic and wait until the broker shows it."""
        self.client.create_topic(topic, partitions=partitions, configs=configs)

        def shown() -> None:
            assert len(self.partitions(topic)) == partitions

        eventually(shown)

    def delete(self, topic: str) -> None:
        self.client.call("delete_topic", name=topic)

        def gone() -> None:
            assert topic not in self.topics()

        eventually(gone)
