"""One partition's next state, rule by rule."""

from uuid import UUID

import pytest

from ottla.metadata.controller.electorate import NO_LOG_ENDS, NO_STATIC_CONFIGS, Electorate, LogEnd
from ottla.metadata.controller.partition_changes import Election, RecoveryState, change_record, changed_partition
from ottla.metadata.image_parts import PartitionRef
from tests.unit.metadata.cluster import DIRECTORY_ID, broker_record, image_of, orders, partition_of, replay, shown


class Orders:
    """Partition orders-0 of a cluster of six, changed step by step."""

    def __init__(self, replicas, *, fenced=(), **facts):
        self.image = image_of(*orders(replicas, **facts), brokers=6)
        self.fence(*fenced)

    def fence(self, *brokers):
        replay(self.image, *(broker_record(broker, fenced=True) for broker in brokers))

    def unfence(self, *brokers):
        replay(self.image, *(broker_record(broker) for broker in brokers))

    def change(self, *, election=None, lost_by=-1, log_ends=NO_LOG_ENDS, **asked):
        ref = PartitionRef(self.image.topics["orders"], 0, self.partition)
        electorate = Electorate(self.image, NO_STATIC_CONFIGS, log_ends=log_ends)
        after = changed_partition(ref, self.partition._replace(**asked), electorate, election=election, lost_by=lost_by)
        record = change_record(ref, after)
        if record is not None:
            replay(self.image, record)
        return shown(self.image)

    @property
    def partition(self):
        return partition_of(self.image)


# ---- leaders ----


def test_a_leader_that_may_lead_stays():
    some = Orders((1, 2, 3), leader=2)
    assert some.change(isr=(2, 3)) == "2 | 2 3 | -"
    assert some.partition.leader_epoch == 0


def test_the_first_replica_in_sync_that_may_lead_takes_over():
    some = Orders((1, 2, 3, 4), fenced=(1, 2))
    assert some.change(isr=(3, 4)) == "3 | 3 4 | -"


def test_a_new_leader_starts_an_epoch_and_every_change_a_partition_epoch():
    some = Orders((1, 2, 3), fenced=(1,))
    some.change(isr=(2, 3))
    assert (some.partition.leader_epoch, some.partition.partition_epoch) == (1, 1)
    some.change(isr=(2,))
    assert (some.partition.leader_epoch, some.partition.partition_epoch) == (1, 2)


def test_nothing_to_change_is_no_record():
    some = Orders((1, 2, 3))
    some.change()
    assert some.partition.partition_epoch == 0


def test_the_preferred_leader_gets_the_lead_back_only_when_in_sync():
    some = Orders((1, 2, 3), leader=2, isr=[2, 3])
    assert some.change(election=Election.PREFERRED) == "2 | 2 3 | -"
    some.change(isr=(1, 2, 3))
    assert some.change(election=Election.PREFERRED) == "1 | 1 2 3 | -"


def test_a_replica_in_an_offline_directory_does_not_lead():
    some = Orders((1, 2, 3))
    replay(some.image, broker_record(2, log_dirs=[]))
    some.fence(1)
    assert some.change(isr=(2, 3)) == "3 | 2 3 | -"


# ---- eligible leader replicas ----


def test_below_the_minimum_who_leaves_stays_eligible():
    some = Orders((1, 2, 3), min_isr=2)
    assert some.change(isr=(1, 2)) == "1 | 1 2 | -"
    assert some.change(isr=(1,)) == "1 | 1 | 2"


def test_back_at_the_minimum_nobody_needs_to_be_eligible():
    some = Orders((1, 2, 3), min_isr=2, isr=[1], eligible_leader_replicas=[2])
    assert some.change(isr=(1, 3)) == "1 | 1 3 | -"


def test_an_eligible_replica_leads_when_nobody_is_in_sync():
    some = Orders((1, 2, 3), min_isr=2, isr=[1], eligible_leader_replicas=[2], fenced=(1,))
    assert some.change(isr=()) == "2 | 2 | 1"
    assert some.partition.leader_recovery_state == RecoveryState.RECOVERED


def test_without_anybody_alive_the_last_leader_is_remembered():
    some = Orders((1, 2, 3), min_isr=2, isr=[1], eligible_leader_replicas=[2], fenced=(1, 2))
    assert some.change(isr=()) == "- | - | 1 2"
    assert some.partition.last_known_elr == (1,)
    some.unfence(2)
    assert some.change() == "2 | 2 | 1"
    assert some.partition.last_known_elr == ()


def test_who_was_never_eligible_does_not_lead_though_alive():
    some = Orders((1, 2, 3), min_isr=2, isr=[1, 2], fenced=(1, 2))
    assert some.change(isr=()) == "- | - | 1 2"


def test_who_may_have_lost_records_is_not_eligible():
    some = Orders((1, 2, 3), min_isr=2, isr=[1], eligible_leader_replicas=[2], fenced=(1, 2))
    assert some.change(isr=(), lost_by=1) == "- | - | 2"


def test_nobody_stays_eligible_from_before_the_minimum_was_lowered():
    """With a minimum of one the watermark goes on with one in sync, and leaves the others behind."""
    some = Orders((1, 2, 3), min_isr=1, isr=[1], eligible_leader_replicas=[2], fenced=(1,))
    assert some.change(isr=()) == "- | - | 1"


