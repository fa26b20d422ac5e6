"""Topics of a cluster as an administrator sees them: made with replicas, described, waited for."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from confluent_kafka import TopicCollection
from confluent_kafka.admin import AdminClient, NewTopic

from tests.chaos.writers import QUIET

WAIT_S: Final = 30.0
ANSWER_S: Final = 10.0
NO_LEADER: Final = -1


@dataclass(frozen=True, kw_only=True)
class PartitionState:
    leader: int
    replicas: tuple[int, ...]
    isr: frozenset[int]


class Topics:
    def __init__(self, bootstrap: str) -> None:
        self._admin = AdminClient({"bootstrap.servers": bootstrap, **QUIET})

    def create(
        self,
        name: str,
        *,
        partitions: int = 1,
        replicas: int = 3,
        config: Mapping[str, str] | None = None,
        live: int | None = None,
    ) -> None:
        """`live`: how many of the replicas can be in sync, if not all."""
        topic = NewTopic(name, num_partitions=partitions, replication_factor=replicas, config=dict(config or {}))
        self._create(topic)
        self.wait_until(name, lambda state: state.leader != NO_LEADER and len(state.isr) == (live or replicas))

    def create_on(self, name: str, replicas: Sequence[int], *, config: Mapping[str, str] | None = None) -> None:
        """One partition on these nodes; the first of them leads."""
        self._create(NewTopic(name, num_partitions=1, replica_assignment=[list(replicas)], config=dict(config or {})))
        self.wait_until(name, lambda state: state.leader == replicas[0] and len(state.isr) == len(replicas))

    def _create(self, topic: NewTopic) -> None:
        for future in self._admin.create_topics([topic], operation_timeout=ANSWER_S).values():
            future.result(ANSWER_S)

    def delete(self, name: str) -> None:
        for future in self._admin.delete_topics([name], operation_timeout=ANSWER_S).values():
            future.result(ANSWER_S)

    def names(self) -> list[str]:
        return sorted(self._admin.list_topics(timeout=ANSWER_S).topics)

    def states(self, name: str) -> list[PartitionState]:
        described = self._admin.describe_topics(TopicCollection([name]), request_timeout=ANSWER_S)
        return [
            PartitionState(
                leader=NO_LEADER if partition.leader is None else partition.leader.id,
                replicas=tuple(node.id for node in partition.replicas),
                isr=frozenset(node.id for node in partition.isr),
            )
            for partition in described[name].result(ANSWER_S).partitions
        ]

    def leader(self, name: str, partition: int = 0) -> int:
        return self.wait_until(name, lambda state: state.leader != NO_LEADER)[partition].leader

    def wait_until(
        self, name: str, holds: Callable[[PartitionState], bool], *, wait_s: float = WAIT_S
    ) -> list[PartitionState]:
        """The states, once each of them is as wanted."""
        deadline = time.monotonic() + wait_s
        while True:
            states: list[PartitionState] = []
            try:
                states = self.states(name)
            except Exception as error:  # A node that was asked died meanwhile, or does not know the topic yet.
                last = str(error)
            else:
                last = str(states)
                if states and all(holds(state) for state in states):
                    return states
            assert time.monotonic() < deadline, f"{name} did not get there: {last}"
            time.sleep(0.05)
