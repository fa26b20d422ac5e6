"""How even an assignment is, in one number, and how much better or worse a change would make it.

Goals: racks (each partition on as many as it can be), replicas, leaders, bytes on disk and bytes a second, alike on all
brokers. Per broker and goal there is a band around the mean in which all is well; outside of it the cost is the square
of the distance, in means, so that many small excesses are better than one large. Means do not change while replicas
move, so a change costs only what it does to the few brokers that it touches.

A partition never gets two replicas on a broker, nor fewer racks than it had: `gain` says minus infinity.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from ottla.base.types import NodeId, TopicPartition
from ottla.cli.balancing.model import Assignment, Load, Model, PartitionLoad, Replicas, load_of

RACK_COST: Final = 1_000.0
ISOLATION_COST: Final = 1_000.0
TOLERATED_SHARE: Final = 0.1  # Copying data for less is not worth it; leaders move for nothing, so theirs is exact.
DISK_SLACK_BYTES: Final = 16 * 1024 * 1024
RATE_SLACK_BYTES: Final = 64 * 1024


class Band(NamedTuple):
    """No cost between `low` and `high`; beyond, the square of the distance in units of `unit`, times `weight`."""

    low: float
    high: float
    unit: float
    weight: float = 1.0

    def cost(self, value: float) -> float:
        excess = value - self.high if value > self.high else self.low - value
        return self.weight * (excess / self.unit) ** 2 if excess > 0 else 0.0


class Balance:
    """An assignment that is being improved. `isolated` are brokers that lead one partition and nothing else."""

    def __init__(
        self, model: Model, assignment: Assignment, *, isolated: Mapping[NodeId, TopicPartition] | None = None
    ) -> None:
        self.brokers: Final = [broker.id for broker in model.brokers]
        self.partitions: Final = {each.partition: each for each in model.partitions}
        self.assignment: Final = dict(assignment)
        self.loads: Final = dict.fromkeys(self.brokers, Load())
        racks = {broker.id: broker.rack for broker in model.brokers}
        # As in Kafka: racks count once every broker has one.
        self._racks = {} if None in racks.values() else racks
        self._rack_count = len(set(self._racks.values()))
        for where, replicas in self.assignment.items():
            self._add(self.partitions[where], replicas, 1)
        self._bands = self._bands_around_means(isolated or {})
        self._costs = {node: self._cost_of(node, load) for node, load in self.loads.items()}

    @property
    def cost(self) -> float:
        return sum(self._costs.values()) + RACK_COST * sum(map(self.racks_missing, self.assignment.values()))

    def racks_missing(self, replicas: Replicas) -> int:
        """How many racks more the replicas could be spread over."""
        if not self._racks:
            return 0
        return min(len(replicas), self._rack_count) - len({self._racks.get(node) for node in replicas})

    def gain(self, changes: Assignment) -> float:
        """What the cost would fall by."""
        racks_gained = 0
        for where, after in changes.items():
            missing_before, missing_after = self.racks_missing(self.assignment[where]), self.racks_missing(after)
            if missing_after > missing_before or len(set(after)) < len(after):
                return -math.inf
            racks_gained += missing_before - missing_after
        return RACK_COST * racks_gained + self.gain_in_loads(changes)

    def gain_in_loads(self, changes: Assignment) -> float:
        """The same without the racks."""
        touched: dict[NodeId, Load] = {}
        for where, after in changes.items():
            partition = self.partitions[where]
            before = self.assignment[where]
            for replicas, others, times in ((before, after, -1), (after, before, 1)):
                for node in replicas:
                    if node in self.loads and not _stays(node, replicas, others):
                        load = touched.get(node, self.loads[node])
                        touched[node] = load.plus(load_of(partition, replicas, node), times)
        return sum(self._costs[node] - self._cost_of(node, load) for node, load in touched.items())

    def change(self, changes: Assignment) -> None:
        for where, after in changes.items():
            before = self.assignment[where]
            self._add(self.partitions[where], before, -1)
            self._add(self.partitions[where], after, 1)
            self.assignment[where] = after
            for node in self.loads.keys() & {*before, *after}:
                self._costs[node] = self._cost_of(node, self.loads[node])

    def _add(self, partition: PartitionLoad, replicas: Replicas, times: int) -> None:
        for node in replicas:
            if node in self.loads:
                self.loads[node] = self.loads[node].plus(load_of(partition, replicas, node), times)

    def _cost_of(self, node: NodeId, load: Load) -> float:
        replicas, leaders, disk, rate = self._bands[node]
        return (
            replicas.cost(load.replicas)
            + leaders.cost(load.leaders)
            + disk.cost(load.disk_bytes)
            + rate.cost(load.bytes_per_second)
        )

    def _bands_around_means(
        self, isolated: Mapping[NodeId, TopicPartition]
    ) -> dict[NodeId, tuple[Band, Band, Band, Band]]:
        count = max(1, len(self.brokers))
        replicas, leaders, disk_bytes, bytes_per_second = (sum(values) / count for values in _columns(self.loads))
        shared_leaders = (leaders * count - len(isolated)) / max(1, count - len(isolated))
        alone = Band(1, 1, 1, ISOLATION_COST)
        return {
            node: (
                _count_band(replicas, TOLERATED_SHARE),
                alone if node in isolated else _count_band(shared_leaders, 0.0),
                _amount_band(disk_bytes, DISK_SLACK_BYTES),
                _amount_band(bytes_per_second, RATE_SLACK_BYTES),
            )
            for node in self.brokers
        }


def _stays(node: NodeId, replicas: Replicas, others: Replicas) -> bool:
    """Its load is the same with either list."""
    is_same_role = (node == replicas[0]) == (node == others[0])
    return is_same_role and node in others and len(replicas) == len(others)


def _columns(loads: Mapping[NodeId, Load]) -> Iterable[tuple[float, ...]]:
    return zip(*loads.values(), strict=True) if loads else [(0.0,)] * len(Load())


def _count_band(mean: float, tolerated_share: float) -> Band:
    """Whole things cannot be spread more evenly than to the next whole number."""
    low = min(math.floor(mean), mean * (1 - tolerated_share))
    high = max(math.ceil(mean), mean * (1 + tolerated_share))
    return Band(low, high, max(1.0, mean))


def _amount_band(mean: float, slack: float) -> Band:
    tolerated = max(slack, mean * TOLERATED_SHARE)
    return Band(mean - tolerated, mean + tolerated, max(1.0, mean))
