"""Evening out a cluster, in the manner of Cruise Control: many small changes, each of which makes the whole better.

Leaders first, because they move for nothing; then replicas, in rounds: the best change of each partition is weighed
against the state that the round found, and they are applied from the best on, as long as each still helps. The cost
falls with every change and cannot fall below zero, so this ends; at most `copies_max` replicas are copied.

Only settled partitions are touched whose replicas all lie on brokers of the model.
"""

import heapq
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, TypeAlias

from ottla.base.types import NodeId, TopicPartition
from ottla.cli.balancing.balance import Balance
from ottla.cli.balancing.model import Assignment, Model, PartitionLoad, Replicas

GAIN_MIN: Final = 1e-9  # Less is arithmetic's noise.
COPY_COST: Final = 0.01  # What copying a broker's mean of data has to gain at least.
ROUNDS_MAX: Final = 100
SWAP_CANDIDATES_MAX: Final = 24

# Of each broker, to whom it could hand leadership: the partition, and its replicas afterwards.
Edges: TypeAlias = Mapping[NodeId, Mapping[NodeId, tuple[TopicPartition, Replicas]]]


def rebalanced(model: Model, *, copies_max: int, isolate_leader: TopicPartition | None = None) -> Assignment:
    """New replica lists of what may be moved; with `isolate_leader`, the broker that leads it leads nothing else."""
    start = starting_assignment(model)
    isolated = {}
    if isolate_leader is not None:
        broker = broker_to_isolate(model, isolate_leader)
        isolated = {broker: isolate_leader}
        start[isolate_leader] = led_by(start[isolate_leader], broker)
    search = _Search(model, Balance(model, start, isolated=isolated), copies_max, fixed=set(isolated.values()))
    return search.run()


def starting_assignment(model: Model) -> dict[TopicPartition, Replicas]:
    """With the leaders that are, or with the preferred ones, whichever is more even: an election costs nothing."""
    actual = {each.partition: each.led_first for each in model.partitions}
    preferred = actual | {each.partition: each.replicas for each in movable(model)}
    return actual if Balance(model, actual).cost < Balance(model, preferred).cost else preferred


def movable(model: Model) -> list[PartitionLoad]:
    known = {broker.id for broker in model.brokers}
    return [each for each in model.partitions if each.is_settled and known.issuperset(each.replicas)]


def broker_to_isolate(model: Model, partition: TopicPartition) -> NodeId:
    """Of its replicas, the broker that would have to give away the least data, then the fewest leaders, to lead it alone."""
    [hot] = [each for each in model.partitions if each.partition == partition]
    others = [each for each in model.partitions if each.partition != partition]

    def given_away(node: NodeId) -> tuple[int, int, bool]:
        led = [each for each in others if each.led_first[0] == node]
        return sum(each.size_bytes + 1 for each in led if len(each.replicas) == 1), len(led), node != hot.leader

    return min(hot.replicas, key=given_away)


def led_by(replicas: Replicas, leader: NodeId) -> Replicas:
    return (leader, *(replica for replica in replicas if replica != leader))


