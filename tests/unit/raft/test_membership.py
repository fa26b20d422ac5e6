"""Voters that change at run time (KIP-853; Raft §6 and §4 of the dissertation)."""

from ottla.base.errors import ErrorCode
from ottla.raft.effects import Answer, AppendBatches
from ottla.raft.events import RequestReceived
from ottla.raft.messages import (
    AddVoter,
    EndEpoch,
    EpochEnd,
    FetchReply,
    RemoveVoter,
    UpdateVoter,
    Vote,
    VoterChangeReply,
    VoteReply,
)
from ottla.raft.state import RoleName
from ottla.raft.voters import Endpoint, ReplicaKey, Voter
from sim.raft_cluster import replica_key, voter_set
from tests.unit.raft.machines import Machine, batch


def add(machine: Machine, node_id: int, **options: bool) -> None:
    request = AddVoter(voter=Voter(key=replica_key(node_id)), timeout_ms=700, **options)
    machine.step(RequestReceived(ticket=f"add {node_id}", request=request))


def remove(machine: Machine, node_id: int) -> None:
    machine.step(RequestReceived(ticket=f"remove {node_id}", request=RemoveVoter(key=replica_key(node_id))))


def answers(machine: Machine) -> dict[object, ErrorCode]:
    """To changes of voters, in the last step."""
    return {
        answer.ticket: answer.reply.error
        for answer in machine.done(Answer)
        if isinstance(answer.reply, VoterChangeReply)
    }


def test_a_new_server_joins_as_a_non_voting_member_and_is_caught_up_first() -> None:
    machine = Machine().lead_and_commit()
    add(machine, 4)
    assert machine.voter_ids == (1, 2, 3), "it has not fetched yet"
    machine.fetch_from(4, 0)
    assert machine.voter_ids == (1, 2, 3)
    machine.fetch_from(4)
    assert machine.voter_ids == (1, 2, 3, 4)


def test_a_server_that_caught_up_and_fell_silent_is_not_added() -> None:
    """One voter and a dead second one: nothing would ever be committed again."""
    machine = Machine(voters=(1,))
    machine.sync()
    machine.fetch_from(2)
    machine.tick(machine.settings.fetch_timeout_ms + 1)
    add(machine, 2)
    assert machine.voter_ids == (1,)
    machine.fetch_from(2)
    assert machine.voter_ids == (1, 2)


def test_a_server_uses_the_latest_configuration_in_its_log_committed_or_not() -> None:
    machine = Machine().lead_and_commit()
    machine.fetch_from(4)
    add(machine, 4)
    end_offset = machine.log.log_end_offset
    machine.sync()
    machine.fetch_from(2)
    assert machine.high_watermark < end_offset, "two of three would have been enough, two of four are not"
    machine.fetch_from(4)
    assert machine.committed == end_offset
    assert answers(machine) == {"add 4": ErrorCode.NONE}


def test_a_follower_uses_a_configuration_from_its_log_and_drops_it_with_the_record() -> None:
    machine = Machine(epoch=1, log=[1]).follow()
    machine.hear(batch(1, 2, voters=voter_set(1, 2, 3, 4)))
    assert machine.voter_ids == (1, 2, 3, 4)
    machine.sync()
    machine.follow(3, 3)
    machine.answer(3, FetchReply(epoch=3, leader_id=3, diverging=EpochEnd(1, 1)))
    assert machine.voter_ids == (1, 2, 3)


def test_one_change_at_a_time() -> None:
    machine = Machine().lead_and_commit()
    machine.fetch_from(4)
    machine.fetch_from(5)
    add(machine, 4)
    add(machine, 5)
    assert answers(machine) == {"add 5": ErrorCode.REQUEST_TIMED_OUT}
    remove(machine, 3)
    assert answers(machine) == {"remove 3": ErrorCode.REQUEST_TIMED_OUT}
    assert machine.voter_ids == (1, 2, 3, 4)


def test_no_change_before_the_leader_has_committed_in_its_term() -> None:
    machine = Machine().win()
    machine.fetch_from(4)
    add(machine, 4)
    assert answers(machine) == {"add 4": ErrorCode.REQUEST_TIMED_OUT}
    assert machine.voter_ids == (1, 2, 3)


def test_a_leader_that_is_removed_manages_the_cluster_without_counting_itself_until_that_is_committed() -> None:
    machine = Machine().lead_and_commit()
    remove(machine, 1)
    machine.sync()
    machine.fetch_from(2)
    assert machine.role is RoleName.LEADER, "one of two"
    machine.fetch_from(3)
    assert machine.role is RoleName.RESIGNED
    assert answers(machine) == {"remove 1": ErrorCode.NONE}
    assert sorted(machine.asked(EndEpoch)) == [2, 3]
    machine.time_out()
    for _ in range(10):
        machine.tick(2_000)
    assert machine.role is RoleName.UNATTACHED, "an observer now"


