"""What a new assignment changes: which replicas are copied, which leaders move, and every broker before and after."""

from collections.abc import Mapping
from dataclasses import dataclass

from ottla.base.types import NodeId, TopicPartition
from ottla.cli.balancing.balance import Balance
from ottla.cli.balancing.model import Assignment, Load, Model, PartitionLoad, Replicas


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One partition from its replicas and leader to others."""

    partition: TopicPartition
    before: Replicas
    after: Replicas
    leader_before: NodeId | None
    size_bytes: int

    @property
    def adding(self) -> Replicas:
        return tuple(replica for replica in self.after if replica not in self.before)

    @property
    def removing(self) -> Replicas:
        return tuple(replica for replica in self.before if replica not in self.after)

    @property
    def leader_after(self) -> NodeId:
        return self.after[0]

    @property
    def copied_bytes(self) -> int:
        return self.size_bytes * len(self.adding)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """`cost` is 0 where everything is within its band; the gain is how far it falls."""

    moves: tuple[Move, ...]
    before: Mapping[NodeId, Load]
    after: Mapping[NodeId, Load]
    cost_before: float
    cost_after: float

    @property
    def assignment(self) -> dict[TopicPartition, Replicas]:
        return {move.partition: move.after for move in self.moves}

    @property
    def copies(self) -> int:
        return sum(len(move.adding) for move in self.moves)

    @property
    def copied_bytes(self) -> int:
        return sum(move.copied_bytes for move in self.moves)

    @property
    def leader_moves(self) -> int:
        return sum(move.leader_before != move.leader_after for move in self.moves)

    @property
    def gain(self) -> float:
        return self.cost_before - self.cost_after


def plan_of(model: Model, target: Assignment, *, isolated: Mapping[NodeId, TopicPartition] | None = None) -> Plan:
    """From the model to `target`, which names the partitions that change (others may be in it, too)."""
    actual = {each.partition: each.led_first for each in model.partitions}
    before = Balance(model, actual, isolated=isolated)
    after = Balance(model, {**actual, **target}, isolated=isolated)
    moves = [
        Move(
            partition=each.partition,
            before=each.replicas,
            after=target[each.partition],
            leader_before=each.leader,
            size_bytes=each.size_bytes,
        )
        for each in model.partitions
        if each.partition in target and is_change(each, target[each.partition])
    ]
    return Plan(
        moves=tuple(sorted(moves, key=lambda move: move.partition)),
        before=before.loads,
        after=after.loads,
        cost_before=before.cost,
        cost_after=after.cost,
    )


def is_change(partition: PartitionLoad, replicas: Replicas) -> bool:
    return replicas != partition.replicas or (partition.is_settled and replicas[0] != partition.leader)