class _Search:
    def __init__(self, model: Model, balance: Balance, copies_max: int, *, fixed: set[TopicPartition]) -> None:
        self.balance = balance
        self._origin = model.assignment
        self._copies_left = copies_max
        self._fixed_leaders = fixed
        self._mean_bytes = max(
            1.0, sum(load.disk_bytes for load in balance.loads.values()) / max(1, len(balance.loads))
        )
        self._movable = movable(model)

    def run(self) -> Assignment:
        for _ in range(ROUNDS_MAX):
            while self._leader_round() or self._leader_path():
                pass
            if not (self._replica_round() or self._swap()):
                break
        return {each.partition: self.balance.assignment[each.partition] for each in self._movable}

    # Leaders

    def _leader_round(self) -> bool:
        return self._apply_best(self._leader_changes)

    def _leader_changes(self, partition: PartitionLoad) -> Iterator[Replicas]:
        replicas = self.balance.assignment[partition.partition]
        if partition.partition not in self._fixed_leaders:
            yield from (led_by(replicas, follower) for follower in replicas[1:])

    def _leader_path(self) -> bool:
        """Leadership handed on over several brokers, where the fullest and the emptiest share no partition.

        One broker more, one less, those between as before: what no single change can do.
        """
        by_leaders = sorted(self.balance.brokers, key=lambda node: (self.balance.loads[node].leaders, node))
        edges = self._leader_edges()
        for donor in reversed(by_leaders):
            for path in _paths_from(donor, edges):
                if self._maybe_change(path):
                    return True
        return False

    def _leader_edges(self) -> Edges:
        edges: dict[NodeId, dict[NodeId, tuple[TopicPartition, Replicas]]] = {}
        for each in self._movable:
            for after in self._leader_changes(each):
                leader = self.balance.assignment[each.partition][0]
                edges.setdefault(leader, {}).setdefault(after[0], (each.partition, after))
        return edges

    # Replicas

    def _replica_round(self) -> bool:
        return self._apply_best(self._replica_changes)

    def _replica_changes(self, partition: PartitionLoad) -> Iterator[Replicas]:
        replicas = self.balance.assignment[partition.partition]
        first = 1 if partition.partition in self._fixed_leaders else 0
        for index in range(first, len(replicas)):
            for node in self.balance.brokers:
                if node not in replicas:
                    yield (*replicas[:index], node, *replicas[index + 1 :])

    def _swap(self) -> bool:
        """Two replicas change places: where counts are even and amounts are not, moving one would only trade evils."""
        loads = self.balance.loads
        for amount in ("disk_bytes", "bytes_per_second"):
            ranked = sorted(self.balance.brokers, key=lambda node: (getattr(loads[node], amount), node))
            for fullest, emptiest in ((ranked[-1], ranked[0]),) if len(ranked) > 1 else ():
                for heavy in self._candidates(fullest, emptiest, amount, largest=True):
                    for light in self._candidates(emptiest, fullest, amount, largest=False):
                        exchange = {
                            heavy: _replaced(self.balance.assignment[heavy], fullest, emptiest),
                            light: _replaced(self.balance.assignment[light], emptiest, fullest),
                        }
                        if self._maybe_change(exchange):
                            return True
        return False

    def _candidates(self, on: NodeId, off: NodeId, amount: str, *, largest: bool) -> list[TopicPartition]:
        field = {"disk_bytes": "size_bytes"}.get(amount, amount)
        found = [
            each
            for each in self._movable
            if on in (held := self.balance.assignment[each.partition])
            and off not in held
            and each.partition not in self._fixed_leaders
        ]
        chosen = heapq.nlargest if largest else heapq.nsmallest
        return [each.partition for each in chosen(SWAP_CANDIDATES_MAX, found, key=lambda each: getattr(each, field))]

    # Both

    def _apply_best(self, changes_of: Callable[[PartitionLoad], Iterable[Replicas]]) -> bool:
        """A round. Whether anything changed."""
        scored = []
        for each in self._movable:
            best = max(
                ((self._score({each.partition: after}), after) for after in changes_of(each)),
                default=None,
            )
            if best is not None and best[0] > GAIN_MIN:
                scored.append((-best[0], each.partition, best[1]))
        changed = [self._maybe_change({where: after}) for _, where, after in sorted(scored)]
        return any(changed)

    def _maybe_change(self, changes: Assignment) -> bool:
        copies = sum(self._copies(where, after) for where, after in changes.items())
        if self._score(changes) <= GAIN_MIN or copies > self._copies_left:
            return False
        self._copies_left -= copies
        self.balance.change(changes)
        return True

    def _copies(self, where: TopicPartition, after: Replicas) -> int:
        """How many more replicas have to be copied in the end; negative where one goes back to where it was."""
        origin = set(self._origin[where])
        return len(set(after) - origin) - len(set(self.balance.assignment[where]) - origin)

    def _score(self, changes: Assignment) -> float:
        """The gain, less what the copying costs."""
        copied_bytes = sum(
            max(0, self._copies(where, after)) * self.balance.partitions[where].size_bytes
            for where, after in changes.items()
        )
        return self.balance.gain(changes) - COPY_COST * copied_bytes / self._mean_bytes


def _paths_from(donor: NodeId, edges: Edges) -> Iterator[Assignment]:
    """The shortest ways to hand leadership on from one broker to each that it reaches, by two steps or more."""
    steps: dict[NodeId, dict[TopicPartition, Replicas]] = {donor: {}}
    waiting = deque([donor])
    while waiting:
        node = waiting.popleft()
        for receiver, (where, after) in sorted(edges.get(node, {}).items()):
            if receiver not in steps:
                steps[receiver] = {**steps[node], where: after}
                waiting.append(receiver)
                if len(steps[receiver]) > 1:
                    yield steps[receiver]


def _replaced(replicas: Replicas, old: NodeId, new: NodeId) -> Replicas:
    return tuple(new if replica == old else replica for replica in replicas)
