"""How a leader keeps, hands over and loses its epoch; fetches that wait; what DescribeQuorum tells."""

from ottla.base.errors import ErrorCode
from ottla.raft.effects import Answer, AnswerFetch, AppendBatches, Send
from ottla.raft.events import ResignAsked
from ottla.raft.messages import BeginEpoch, BeginEpochReply, EndEpoch, EndEpochReply, Fetch, FetchReply, VoteReply
from ottla.raft.serving import OBSERVER_SILENCE_MS_MAX
from ottla.raft.state import RoleName
from sim.raft_cluster import replica_key
from tests.unit.raft.machines import Machine, vote


def test_a_sole_voter_leads_at_once_and_its_disk_commits() -> None:
    machine = Machine(voters=(1,))
    assert (machine.role, machine.epoch) == (RoleName.LEADER, 1)
    assert not [effect for effect in machine.all_effects if isinstance(effect, Send)]
    machine.append()
    assert machine.high_watermark == 0
    machine.sync()
    assert machine.high_watermark == machine.log.log_end_offset


def test_a_sole_voter_has_nobody_to_resign_for() -> None:
    machine = Machine(voters=(1,))
    machine.step(ResignAsked())
    assert machine.role is RoleName.LEADER


def test_who_led_starts_again_in_the_next_epoch_and_never_leads_in_that_one_again() -> None:
    machine = Machine(epoch=7, leader_id=1, voted=1, log=[7])
    assert (machine.role, machine.epoch) == (RoleName.UNATTACHED, 8)
    assert not machine.receive(vote(2, epoch=7, log_end=(9, 9)), VoteReply).is_granted
    assert any(isinstance(effect, Send) for effect in machine.all_effects), "it looks for who leads by now"


def test_a_leader_resigns_when_no_majority_fetches_from_it() -> None:
    machine = Machine(voters=(1, 2, 3, 4, 5)).lead_and_commit()
    machine.tick(machine.settings.check_quorum_timeout_ms - 1)
    machine.fetch_from(4)
    machine.tick(1)
    assert machine.role is RoleName.RESIGNED, "two of five are not enough"


def test_a_majority_that_fetches_keeps_its_leader() -> None:
    machine = Machine().lead_and_commit()
    for _ in range(5):
        machine.tick(machine.settings.check_quorum_timeout_ms - 1)
        machine.fetch_from(3)
        assert machine.role is RoleName.LEADER


def test_observers_do_not_keep_a_leader() -> None:
    machine = Machine().lead_and_commit()
    machine.tick(machine.settings.check_quorum_timeout_ms - 1)
    machine.fetch_from(4)
    machine.tick(1)
    assert machine.role is RoleName.RESIGNED


def test_an_observer_that_fell_silent_is_described_no_more() -> None:
    machine = Machine(voters=(1,))
    machine.sync()
    machine.fetch_from(4)
    machine.tick(OBSERVER_SILENCE_MS_MAX)
    assert [one.key.node_id for one in machine.machine.status().observers] == [4]
    machine.tick(1)
    assert machine.machine.status().observers == ()


