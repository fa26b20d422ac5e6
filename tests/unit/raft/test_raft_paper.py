"""The rules of the Raft paper (extended version) that apply, each by its sentence. Terms are epochs, AppendEntries is
the answer to a Fetch, a heartbeat is a BeginEpoch or a Fetch in time."""

import pytest

from ottla.base.errors import ApiError, ErrorCode, InvariantViolation
from ottla.raft.effects import Answer, AppendBatches, PersistQuorumState, Send, TruncateLog
from ottla.raft.events import AppendAsked, ReplyReceived
from ottla.raft.messages import (
    BeginEpoch,
    BeginEpochReply,
    EpochEnd,
    Fetch,
    FetchReply,
    Vote,
    VoteReply,
)
from ottla.raft.state import RoleName
from sim.raft_cluster import replica_key
from tests.unit.raft.machines import Machine, batch, vote

# ---- §5.1 basics ----


def test_if_a_server_receives_a_request_with_a_stale_term_number_it_rejects_the_request() -> None:
    machine = Machine(epoch=5, leader_id=2)
    assert machine.receive(vote(epoch=4), VoteReply).error is ErrorCode.FENCED_LEADER_EPOCH
    begin = BeginEpoch(epoch=4, leader_id=3, voter=replica_key(1))
    reply = machine.receive(begin, BeginEpochReply)
    assert (reply.error, reply.epoch, reply.leader_id) == (ErrorCode.FENCED_LEADER_EPOCH, 5, 2)
    fetch = Fetch(epoch=4, replica=replica_key(3), fetch_offset=0, last_fetched_epoch=0)
    assert machine.receive(fetch, FetchReply).error is ErrorCode.FENCED_LEADER_EPOCH


def test_if_ones_term_is_smaller_than_the_others_it_updates_its_term_to_the_larger_value() -> None:
    machine = Machine(epoch=5)
    machine.receive(vote(epoch=9, is_pre_vote=True), VoteReply)
    assert machine.epoch == 9
    assert machine.persisted is not None and machine.persisted.epoch == 9


@pytest.mark.parametrize("leads", [False, True])
def test_a_candidate_or_leader_that_discovers_that_its_term_is_out_of_date_reverts(leads: bool) -> None:
    machine = Machine()
    if leads:
        machine.win()
    else:
        machine.time_out()
        machine.answer(2, VoteReply(epoch=0, is_granted=True))
        assert machine.role is RoleName.CANDIDATE
    machine.answer(3, VoteReply(error=ErrorCode.FENCED_LEADER_EPOCH, epoch=7, is_granted=False))
    assert (machine.role, machine.epoch) == (RoleName.UNATTACHED, 7)


# ---- §5.2 leader election ----


def test_a_server_remains_a_follower_as_long_as_it_receives_valid_rpcs_from_a_leader() -> None:
    machine = Machine().follow()
    for _ in range(10):
        machine.tick(machine.settings.fetch_timeout_ms - 1)
        if machine.asked(Fetch):  # The one before ran into its own time-out.
            machine.hear()
        assert machine.role is RoleName.FOLLOWER


def test_a_follower_that_receives_no_communication_over_a_period_begins_an_election() -> None:
    machine = Machine().follow()
    machine.tick(machine.settings.fetch_timeout_ms)
    assert machine.role is RoleName.PROSPECTIVE


def test_to_begin_an_election_it_increments_its_term_votes_for_itself_and_asks_the_others() -> None:
    machine = Machine(epoch=3, log=[1, 3, 3])
    machine.time_out()
    machine.answer(3, VoteReply(epoch=3, is_granted=True))
    assert (machine.role, machine.epoch) == (RoleName.CANDIDATE, 4)
    assert machine.persisted is not None and machine.persisted.voted == replica_key(1)
    asked = machine.asked(Vote)
    assert sorted(asked) == [2, 3]
    assert asked[2] == Vote(
        epoch=4, candidate=replica_key(1), voter=replica_key(2), log_end=EpochEnd(3, 3), is_pre_vote=False
    )


