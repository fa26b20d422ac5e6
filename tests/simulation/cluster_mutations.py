"""Bugs planted into replication and elections, one at a time: the simulated cluster must find each within a thousand seeds.

`python -m tests.simulation.cluster_mutations` plants every one and tells the first seed that finds it, and how.
"""

import logging
import sys
from typing import Any

from ottla.base.types import NO_OFFSET, LeaderEpoch, Offset
from ottla.broker.handlers import produce
from ottla.broker.node import Node
from ottla.log.producer_state import ProducerState
from ottla.metadata.controller import brokers, partition_changes
from ottla.metadata.controller.broker_partitions import plan_departure
from ottla.metadata.controller.electorate import UNKNOWN_LOG_END, Electorate, LogEnd
from ottla.metadata.image_parts import PartitionImage
from ottla.replica.leadership import Follower, Leadership
from ottla.replica.partition import Partition
from ottla.replica.readable_partition import ReadablePartition
from sim.cluster_scenario import ClusterScenario
from tests.simulation.raft_mutations import Mutation

SEEDS_MAX = 1_000

_lead = Partition._lead
_resign = Partition._resign
_count = Leadership.count
_committed_end = Leadership.committed_end
_on_fetch = Follower.on_fetch


def find(mutation: Mutation, seeds: range = range(SEEDS_MAX)) -> tuple[int, str] | None:
    """The first seed that finds it, and what it says. Whatever is raised is a find: a sound cluster raises nothing."""
    with mutation.planted():
        for seed in seeds:
            try:
                ClusterScenario(seed).run()
            except Exception as error:
                return seed, str(error) or type(error).__name__
    return None


# ---- the bugs ----


def _commit_alone(leadership: Leadership, own_end: Offset, now: float) -> Offset:
    """Nobody waits for the followers."""
    return NO_OFFSET if leadership.is_short else own_end


def _commit_though_short(leadership: Leadership, own_end: Offset, now: float) -> Offset:
    min_isr, leadership.min_isr = leadership.min_isr, 0
    end = _committed_end(leadership, own_end, now)
    leadership.min_isr = min_isr
    return end


def _cut_and_lead(partition: Partition, state: PartitionImage, min_isr: int, *, is_new_epoch: bool) -> None:
    if is_new_epoch:
        partition.log.truncate_to(partition.high_watermark, now_ms=0)
    _lead(partition, state, min_isr, is_new_epoch=is_new_epoch)


def _resign_and_cut(partition: Partition) -> None:
    """As Kafka did before leader epochs (KIP-101)."""
    _resign(partition)
    partition.log.truncate_to(partition.high_watermark, now_ms=0)


async def _take_the_old_role(node: Node) -> None:
    """As it stands in an image that does not have this registration yet."""


async def _acknowledge_what_is_appended(commits: Any, timeout_ms: int) -> None:
    for _, committed in commits:
        committed.cancel()


async def _read_what_is_not_committed(
    partition: ReadablePartition, offset: Offset, max_bytes: int, *, min_one_batch: bool
) -> Any:
    return await partition._read(offset, max_bytes, partition.log.log_end_offset, min_one_batch=min_one_batch)


def _agree(partition: ReadablePartition, last_epoch: LeaderEpoch, end_offset: Offset) -> None:
    """Whatever a follower has is taken for ours."""


def _count_the_committed_isr_alone(leadership: Leadership, proposed: Any) -> None:
    _count(leadership, ())


def _shortest_log(electorate: Electorate, ref: Any, broker_id: int) -> LogEnd:
    end = electorate._log_ends.get((ref.topic.id, ref.number), {}).get(broker_id)
    return UNKNOWN_LOG_END if end is None else LogEnd(-end.leader_epoch, -end.offset)


def _believe_everyone(
    follower: Follower, broker_epoch: int, end_offset: Offset, log_start_offset: Offset, leader_end: Offset, now: float
) -> bool:
    """A follower that lost records still counts for what it had."""
    return _on_fetch(follower, broker_epoch, max(end_offset, follower.end_offset), log_start_offset, leader_end, now)


def _anyone_enters(leadership: Leadership, high_watermark: Offset) -> list[int]:
    return [replica for replica, _ in leadership._outside]


MUTATIONS = (
    Mutation("the watermark waits for no follower", Leadership, "committed_end", _commit_alone),
    Mutation("the watermark moves below min.insync.replicas", Leadership, "committed_end", _commit_though_short),
    Mutation("a new leader truncates to its watermark", Partition, "_lead", _cut_and_lead),
    Mutation("a former leader truncates to its watermark", Partition, "_resign", _resign_and_cut),
    Mutation("a node takes the role it had before it registered", Node, "wait_registered", _take_the_old_role),
    Mutation("a crashed broker stays in the ISR", brokers, "plan_unclean_departure", plan_departure),
    Mutation("unclean elections though nobody asked", Electorate, "_unclean_elections", lambda *_: True),
    Mutation("anyone who is there is elected", partition_changes, "_are_comparable", lambda *_: True),
    Mutation("the shortest log is elected", Electorate, "log_end", _shortest_log),
    Mutation(
        "a produce is acknowledged when it is appended", produce, "_wait_committed", _acknowledge_what_is_appended
    ),
    Mutation("consumers read what is not committed", ReadablePartition, "read", _read_what_is_not_committed),
    Mutation("diverging followers are not corrected", ReadablePartition, "divergence", _agree),
    Mutation("the proposed ISR is not waited for", Leadership, "count", _count_the_committed_isr_alone),
    Mutation("a follower counts for what it lost", Follower, "on_fetch", _believe_everyone),
    Mutation("any follower enters the ISR", Leadership, "entering", _anyone_enters),
    Mutation("repetitions are not recognised", ProducerState, "check", lambda *_, **__: None),
)


def main() -> int:
    logging.disable(logging.CRITICAL)
    missed = 0
    chosen = [one for one in MUTATIONS if not sys.argv[1:] or any(word in one.name for word in sys.argv[1:])]
    for mutation in chosen:
        found = find(mutation)
        missed += found is None
        print(
            f"{mutation.name}: " + ("NOT FOUND" if found is None else f"seed {found[0]}: {found[1][:100]}"), flush=True
        )
    return missed


if __name__ == "__main__":
    sys.exit(main())
