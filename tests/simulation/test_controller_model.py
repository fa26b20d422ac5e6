"""The controller's decisions on random clusters, seed by seed: what must hold after every step, and at the end.

A failing seed fails again: `run(seed)`. Rare branches are counted, so that a model that no longer reaches them fails, too.
"""

from collections import Counter
from random import Random

from ottla.metadata.image_parts import PartitionImage
from tests.simulation.controller_model import (
    BROKERS,
    LOOK_MS,
    PARTITIONS,
    SESSION_TIMEOUT_MS,
    TOPICS,
    Cluster,
    ControllerFailed,
)

SEEDS = 60
STEPS = 250


class Run:
    """One cluster and the steps that chance takes with it."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.cluster = Cluster()
        self.before = self.cluster.partitions()

    def steps(self, count: int) -> None:
        actions, weights = zip(*self.weighted_actions().items(), strict=True)
        for action in self.chance.choices(actions, weights, k=count):
            try:
                action()
            except ControllerFailed:
                self.cluster.take_over()
            self.check()

    def weighted_actions(self):
        return {
            self.produce: 10,
            self.catch_up: 12,
            self.fetch: 6,
            self.pass_time: 6,
            self.start: 8,
            self.kill: 3,
            self.crash_and_start_at_once: 3,
            self.kill_and_notice: 4,
            self.stop: 2,
            self.cut: 1,
            self.heal: 4,
            self.shrink: 4,
            self.reassign: 3,
            self.cancel: 2,
            self.elect: 2,
            self.balance: 1,
            self.unregister: 1,
            self.fail_controller: 2,
        }

    def broker(self) -> int:
        return self.chance.choice(BROKERS)

    def key(self) -> tuple[str, int]:
        return self.chance.choice(PARTITIONS)

    def produce(self) -> None:
        for key in PARTITIONS:
            self.cluster.produce(key, self.chance.randint(0, 3))

    def catch_up(self) -> None:
        key = self.key()
        for follower in self.chance.sample(BROKERS, self.chance.randint(1, len(BROKERS))):
            self.cluster.fetch(key, follower, 1000)
            self.cluster.expand(key, follower)

    def fetch(self) -> None:
        follower = self.broker()
        for key in PARTITIONS:
            self.cluster.fetch(key, follower, self.chance.choice((1, 1000)))

    def shrink(self) -> None:
        self.cluster.shrink(self.key(), self.broker())

    def start(self) -> None:
        self.cluster.start(self.broker())

    def kill(self) -> None:
        self.cluster.kill(self.broker(), self.chance.choice((0, 1, 1000)))

    def crash_and_start_at_once(self) -> None:
        broker_id = self.broker()
        self.cluster.kill(broker_id, self.chance.choice((0, 2, 1000)))
        self.cluster.notice(broker_id)
        self.cluster.start(broker_id)

    def kill_and_notice(self) -> None:
        broker_id = self.broker()
        self.cluster.kill(broker_id, self.chance.choice((0, 1, 1000)))
        self.cluster.notice(broker_id)
        self.cluster.pass_time(LOOK_MS)

    def stop(self) -> None:
        self.cluster.brokers[self.broker()].is_stopping = True

    def cut(self) -> None:
        self.cluster.brokers[self.broker()].is_connected = False

    def heal(self) -> None:
        self.cluster.brokers[self.broker()].is_connected = True

    def pass_time(self) -> None:
        self.cluster.pass_time(self.chance.choice((LOOK_MS, SESSION_TIMEOUT_MS)))

    def reassign(self) -> None:
        key = self.key()
        count = TOPICS[key[0]].replication_factor + self.chance.randint(0, 1)
        self.cluster.reassign(key, self.chance.sample(BROKERS, count))

    def cancel(self) -> None:
        self.cluster.reassign(self.key(), None)

    def elect(self) -> None:
        self.cluster.elect(self.chance.choice((0, 1)))

    def balance(self) -> None:
        self.cluster.balance()

    def unregister(self) -> None:
        self.cluster.unregister(self.broker())

    def fail_controller(self) -> None:
        self.cluster.records_left = self.chance.randint(0, 3)

    def check(self) -> None:
        after = self.cluster.partitions()
        for key in PARTITIONS:
            check_partition(self.cluster, key, self.before[key], after[key])
            self.cluster.is_led(key)
        self.before = after


def check_partition(cluster: Cluster, key: tuple[str, int], old: PartitionImage, new: PartitionImage) -> None:
    isr, eligible = set(new.isr), set(new.eligible_leader_replicas)
    assert new.leader == -1 or new.leader in isr
    assert isr <= set(new.replicas)
    assert eligible <= set(new.replicas)
    assert set(new.last_known_elr) <= set(new.replicas)
    assert not isr & eligible
    assert all(cluster.image.brokers[one].is_active for one in isr), "no fenced broker is in sync or leads"
    assert (new.leader == -1) == (not isr)
    assert new.leader_epoch >= old.leader_epoch
    assert new.partition_epoch >= old.partition_epoch
    assert new.partition_epoch > old.partition_epoch or new == old
    assert new.leader == old.leader or new.leader_epoch > old.leader_epoch
    assert len(new.directories) == len(new.replicas)
    min_isr = min(TOPICS[key[0]].min_isr, new.replication_factor)
    assert len(isr) < min_isr or not (eligible or new.last_known_elr)
    # Who surely has every committed record, and who has them unless bytes were lost: never too few.
    held_by = {*isr, *eligible, *new.last_known_elr}
    were_held_by = {*old.isr, *old.eligible_leader_replicas, *old.last_known_elr}
    is_enough = len(held_by) >= min(min_isr, len(were_held_by))
    assert is_enough or new.leader_recovery_state or TOPICS[key[0]].unclean


def run(seed: int) -> Counter[str]:
    """Everything must hold while anything happens; and in the end everybody comes back."""
    one = Run(seed)
    one.steps(STEPS)
    one.cluster.recover()
    for key, partition in one.cluster.partitions().items():
        assert set(partition.isr) == set(partition.replicas), f"{key} does not come back: {partition}"
    return one.cluster.seen


RARE = (
    "elected from the eligible",
    "elected by comparing logs",
    "elected alone",
    "elected uncleanly",
    "moved",
    "lost bytes",
    "reassignment refused",
    "controller failed",
)


def test_no_committed_record_is_lost_and_every_partition_comes_back():
    seen = sum((run(seed) for seed in range(SEEDS)), Counter())
    assert [name for name in RARE if not seen[name]] == []


def test_a_seed_runs_the_same_way_again():
    assert run(7) == run(7)