def test_a_candidate_wins_if_it_receives_votes_from_a_majority_of_the_full_cluster() -> None:
    machine = Machine(voters=(1, 2, 3, 4, 5))
    machine.time_out()
    for voter in (2, 3):
        machine.answer(voter, VoteReply(epoch=0, is_granted=True))
    machine.answer(2, VoteReply(epoch=1, is_granted=True))
    assert machine.role is RoleName.CANDIDATE
    machine.answer(4, VoteReply(epoch=1, is_granted=False))
    assert machine.role is RoleName.CANDIDATE
    machine.answer(5, VoteReply(epoch=1, is_granted=True))
    assert machine.role is RoleName.LEADER


def test_votes_of_another_term_do_not_count() -> None:
    machine = Machine(epoch=3)
    machine.time_out()
    (late,) = [sent for sent in machine.done(Send) if sent.to_id == 3]
    machine.answer(2, VoteReply(epoch=3, is_granted=True))
    assert (machine.role, machine.epoch) == (RoleName.CANDIDATE, 4)
    reply = VoteReply(epoch=3, is_granted=True)
    machine.step(ReplyReceived(peer_id=3, request_id=late.request_id, reply=reply))
    assert machine.role is RoleName.CANDIDATE


def test_each_server_votes_for_at_most_one_candidate_in_a_term_first_come_first_served() -> None:
    machine = Machine(epoch=1)
    assert machine.receive(vote(2, epoch=2), VoteReply).is_granted
    assert not machine.receive(vote(3, epoch=2), VoteReply).is_granted
    assert machine.receive(vote(2, epoch=2), VoteReply).is_granted, "the same answer to the same question"
    assert machine.receive(vote(3, epoch=3), VoteReply).is_granted, "another term, another vote"


def test_a_vote_is_not_forgotten_over_a_restart() -> None:
    machine = Machine(epoch=2, voted=2)
    assert not machine.receive(vote(3, epoch=2), VoteReply).is_granted
    assert machine.receive(vote(2, epoch=2), VoteReply).is_granted


def test_persistent_state_is_updated_on_stable_storage_before_responding_to_rpcs() -> None:
    machine = Machine()
    machine.receive(vote(2, epoch=1), VoteReply)
    kinds = [type(effect) for effect in machine.effects]
    last_persist = len(kinds) - 1 - kinds[::-1].index(PersistQuorumState)
    assert last_persist < kinds.index(Answer)
    candidate = Machine()
    candidate.time_out()
    candidate.answer(2, VoteReply(epoch=0, is_granted=True))
    kinds = [type(effect) for effect in candidate.effects]
    assert kinds.index(PersistQuorumState) < kinds.index(Send)


def test_a_step_persists_once_before_each_message() -> None:
    """Hearing of an epoch and voting in it is one write, and so is a sole voter's way to leadership."""
    machine = Machine()
    machine.receive(vote(2, epoch=1), VoteReply)
    assert len(machine.done(PersistQuorumState)) == 1
    assert len([effect for effect in Machine(voters=(1,)).all_effects if isinstance(effect, PersistQuorumState)]) == 1


def test_once_a_candidate_wins_it_sends_heartbeats_to_all_of_the_other_servers() -> None:
    machine = Machine().win()
    assert machine.asked(BeginEpoch) == {
        node_id: BeginEpoch(epoch=1, leader_id=1, voter=replica_key(node_id)) for node_id in (2, 3)
    }


def test_a_candidate_that_hears_a_leader_of_its_term_returns_to_follower_state() -> None:
    machine = Machine()
    machine.time_out()
    machine.answer(2, VoteReply(epoch=0, is_granted=True))
    begin = BeginEpoch(epoch=1, leader_id=3, voter=replica_key(1))
    assert machine.receive(begin, BeginEpochReply).error is ErrorCode.NONE
    assert machine.role is RoleName.FOLLOWER