def test_voters_that_do_not_fetch_are_told_again_and_those_that_do_are_not() -> None:
    machine = Machine().win()
    for node_id in (2, 3):
        machine.answer(node_id, BeginEpochReply(epoch=1, leader_id=1))
    machine.tick(machine.settings.fetch_timeout_ms // 2 - 1)
    assert not machine.asked(BeginEpoch)
    machine.fetch_from(2)
    machine.tick(1)
    assert list(machine.asked(BeginEpoch)) == [3]


def test_a_resigning_leader_names_its_successors_in_the_order_of_their_logs() -> None:
    machine = Machine().lead_and_commit()
    machine.append()
    machine.fetch_from(3)
    machine.step(ResignAsked())
    expected = EndEpoch(epoch=1, leader_id=1, preferred_candidates=(replica_key(3), replica_key(2)))
    assert machine.asked(EndEpoch) == {2: expected, 3: expected}
    machine.answer(2, EndEpochReply(epoch=1, leader_id=1))
    machine.tick(machine.settings.request_timeout_ms)
    assert list(machine.asked(EndEpoch)) == [3], "until everyone knows"


def test_fetches_wait_for_records_and_are_answered_with_them() -> None:
    machine = Machine().lead_and_commit()
    for node_id in (2, 3):
        machine.fetch_from(node_id)
    machine.append()
    answers = machine.done(AnswerFetch)
    assert {answer.ticket for answer in answers} == {"fetch of 2", "fetch of 3"}
    assert answers[0].end_offset == answers[0].from_offset + 1


def test_a_fetch_is_answered_when_the_watermark_it_knows_has_moved() -> None:
    """KIP-1166: a follower learns of a commit at once, not with the next record."""
    machine = Machine().win()
    machine.fetch_from(2)
    assert not machine.done(AnswerFetch)
    machine.sync()
    (answer,) = machine.done(AnswerFetch)
    assert answer.reply.high_watermark == machine.log.log_end_offset


def test_a_fetch_is_answered_when_its_time_is_up() -> None:
    machine = Machine().lead_and_commit()
    machine.fetch_from(3)
    machine.tick(machine.settings.fetch_wait_ms_max)
    assert "fetch of 3" in {answer.ticket for answer in machine.done(AnswerFetch)}


def test_a_replica_that_asks_again_gives_its_first_question_up() -> None:
    machine = Machine().lead_and_commit()
    machine.fetch_from(3)
    machine.fetch_from(3)
    assert [answer.ticket for answer in machine.done(AnswerFetch)] == ["fetch of 3"]


def test_who_waits_for_a_leader_that_loses_its_epoch_is_sent_to_the_next() -> None:
    machine = Machine().lead_and_commit()
    machine.fetch_from(3)
    machine.follow(2, 5)
    (answer,) = [answer for answer in machine.done(Answer) if answer.ticket == "fetch of 3"]
    assert (answer.reply.error, answer.reply.epoch, answer.reply.leader_id) == (
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        5,
        2,
    )


def test_a_fetch_of_another_epoch_learns_which_one_it_is() -> None:
    machine = Machine().lead_and_commit()
    old = Fetch(epoch=0, replica=replica_key(3), fetch_offset=0, last_fetched_epoch=0)
    new = Fetch(epoch=9, replica=replica_key(3), fetch_offset=0, last_fetched_epoch=0)
    reply = machine.receive(old, FetchReply)
    assert (reply.error, reply.epoch, reply.leader_id) == (ErrorCode.FENCED_LEADER_EPOCH, 1, 1)
    assert machine.receive(new, FetchReply).error is ErrorCode.UNKNOWN_LEADER_EPOCH
    assert machine.role is RoleName.LEADER, "an observer deposes nobody"


def test_the_first_leader_writes_the_voters_it_was_formatted_with_into_the_log() -> None:
    machine = Machine().win()
    controls = [batch.control for effect in machine.done(AppendBatches) for batch in effect.batches]
    assert controls[-1] == machine.machine.node.voters
    again = Machine(epoch=1, snapshot=None, log=[1])
    again.log.voters.append(0, again.machine.node.voters)
    again.win()
    assert len(again.done(AppendBatches)) == 1, "a log that says who votes needs no word from the format"


def test_an_unattached_node_asks_one_peer_after_the_other_for_the_leader() -> None:
    machine = Machine(node_id=4)
    asked: set[int] = set()
    for _ in range(6):
        asked |= set(machine.asked(Fetch))
        machine.tick(machine.settings.request_timeout_ms)
    assert asked == {1, 2, 3}
    peer_id = next(iter(machine.asked(Fetch)), None) or next(iter(machine.machine.node.contacts))
    reply = FetchReply(error=ErrorCode.FENCED_LEADER_EPOCH, epoch=6, leader_id=3)
    machine.answer(peer_id, reply)
    assert (machine.role, machine.epoch) == (RoleName.FOLLOWER, 6)
    assert list(machine.asked(Fetch)) == [3]


def test_the_leader_describes_voters_and_observers() -> None:
    machine = Machine().lead_and_commit()
    machine.tick(10)
    machine.fetch_from(7, 1)
    status = machine.machine.status()
    assert (status.role, status.leader_id, status.epoch) == (RoleName.LEADER, 1, 1)
    ends = {replica.key.node_id: replica.log_end_offset for replica in status.voter_status}
    assert ends == {1: machine.log.log_end_offset, 2: machine.log.log_end_offset, 3: -1}
    (observer,) = status.observers
    assert (observer.key, observer.log_end_offset, observer.last_fetch_ms) == (replica_key(7), 1, machine.now_ms)


def test_an_observer_that_went_away_is_forgotten() -> None:
    machine = Machine(voters=(1,))
    machine.sync()
    machine.fetch_from(7)
    machine.tick(300_001)
    assert machine.machine.status().observers == ()
    machine.fetch_from(8)
    assert [replica.key.node_id for replica in machine.machine.status().observers] == [8]
