"""A place for replicas that need one: when brokers are emptied, and when a replication factor is raised or lowered.

Each replica goes where it evens out the cluster most, on a rack that the partition has no replica on yet if there is one.
The leader stays where it is unless its broker is emptied; then an in-sync follower takes over, not the new copy.
"""

from collections.abc import Collection

from ottla.base.types import NodeId, TopicPartition
from ottla.cli.balancing.balance import Balance
from ottla.cli.balancing.model import Assignment, Model, PartitionLoad, Replicas


class NoPlace(Exception):
    """There are fewer brokers than a partition needs."""

    def __init__(self, partition: TopicPartition, wanted: int, brokers: int) -> None:
        super().__init__(f"{partition} needs {wanted} brokers and {brokers} would be there")
        self.partition = partition
        self.wanted = wanted
        self.brokers = brokers


def emptied(model: Model, brokers: Collection[NodeId], partitions: Collection[TopicPartition]) -> Assignment:
    """New replica lists of those partitions that have a replica on one of `brokers`, none of which keeps one."""
    staying = Model(
        brokers=tuple(broker for broker in model.brokers if broker.id not in brokers), partitions=model.partitions
    )
    balance = Balance(staying, model.assignment)
    moved: dict[TopicPartition, Replicas] = {}
    for each in sorted(model.partitions, key=lambda each: (-each.size_bytes, each.partition)):
        kept = tuple(replica for replica in each.replicas if replica not in brokers)
        if each.partition in partitions and len(kept) < len(each.replicas):
            moved[each.partition] = _filled(balance, each, _led_evenly(balance, each, kept), len(each.replicas))
    return moved


def resized(model: Model, replica_count: int, partitions: Collection[TopicPartition]) -> Assignment:
    """New replica lists of those partitions that have more or fewer replicas than `replica_count`."""
    balance = Balance(model, model.assignment)
    changed: dict[TopicPartition, Replicas] = {}
    for each in sorted(model.partitions, key=lambda each: (-each.size_bytes, each.partition)):
        if each.partition not in partitions or len(each.replicas) == replica_count:
            continue
        replicas = each.led_first
        while len(replicas) > replica_count:
            replicas = _shrunk(balance, each, replicas)
        changed[each.partition] = _filled(balance, each, replicas, replica_count)
    return changed


def _filled(balance: Balance, partition: PartitionLoad, replicas: Replicas, wanted: int) -> Replicas:
    """With the best brokers added behind, and the balance changed accordingly."""
    while len(replicas) < wanted:
        free = [node for node in balance.brokers if node not in replicas]
        if not free:
            raise NoPlace(partition.partition, wanted, len(balance.brokers))
        replicas = max(
            ((*replicas, node) for node in free),
            key=lambda grown: (-balance.racks_missing(grown), _gain(balance, partition, grown), -grown[-1]),
        )
    balance.change({partition.partition: replicas})
    return replicas


def _led_evenly(balance: Balance, partition: PartitionLoad, kept: Replicas) -> Replicas:
    """The leader stays if it may; otherwise the follower leads who evens out the leaders most."""
    if partition.leader in kept or not kept:
        return kept
    able = [each for each in kept if each in partition.in_sync] or kept
    return max(
        ((leader, *(each for each in kept if each != leader)) for leader in able),
        key=lambda replicas: (_gain(balance, partition, replicas), -replicas[0]),
    )


def _shrunk(balance: Balance, partition: PartitionLoad, replicas: Replicas) -> Replicas:
    """Without one follower: one that is behind, else one whose rack is there twice, else the fullest broker's."""
    return max(
        (tuple(each for each in replicas if each != left_out) for left_out in replicas[1:]),
        key=lambda rest: (
            len(partition.in_sync.intersection(rest)),
            -balance.racks_missing(rest),
            _gain(balance, partition, rest),
        ),
    )


def _gain(balance: Balance, partition: PartitionLoad, replicas: Replicas) -> float:
    """Whatever it does to the racks, which is weighed before: half a list of replicas has fewer than the whole."""
    return balance.gain_in_loads({partition.partition: replicas})