def test_a_candidate_that_hears_a_leader_of_an_older_term_continues_in_candidate_state() -> None:
    machine = Machine(epoch=4)
    machine.time_out()
    machine.answer(2, VoteReply(epoch=4, is_granted=True))
    begin = BeginEpoch(epoch=4, leader_id=3, voter=replica_key(1))
    assert machine.receive(begin, BeginEpochReply).error is ErrorCode.FENCED_LEADER_EPOCH
    assert machine.role is RoleName.CANDIDATE


def test_if_votes_are_split_each_candidate_times_out_and_starts_a_new_election() -> None:
    machine = Machine()
    machine.time_out()
    machine.answer(2, VoteReply(epoch=0, is_granted=True))
    machine.answer(2, VoteReply(epoch=1, is_granted=False))
    machine.answer(3, VoteReply(epoch=1, is_granted=False))
    assert machine.role is RoleName.CANDIDATE
    machine.time_out()
    assert (machine.role, machine.epoch) == (RoleName.PROSPECTIVE, 1)
    machine.answer(2, VoteReply(epoch=1, is_granted=True))
    assert (machine.role, machine.epoch) == (RoleName.CANDIDATE, 2)


def test_election_timeouts_are_chosen_randomly_from_a_fixed_interval() -> None:
    deadlines = []
    for chance in (0.0, 0.25, 0.999):
        machine = Machine()
        machine.chance = chance
        machine.receive(vote(2, epoch=1), VoteReply)
        deadlines.append(machine.machine.node.role.election_deadline_ms)  # type: ignore[union-attr]
    assert deadlines == [1000, 1250, 1999]


# ---- §5.3 log replication ----


def test_the_leader_appends_the_command_to_its_log_as_a_new_entry() -> None:
    machine = Machine().lead_and_commit()
    end_offset = machine.log.log_end_offset
    machine.append("command")
    (appended,) = machine.done(AppendBatches)
    assert appended.batches == (batch(end_offset, 1, "command"),)


def test_only_the_leader_of_the_term_appends() -> None:
    machine = Machine().win()
    with pytest.raises(ApiError):
        machine.step(AppendAsked(epoch=machine.epoch - 1, record_count=1, data=b"x"))
    follower = Machine().follow()
    with pytest.raises(ApiError):
        follower.append()


def test_an_entry_is_committed_once_it_is_replicated_on_a_majority_of_the_servers() -> None:
    machine = Machine(voters=(1, 2, 3, 4, 5)).lead_and_commit()
    offset = machine.log.log_end_offset
    machine.append()
    machine.sync()
    machine.fetch_from(2)
    assert machine.high_watermark == offset
    machine.fetch_from(4)
    assert machine.committed == offset + 1


def test_the_leader_tells_the_highest_index_it_knows_to_be_committed() -> None:
    machine = Machine().lead_and_commit()
    reply = machine.receive(machine.fetch(3, 0), FetchReply)
    assert reply.high_watermark == machine.high_watermark > 0


def test_once_a_follower_learns_that_an_entry_is_committed_it_applies_it() -> None:
    machine = Machine().follow()
    machine.hear(batch(0, 1), batch(1, 1), high_watermark=1)
    assert machine.committed == 1
    machine.sync()
    machine.hear(high_watermark=9)
    assert machine.committed == 2, "not more than it has"


def test_if_the_follower_does_not_find_the_preceding_entry_it_refuses_the_new_ones() -> None:
    """Here the leader finds out, by the epoch and offset of the fetch; its answer says where they differ."""
    machine = Machine(epoch=4, log=[1, 1, 3, 3]).win()
    reply = machine.receive(machine.fetch(2, 4, last_epoch=2), FetchReply)
    assert reply.diverging == EpochEnd(1, 2)
    reply = machine.receive(machine.fetch(2, 4, last_epoch=1), FetchReply)
    assert reply.diverging == EpochEnd(1, 2)
    reply = machine.receive(machine.fetch(2, 2, last_epoch=1), FetchReply)
    assert reply.diverging is None


