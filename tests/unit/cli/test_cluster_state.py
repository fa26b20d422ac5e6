"""A cluster at one moment: what counts as trouble, and the verdict in words."""

from ottla.base.types import TopicPartition
from ottla.cli.cluster_state import listed, verdict
from ottla.cli.cluster_view import brokers_document, brokers_view, quorum_text, status_document
from ottla.client.cluster_states import LogDirectory, Reassignment
from tests.unit.cli.clusters import cluster, partition, voter

HEALTHY = partition(0, [1, 2, 3])
BEHIND = partition(1, [1, 2, 3], isr=[1, 2])
REFUSING = partition(2, [1, 2, 3], isr=[1])
OFFLINE = partition(3, [3, 2], isr=[3], leader=None)


def test_a_healthy_cluster_is_called_so() -> None:
    assert verdict(cluster(HEALTHY)) == (True, "all is well: every replica of every partition is in sync")


def test_each_partition_is_told_under_its_worst_trouble() -> None:
    state = cluster(HEALTHY, BEHIND, REFUSING, OFFLINE, fenced=[3])
    assert verdict(state) == (
        False,
        "1 partition offline, neither read nor written; 1 partition below min ISR, acks=all is refused; "
        "1 partition under-replicated; broker 3 down",
    )


def test_lists_hold_every_partition_to_which_they_apply() -> None:
    document = status_document(cluster(HEALTHY, BEHIND, REFUSING, OFFLINE))
    assert document["under_replicated"] == ["t-1", "t-2", "t-3"]
    assert document["below_min_isr"] == ["t-2", "t-3"]
    assert document["offline"] == ["t-3"]
    assert not document["ok"]


def test_a_topic_with_fewer_replicas_than_its_min_isr_is_judged_by_its_replicas() -> None:
    assert cluster(partition(0, [1]), min_in_sync=2).below_min_in_sync == []


def test_replicas_on_their_way_are_not_missing() -> None:
    moving = {TopicPartition("t", 0): Reassignment(replicas=(1, 2, 3), adding=(3,), removing=(2,))}
    state = cluster(partition(0, [1, 2, 3], isr=[1, 2]), reassignments=moving)
    assert state.under_replicated == []
    assert verdict(state)[1].endswith("1 partition on the move")


def test_a_voter_that_is_no_broker_and_does_not_follow_is_told() -> None:
    voters = [voter(1), voter(7, caught_up_ms_ago=None), voter(8, caught_up_ms_ago=60_000)]
    assert verdict(cluster(HEALTHY, voters=voters)) == (False, "voters 7, 8 silent")


def test_a_voter_whose_broker_is_down_is_told_once() -> None:
    voters = [voter(1), voter(2), voter(3, caught_up_ms_ago=None)]
    assert verdict(cluster(HEALTHY, voters=voters, fenced=[3])) == (False, "broker 3 down")


def test_the_quorum_is_told_with_its_largest_lag() -> None:
    state = cluster(voters=[voter(1), voter(2, lag=12), voter(3, lag=3)])
    assert quorum_text(state.quorum) == "3 voters (1, 2, 3), epoch 7, largest lag 12"
    assert quorum_text(cluster(racks=["a"]).quorum) == "1 voter (1), epoch 7, no lag"


def test_brokers_are_told_with_what_they_lead_and_hold_and_how_full_they_are() -> None:
    directory = LogDirectory(
        path="/d",
        error=None,
        total_bytes=100,
        usable_bytes=4,
        sizes={TopicPartition("t", 0): 10, TopicPartition("t", 1): 5},
    )
    state = cluster(HEALTHY, BEHIND, fenced=[3])
    first, second, third = brokers_document(state, {1: [directory]})
    assert (first["role"], first["leaders"], first["replicas"], first["data_bytes"]) == ("controller", 2, 2, 15)
    assert (second["role"], second["leaders"], second["data_bytes"]) == ("voter", 0, None)
    assert third["fenced"]
    assert brokers_view(state, {1: [directory]}).row_count == 3


def test_long_lists_are_cut() -> None:
    assert listed(range(3)) == "0, 1, 2"
    assert listed(range(1_007)) == "0, 1, 2, 3, 4 and 1,002 more"
