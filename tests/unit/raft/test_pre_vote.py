"""Pre-votes (KIP-996), and the hints that let a dead leader be replaced in milliseconds."""

import pytest

from ottla.base.errors import ErrorCode
from ottla.raft.effects import PersistQuorumState
from ottla.raft.events import ConnectionLost
from ottla.raft.messages import EndEpoch, EndEpochReply, FetchReply, Vote, VoteReply
from ottla.raft.state import RoleName
from ottla.raft.voters import ReplicaKey
from sim.raft_cluster import replica_key
from tests.unit.raft.machines import Machine, vote


def test_a_pre_vote_changes_nothing_on_either_side() -> None:
    asker = Machine(epoch=3)
    asker.time_out()
    assert (asker.role, asker.epoch) == (RoleName.PROSPECTIVE, 3)
    assert not [effect for effect in asker.all_effects if isinstance(effect, PersistQuorumState)]
    asked = Machine(epoch=3)
    assert asked.receive(vote(2, epoch=3, is_pre_vote=True), VoteReply).is_granted
    assert asked.persisted is None
    assert asked.receive(vote(3, epoch=3, is_pre_vote=True), VoteReply).is_granted, "it promises nothing"
    assert asked.receive(vote(3, epoch=3), VoteReply).is_granted


def test_a_leader_and_who_hears_it_refuse_pre_votes() -> None:
    leader = Machine().win()
    request = vote(3, epoch=1, log_end=(9, 9), is_pre_vote=True)
    assert not leader.receive(request, VoteReply).is_granted
    follower = Machine().follow()
    assert follower.receive(request, VoteReply).is_granted, "it has not heard its leader yet"
    follower.hear()
    assert not follower.receive(request, VoteReply).is_granted


def test_a_refused_or_reset_connection_to_the_leader_counts_as_an_expired_fetch_timeout_for_starting() -> None:
    machine = Machine().follow()
    machine.hear()
    machine.step(ConnectionLost(peer_id=3))
    machine.tick(machine.settings.suspicion_jitter_ms)
    assert machine.role is RoleName.FOLLOWER, "that was not the leader"
    machine.step(ConnectionLost(peer_id=2))
    machine.tick(machine.settings.suspicion_jitter_ms)
    assert machine.role is RoleName.PROSPECTIVE


def test_a_refused_or_reset_connection_to_the_leader_counts_for_granting_a_pre_vote() -> None:
    machine = Machine().follow()
    machine.hear()
    machine.step(ConnectionLost(peer_id=2))
    assert machine.role is RoleName.FOLLOWER
    assert machine.receive(vote(3, epoch=1, is_pre_vote=True), VoteReply).is_granted


def test_who_grants_a_pre_vote_lets_the_other_go_first_but_only_once() -> None:
    machine = Machine().follow()
    machine.hear()
    machine.step(ConnectionLost(peer_id=2))
    request = vote(3, epoch=1, is_pre_vote=True)
    assert machine.receive(request, VoteReply).is_granted
    machine.tick(machine.settings.suspicion_jitter_ms)
    assert machine.role is RoleName.FOLLOWER, "it lets the other go first"
    assert machine.receive(request, VoteReply).is_granted
    machine.tick(2 * machine.settings.yield_ms)
    assert machine.role is RoleName.PROSPECTIVE, "the other had its time"


def test_of_two_who_ask_each_other_the_lower_id_goes_on_and_the_other_yields() -> None:
    first, second = Machine(node_id=1), Machine(node_id=2)
    for machine in (first, second):
        machine.time_out()
        assert machine.role is RoleName.PROSPECTIVE
    assert not first.receive(vote(2, epoch=0, is_pre_vote=True), VoteReply).is_granted
    assert second.receive(vote(1, epoch=0, voter=replica_key(2), is_pre_vote=True), VoteReply).is_granted
    assert (first.role, second.role) == (RoleName.PROSPECTIVE, RoleName.UNATTACHED)


def test_of_two_who_ask_each_other_the_better_log_goes_on() -> None:
    first = Machine(node_id=1, epoch=1, log=[1])
    first.time_out()
    assert first.receive(vote(2, epoch=1, log_end=(1, 2), is_pre_vote=True), VoteReply).is_granted
    assert first.role is not RoleName.PROSPECTIVE


def test_a_leader_that_answers_again_is_trusted_again() -> None:
    machine = Machine().follow()
    machine.hear()
    machine.step(ConnectionLost(peer_id=2))
    machine.chance = 0.9
    machine.tick(machine.settings.retry_backoff_ms)
    if machine.role is RoleName.FOLLOWER:
        machine.hear()
        assert not machine.receive(vote(3, epoch=1, is_pre_vote=True), VoteReply).is_granted


def test_who_loses_the_pre_vote_goes_back_to_the_leader_it_had() -> None:
    machine = Machine().follow()
    machine.tick(machine.settings.fetch_timeout_ms)
    for voter in (2, 3):
        machine.answer(voter, VoteReply(epoch=1, leader_id=2, is_granted=False))
    assert (machine.role, machine.epoch) == (RoleName.FOLLOWER, 1)