def test_a_follower_takes_no_entries_that_do_not_follow_its_log() -> None:
    for wrong in (batch(3, 5), batch(1, 5), batch(2, 6), batch(2, 3)):
        machine = Machine(epoch=4, log=[4, 4]).follow()
        machine.hear(wrong)
        assert machine.log.log_end_offset == 2
        assert not machine.done(AppendBatches)


def test_conflicting_entries_in_follower_logs_are_overwritten_from_the_point_where_the_logs_agree() -> None:
    machine = Machine(epoch=4, log=[1, 1, 2, 2, 4]).follow()
    machine.answer(2, FetchReply(epoch=5, leader_id=2, diverging=EpochEnd(3, 4)))
    assert machine.done(TruncateLog) == [TruncateLog(to_offset=4)]
    fetch = machine.asked(Fetch)[2]
    assert isinstance(fetch, Fetch) and (fetch.fetch_offset, fetch.last_fetched_epoch) == (4, 2)
    machine.answer(2, FetchReply(epoch=5, leader_id=2, diverging=EpochEnd(1, 2)))
    machine.hear(batch(2, 3), batch(3, 3))
    assert machine.log.last_epoch == 3


def test_a_leader_never_overwrites_or_deletes_entries_in_its_own_log() -> None:
    machine = Machine(epoch=4, log=[1, 1, 4]).lead_and_commit()
    machine.append()
    for offset in range(machine.log.log_end_offset):
        machine.fetch_from(3, offset, last_epoch=2)
    machine.answer(2, FetchReply(epoch=machine.epoch, leader_id=1, diverging=EpochEnd(1, 1)))
    assert not [effect for effect in machine.all_effects if isinstance(effect, TruncateLog)]


def test_what_is_committed_is_never_truncated() -> None:
    machine = Machine(epoch=1, log=[1, 1, 1]).follow()
    machine.hear(high_watermark=3)
    with pytest.raises(InvariantViolation, match="never truncated"):
        machine.answer(2, FetchReply(epoch=2, leader_id=2, diverging=EpochEnd(1, 2)))


def test_rpcs_are_idempotent() -> None:
    """A fetch that was overtaken by a later one, or comes twice, takes nothing back."""
    machine = Machine().lead_and_commit()
    for _ in range(3):
        machine.append()
    machine.sync()
    machine.fetch_from(2)
    committed = machine.high_watermark
    machine.fetch_from(2, 1)
    machine.fetch_from(2, 1)
    machine.append()
    machine.sync()
    machine.fetch_from(2)
    assert machine.high_watermark == committed + 1


# ---- §5.4 safety ----


@pytest.mark.parametrize(
    ("log_end", "granted"),
    [((3, 4), True), ((3, 5), True), ((4, 1), True), ((3, 3), False), ((2, 99), False), ((0, 0), False)],
)
def test_the_voter_denies_its_vote_if_its_own_log_is_more_up_to_date(log_end: tuple[int, int], granted: bool) -> None:
    for is_pre_vote in (False, True):
        machine = Machine(epoch=3, log=[1, 1, 3, 3])
        request = vote(epoch=4, log_end=log_end, is_pre_vote=is_pre_vote)
        assert machine.receive(request, VoteReply).is_granted is granted


def test_entries_of_previous_terms_are_never_committed_by_counting_replicas() -> None:
    """Figure 8: a majority has entry 1 of epoch 2; it may still be replaced, until epoch 4 has one there."""
    machine = Machine(epoch=3, log=[1, 2]).win()
    machine.sync()
    machine.fetch_from(2, 2)
    machine.fetch_from(3, 2)
    assert machine.high_watermark == 0
    machine.fetch_from(2, 3)
    assert machine.high_watermark == 3, "with the entry of its own epoch all before it is committed"


def test_a_new_leader_commits_without_a_client_by_an_entry_of_its_own() -> None:
    """§8: it needs to know which entries are committed, and finds out by a no-op at the start of its term."""
    machine = Machine(epoch=3, log=[1, 2]).win()
    appended = [effect.batches[0] for effect in machine.done(AppendBatches)]
    assert (appended[0].base_offset, appended[0].epoch) == (2, 4)