def test_when_all_copies_may_have_lost_records_the_last_leader_recovers():
    some = Orders((1, 2, 3), isr=[1], fenced=(1,))
    assert some.change(isr=(), lost_by=1) == "- | - | -"
    some.unfence(1)
    assert some.change() == "1 | 1 | -"
    assert some.partition.leader_recovery_state == RecoveryState.RECOVERING


def test_of_several_copies_that_may_have_lost_records_the_longest_leads_once_all_are_there():
    some = Orders((1, 2, 3), min_isr=2, isr=[1], eligible_leader_replicas=[2], fenced=(1, 2))
    some.change(isr=(), lost_by=1)
    assert some.change(lost_by=2) == "- | - | -"
    assert some.partition.last_known_elr == (1, 2)
    some.unfence(1)
    assert some.change() == "- | - | -"
    some.unfence(2)
    ends = {1: LogEnd(4, 90), 2: LogEnd(5, 80)}
    assert some.change(log_ends={(UUID(int=101), 0): ends}) == "2 | 2 | -"
    assert some.partition.leader_recovery_state == RecoveryState.RECOVERING
    assert some.partition.last_known_elr == (1,)


@pytest.mark.parametrize("ends", [{}, {2: LogEnd(5, 80)}])
def test_of_copies_that_are_not_all_compared_none_is_taken(ends):
    some = Orders((1, 2, 3), min_isr=2, isr=[2], leader=2, eligible_leader_replicas=[1], fenced=(1, 2))
    some.change(isr=())
    some.change(lost_by=1)
    some.change(lost_by=2)
    some.unfence(1, 2)
    assert some.change(log_ends={(UUID(int=101), 0): ends}) == "- | - | -"


def test_nobody_is_suspected_any_more_once_enough_are_in_sync():
    some = Orders((1, 2, 3), min_isr=2, isr=[1], eligible_leader_replicas=[2])
    assert some.change(lost_by=2) == "1 | 1 | -"
    assert some.partition.last_known_elr == (2,)
    some.change(isr=(1, 3))
    assert some.partition.last_known_elr == ()


# ---- unclean elections ----


@pytest.mark.parametrize(("unclean", "expected"), [(False, "- | - | 1"), (True, "2 | 2 | -")])
def test_an_election_is_unclean_only_by_configuration(unclean, expected):
    some = Orders((1, 2, 3), unclean=unclean, isr=[1], fenced=(1,))
    assert some.change(isr=()) == expected
    assert some.partition.leader_recovery_state == int(unclean)


def test_an_unclean_election_still_prefers_who_has_every_record():
    some = Orders((1, 2, 3), unclean=True, min_isr=2, isr=[1], eligible_leader_replicas=[3], fenced=(1,))
    assert some.change(isr=()) == "3 | 3 | 1"
    assert some.partition.leader_recovery_state == RecoveryState.RECOVERED


def test_the_clusters_default_counts_where_the_topic_says_nothing():
    image = image_of(
        *orders((1, 2), isr=[1])[:1], orders((1, 2), isr=[1])[-1], broker_record(1, fenced=True), brokers=2
    )
    ref = PartitionRef(image.topics["orders"], 0, partition_of(image))
    electorate = Electorate(image, {"unclean.leader.election.enable": "true"})
    assert changed_partition(ref, ref.partition._replace(isr=()), electorate).leader == 2


# ---- reassignments ----

MOVING = {"adding_replicas": [4, 5], "removing_replicas": [1, 2], "isr": [1, 2, 3], "leader": 1}


def test_a_reassignment_is_not_done_before_every_added_replica_is_in_sync():
    some = Orders((4, 5, 3, 1, 2), **MOVING)
    some.change(isr=(1, 2, 3, 4))
    assert some.partition.is_moving
    assert some.change(isr=(1, 2, 3, 4, 5)) == "4 | 3 4 5 | -"
    assert (some.partition.replicas, some.partition.is_moving) == ((4, 5, 3), False)


def test_dropping_a_replica_fences_it_by_a_new_leader_epoch_also_under_the_same_leader():
    some = Orders((3, 4, 1), adding_replicas=[4], removing_replicas=[1], isr=[1, 3], leader=3)
    assert some.change(isr=(1, 3, 4)) == "3 | 3 4 | -"
    assert some.partition.leader_epoch == 1


def test_removing_waits_until_enough_of_the_others_are_in_sync():
    some = Orders((1, 2, 3), removing_replicas=[3], isr=[1, 3], min_isr=2)
    some.change()
    assert some.partition.is_moving
    assert some.change(isr=(1, 2, 3)) == "1 | 1 2 | -"


def test_a_dropped_replica_is_not_eligible_any_more():
    some = Orders((1, 2, 3), min_isr=2, removing_replicas=[3], isr=[1], eligible_leader_replicas=[3])
    assert some.change(isr=(1, 2)) == "1 | 1 2 | -"
    assert some.partition.replicas == (1, 2)


def test_new_replicas_get_a_directory_and_old_ones_keep_theirs():
    some = Orders((1, 2))
    replay(some.image, broker_record(3, log_dirs=[UUID(int=9)]))
    some.change(replicas=(3, 1, 2), adding_replicas=(3,))
    assert some.partition.directories == (UUID(int=9), DIRECTORY_ID, DIRECTORY_ID)
