"""Bugs planted into replication, elections and coordinators, one at a time: the simulator finds each in a thousand seeds.

`python -m tests.simulation.cluster_mutations` plants every one and tells the first seed that finds it, and what that says;
with words, those in whose names one of them is. The table is in docs/SIMULATION.md.
"""

import argparse
import logging
import sys
from typing import Any

from ottla.base.types import NO_OFFSET, LeaderEpoch, Offset
from ottla.broker.coordinator_log import LedCoordinatorLog
from ottla.broker.handlers import produce
from ottla.broker.quorum.image_following import ImageFollowing
from ottla.log.appendable_log import AppendableLog
from ottla.log.producer_state import ProducerState
from ottla.metadata.controller import broker_partitions, brokers, partition_changes
from ottla.metadata.controller.broker_partitions import plan_departure
from ottla.metadata.controller.electorate import UNKNOWN_LOG_END, Electorate, LogEnd
from ottla.metadata.image_parts import PartitionImage
from ottla.replica.leadership import Follower, Leadership
from ottla.replica.partition import Partition
from ottla.replica.partitions import Partitions
from ottla.replica.readable_partition import ReadablePartition
from sim.scenarios import SCENARIOS
from sim.troubled_cluster import TroubledCluster
from tests.simulation.raft_mutations import Mutation

SEEDS_MAX = 1_000
UNSYNCED = "unsynced records count as synced"
NEEDED = {
    "the watermark moves below min.insync.replicas": "moment",
    "the proposed ISR is not waited for": "moment",
    "a follower counts for what it lost": "moment",
    "a reassignment waits for nobody": "reassignment",
    "a replaced disk is never found again": "wiped",
    "a read error ends the following of metadata": "disk error",
    "a former topic's directory stays in its place": "topics",
}
"""The kind of fault that shows it."""

_lead = Partition._lead
_resign = Partition._resign
_committed_end = Leadership.committed_end
_on_fetch = Follower.on_fetch


def find(mutation: Mutation, scenario: str, seeds: range = range(SEEDS_MAX)) -> tuple[int, str] | None:
    """The first seed that finds it, and what it says. Whatever is raised is a find: a sound cluster raises nothing.

    But for what says that the bug itself is written for code that has changed since.
    """
    with mutation.planted():
        for seed in seeds:
            played: Any = SCENARIOS[scenario](seed)
            if not _may_show(mutation, played.subject):
                continue
            try:
                played.run()
            except (TypeError, AttributeError, NameError):
                raise
            except Exception as error:
                return seed, str(error) or type(error).__name__
    return None


def _may_show(mutation: Mutation, subject: TroubledCluster) -> bool:
    """Whether the seed draws the fault without which nobody could tell."""
    is_shaped = subject.shape.is_power_safe or mutation.name != UNSYNCED
    return is_shaped and NEEDED.get(mutation.name) in (None, *subject.faults.names)


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


async def _acknowledge_what_is_appended(commits: Any, *_: Any) -> None:
    for _, committed in commits:
        committed.cancel()


async def _read_what_is_not_committed(
    partition: ReadablePartition, offset: Offset, max_bytes: int, *, min_one_batch: bool
) -> Any:
    return await partition._read(offset, max_bytes, partition.log.log_end_offset, min_one_batch=min_one_batch)


def _agree(partition: ReadablePartition, last_epoch: LeaderEpoch, end_offset: Offset) -> None:
    """Whatever a follower has is taken for ours."""


def _wait_for_the_committed_isr_alone(leadership: Leadership, own_end: Offset, now: float) -> Offset:
    """Neither for those proposed nor for those about to be."""
    ends = [one.end_offset for replica, one in leadership.followers.items() if replica in leadership.isr]
    return NO_OFFSET if leadership.is_short else min(own_end, *ends, own_end)


def _shortest_log(electorate: Electorate, ref: Any, broker_id: int) -> LogEnd:
    end = electorate._log_ends.get((ref.topic.id, ref.number), {}).get(broker_id)
    return UNKNOWN_LOG_END if end is None else LogEnd(-end.leader_epoch, -end.offset)


def _believe_everyone(
    follower: Follower, broker_epoch: int, end_offset: Offset, log_start_offset: Offset, leader_end: Offset, now: float
) -> bool:
    """A follower that lost records still counts for what it had."""
    return _on_fetch(follower, broker_epoch, max(end_offset, follower.end_offset), log_start_offset, leader_end, now)


def _anyone_enters(leadership: Leadership, high_watermark: Offset, leader_end: Offset) -> list[int]:
    return [replica for replica, _ in leadership._outside]