def test_a_server_that_is_not_part_of_its_own_latest_configuration_still_starts_elections() -> None:
    """Its removal may be in its log alone, and its log the longest: nobody else could win. Its own vote does not count."""
    machine = Machine(voters=(1, 3), epoch=2, log=[1, 2])
    machine.log.append(batch(2, 2, voters=voter_set(3)))
    machine.log.on_flushed(3, machine.log.truncation_count)
    machine.time_out()
    assert machine.role is RoleName.PROSPECTIVE
    assert list(machine.asked(Vote)) == [3]
    machine.answer(3, VoteReply(epoch=2, is_granted=True))
    machine.answer(3, VoteReply(epoch=3, is_granted=True))
    assert machine.role is RoleName.LEADER
    machine.sync()
    machine.fetch_from(3)
    assert machine.role is RoleName.RESIGNED, "its removal is committed"


def test_a_new_voter_that_does_not_catch_up_in_time_is_given_up() -> None:
    machine = Machine().lead_and_commit()
    add(machine, 4)
    machine.tick(700)
    assert answers(machine) == {"add 4": ErrorCode.REQUEST_TIMED_OUT}
    remove(machine, 3)
    assert machine.voter_ids == (1, 2), "the next change is free to go"


def test_a_change_that_is_in_the_log_goes_on_after_its_time_is_up() -> None:
    machine = Machine().lead_and_commit()
    remove(machine, 3)
    machine.tick(machine.settings.request_timeout_ms)
    assert answers(machine) == {"remove 3": ErrorCode.REQUEST_TIMED_OUT}
    machine.fetch_from(4)
    add(machine, 4)
    assert answers(machine) == {"add 4": ErrorCode.REQUEST_TIMED_OUT}
    machine.sync()
    machine.fetch_from(2)
    assert machine.high_watermark == machine.log.log_end_offset


def test_an_answer_at_the_append_if_the_asker_wants_it() -> None:
    machine = Machine().lead_and_commit()
    machine.fetch_from(4)
    add(machine, 4, ack_when_committed=False)
    assert answers(machine) == {"add 4": ErrorCode.NONE}


def test_what_cannot_be_is_refused_with_a_reason() -> None:
    machine = Machine().lead_and_commit()
    add(machine, 3)
    assert answers(machine) == {"add 3": ErrorCode.DUPLICATE_VOTER}
    remove(machine, 9)
    assert answers(machine) == {"remove 9": ErrorCode.VOTER_NOT_FOUND}
    wrong_directory = RemoveVoter(key=ReplicaKey(3, replica_key(9).directory_id))
    assert machine.receive(wrong_directory, VoterChangeReply).error is ErrorCode.VOTER_NOT_FOUND
    sole = Machine(voters=(1,))
    sole.sync()
    remove(sole, 1)
    assert answers(sole) == {"remove 1": ErrorCode.INVALID_REQUEST}
    follower = Machine().follow()
    add(follower, 4)
    assert answers(follower) == {"add 4": ErrorCode.NOT_LEADER_OR_FOLLOWER}


def test_a_voter_changes_its_endpoints() -> None:
    machine = Machine().lead_and_commit()
    voter = Voter(key=replica_key(2), endpoints=(Endpoint("CONTROLLER", "two", 9093),))
    machine.step(RequestReceived(ticket="update", request=UpdateVoter(epoch=1, voter=voter)))
    assert machine.machine.node.voters.voters[1] == voter
    machine.sync()
    machine.fetch_from(2)
    assert answers(machine) == {"update": ErrorCode.NONE}
    again = machine.receive(UpdateVoter(epoch=1, voter=voter), VoterChangeReply)
    assert again.error is ErrorCode.NONE
    assert not machine.done(AppendBatches), "nothing to change"
    stale = machine.receive(UpdateVoter(epoch=0, voter=voter), VoterChangeReply)
    assert stale.error is ErrorCode.FENCED_LEADER_EPOCH


def test_a_change_that_waits_is_told_when_its_leader_goes() -> None:
    machine = Machine().lead_and_commit()
    add(machine, 4)
    machine.follow(2, 5)
    assert answers(machine) == {"add 4": ErrorCode.NOT_LEADER_OR_FOLLOWER}


def test_a_node_with_another_directory_is_another_voter() -> None:
    machine = Machine(node_id=1)
    voters = voter_set(1, 2, 3)
    assert voters.holds(replica_key(1))
    assert not voters.holds(ReplicaKey(1, replica_key(9).directory_id))
    assert machine.machine.node.is_voter