def test_who_loses_the_pre_vote_without_a_leader_waits_for_one() -> None:
    machine = Machine()
    machine.time_out()
    for voter in (2, 3):
        machine.answer(voter, VoteReply(epoch=0, is_granted=False))
    assert machine.role is RoleName.UNATTACHED


def test_votes_are_asked_for_again_when_no_answer_comes() -> None:
    machine = Machine()
    machine.time_out()
    machine.tick(machine.settings.request_timeout_ms)
    assert sorted(machine.asked(Vote)) == [2, 3]


def test_a_follower_that_knows_the_leader_of_the_epoch_votes_for_nobody_else_in_it() -> None:
    machine = Machine().follow(2)
    machine.tick(machine.settings.fetch_timeout_ms)
    assert machine.role is RoleName.PROSPECTIVE
    assert not machine.receive(vote(3, epoch=1, log_end=(9, 9)), VoteReply).is_granted


def test_a_prospective_that_knows_no_leader_gives_its_vote_away() -> None:
    machine = Machine(epoch=1)
    machine.time_out()
    assert machine.receive(vote(3, epoch=1), VoteReply).is_granted
    assert machine.role is RoleName.UNATTACHED


def test_a_vote_meant_for_another_directory_is_not_given() -> None:
    machine = Machine()
    wiped = ReplicaKey(1, replica_key(99).directory_id)
    reply = machine.receive(vote(epoch=1, voter=wiped), VoteReply)
    assert (reply.error, reply.is_granted, machine.epoch) == (ErrorCode.INVALID_VOTER_KEY, False, 0)


def test_who_is_no_voter_by_its_own_log_votes_when_it_is_asked_by_its_key() -> None:
    """The candidate's log may hold a newer set (Raft §6); who is not in that set is not asked."""
    machine = Machine(node_id=4)
    assert machine.receive(vote(2, epoch=1, voter=replica_key(4)), VoteReply).is_granted


# ---- resigning ----


def test_the_first_of_the_preferred_successors_starts_at_once_and_the_others_behind_it() -> None:
    for position, expected in ((0, RoleName.PROSPECTIVE), (1, RoleName.FOLLOWER)):
        machine = Machine().follow(2)
        machine.hear()
        candidates = [replica_key(3)]
        candidates.insert(position, replica_key(1))
        request = EndEpoch(epoch=1, leader_id=2, preferred_candidates=tuple(candidates))
        assert machine.receive(request, EndEpochReply).error is ErrorCode.NONE
        assert machine.role is expected
    machine.tick(2 * machine.settings.suspicion_jitter_ms)
    assert machine.role is RoleName.PROSPECTIVE


def test_an_end_of_an_older_epoch_is_refused() -> None:
    machine = Machine(epoch=5).follow(2)
    request = EndEpoch(epoch=5, leader_id=3, preferred_candidates=())
    assert machine.receive(request, EndEpochReply).error is ErrorCode.FENCED_LEADER_EPOCH
    assert machine.role is RoleName.FOLLOWER


def test_a_leader_that_answers_that_it_leads_no_more_is_given_up() -> None:
    machine = Machine().follow(2)
    machine.hear()
    machine.answer(2, FetchReply(error=ErrorCode.NOT_LEADER_OR_FOLLOWER, epoch=1, leader_id=2))
    machine.tick(machine.settings.suspicion_jitter_ms)
    assert machine.role is RoleName.PROSPECTIVE


@pytest.mark.parametrize("chance", [0.0, 0.5, 0.99])
def test_the_delay_before_a_suspicious_follower_starts_is_small_and_random(chance: float) -> None:
    machine = Machine().follow(2)
    machine.hear()
    machine.chance = chance
    machine.step(ConnectionLost(peer_id=2))
    deadline_ms = machine.machine.next_deadline_ms()
    if chance == 0.0:
        assert machine.role is RoleName.PROSPECTIVE
    else:
        assert deadline_ms is not None
        assert deadline_ms - machine.now_ms <= machine.settings.suspicion_jitter_ms


def test_a_voter_that_refuses_connections_is_not_waited_for() -> None:
    """The leader was killed, and the other follower has not noticed yet: try again soon, not after a time-out."""
    machine = Machine().follow(2)
    machine.hear()
    machine.step(ConnectionLost(peer_id=2))
    machine.tick(machine.settings.suspicion_jitter_ms)
    assert machine.role is RoleName.PROSPECTIVE
    machine.answer(3, VoteReply(epoch=1, leader_id=2, is_granted=False))
    assert machine.role is RoleName.PROSPECTIVE
    machine.step(ConnectionLost(peer_id=2))
    assert machine.role is RoleName.FOLLOWER
    machine.step(ConnectionLost(peer_id=2))
    machine.tick(machine.settings.suspicion_jitter_ms)
    assert machine.role is RoleName.PROSPECTIVE