def _complete_at_once(asked: PartitionImage, min_isr: int) -> PartitionImage:
    """Those that are added need not be in sync."""
    isr = tuple(one for one in asked.isr if one not in asked.removing_replicas) or asked.adding_replicas
    return asked._replace(replicas=asked.target_replicas, isr=isr, adding_replicas=(), removing_replicas=())


def _durable_at_once(log: AppendableLog, end_offset: Offset) -> None:
    log.log_end_offset = log.durable_end_offset = end_offset


def _committed_at_once(log: LedCoordinatorLog, offset: Offset, timeout_seconds: float | None = None) -> None:
    """What a coordinator appended need not be anywhere else."""


def _all_is_decided(partition: ReadablePartition) -> Offset:
    return partition.high_watermark


CLUSTER = (
    Mutation("the watermark waits for no follower", Leadership, "committed_end", _commit_alone),
    Mutation("the watermark moves below min.insync.replicas", Leadership, "committed_end", _commit_though_short),
    Mutation("the proposed ISR is not waited for", Leadership, "committed_end", _wait_for_the_committed_isr_alone),
    Mutation("any follower enters the ISR", Leadership, "entering", _anyone_enters),
    Mutation("a follower counts for what it lost", Follower, "on_fetch", _believe_everyone),
    Mutation("a new leader truncates to its watermark", Partition, "_lead", _cut_and_lead),
    Mutation("a former leader truncates to its watermark", Partition, "_resign", _resign_and_cut),
    Mutation("diverging followers are not corrected", ReadablePartition, "divergence", _agree),
    Mutation("a crashed broker stays in the ISR", brokers, "plan_unclean_departure", plan_departure),
    Mutation("unclean elections though nobody asked", Electorate, "_unclean_elections", lambda *_: True),
    Mutation("anyone who is there is elected", partition_changes, "_are_comparable", lambda *_: True),
    Mutation("the shortest log is elected", Electorate, "log_end", _shortest_log),
    Mutation("a reassignment waits for nobody", partition_changes, "_with_completed_move", _complete_at_once),
    Mutation("a replaced disk is never found again", broker_partitions, "_found_again", lambda partition, _: partition),
    Mutation("a read error ends the following of metadata", ImageFollowing, "run", ImageFollowing._run),
    Mutation("a former topic's directory stays in its place", Partitions, "_maybe_set_aside", lambda *_: False),
    Mutation(UNSYNCED, AppendableLog, "_advance_end", _durable_at_once),
    Mutation(
        "a produce is acknowledged when it is appended", produce, "_wait_committed", _acknowledge_what_is_appended
    ),
    Mutation("consumers read what is not committed", ReadablePartition, "read", _read_what_is_not_committed),
    Mutation("repetitions are not recognised", ProducerState, "check", lambda *_, **__: None),
)
TRANSACTIONS = (
    Mutation(
        "read committed sees undecided transactions",
        ReadablePartition,
        "last_stable_offset",
        property(_all_is_decided),
    ),
    Mutation(
        "a coordinator answers before its record is committed", LedCoordinatorLog, "committed", _committed_at_once
    ),
)
GROUPS = (
    Mutation(
        "a group's commit is acknowledged when it is appended", LedCoordinatorLog, "committed", _committed_at_once
    ),
)
MUTATIONS = {"cluster": CLUSTER, "cluster-transactions": TRANSACTIONS, "cluster-groups": GROUPS}


def main() -> int:
    parser = argparse.ArgumentParser(description="Plants bugs one at a time; exit code: how many were not found.")
    parser.add_argument("words", nargs="*", help="only those in whose names one of them is")
    parser.add_argument("--first", type=int, default=0, help="the first seed (default: 0)")
    parser.add_argument("--seeds", type=int, default=SEEDS_MAX, help=f"how many at most (default: {SEEDS_MAX})")
    arguments = parser.parse_args()
    logging.disable(logging.CRITICAL)
    missed = 0
    for scenario, mutation in [(scenario, one) for scenario, them in MUTATIONS.items() for one in them]:
        if arguments.words and not any(word in mutation.name for word in arguments.words):
            continue
        found = find(mutation, scenario, range(arguments.first, arguments.first + arguments.seeds))
        missed += found is None
        told = "NOT FOUND" if found is None else f"{found[0]} | {found[1][:110]}"
        print(f"| {mutation.name} | {scenario} | {told} |", flush=True)
    return missed


if __name__ == "__main__":
    sys.exit(main())
