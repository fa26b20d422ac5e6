"""What a leader knows of its own leadership, and who follows upon it of its silence."""

from ottla.raft.effects import AnswerFetch
from ottla.raft.events import ConnectionLost, RequestReceived
from ottla.raft.lease import SilentLeader, confirmed_ms, silent_leader
from ottla.raft.messages import Fetch, FetchReply, FetchSnapshot, SnapshotId, VoteReply
from ottla.raft.state import Leader, RoleName
from sim.raft_cluster import replica_key
from tests.unit.raft.machines import Machine, vote


def lease_of(machine: Machine) -> int | None:
    role = machine.machine.node.role
    assert isinstance(role, Leader)
    return confirmed_ms(machine.machine.node, role)


def fetch(machine: Machine, node_id: int, answer_id: int = 0) -> int:
    """The number of the answer, which comes when the fetch has waited."""
    request = machine.fetch(node_id, machine.log.log_end_offset)
    numbered = Fetch(**{name: getattr(request, name) for name in request.__slots__} | {"answer_id": answer_id})
    machine.step(RequestReceived(ticket=node_id, request=numbered))
    machine.tick(request.max_wait_ms)
    (answer,) = [one for one in machine.effects if isinstance(one, AnswerFetch) and one.ticket == node_id]
    return answer.reply.answer_id


def test_a_lease_counts_from_the_last_answer_that_is_known_to_have_arrived() -> None:
    machine = Machine().lead_and_commit()
    elected_ms = lease_of(machine)
    first = fetch(machine, 2)
    answered_ms = machine.now_ms
    assert lease_of(machine) == elected_ms, "an answer may be lost"
    second = fetch(machine, 2, first)
    assert lease_of(machine) == answered_ms
    fetch(machine, 2, first)
    assert lease_of(machine) == answered_ms, "asked again: the second answer was lost"
    assert second != first


def test_a_request_that_lay_in_a_buffer_prolongs_nothing() -> None:
    machine = Machine().lead_and_commit()
    first = fetch(machine, 2)
    answered_ms = machine.now_ms
    machine.now_ms += 60_000
    machine.step(RequestReceived(ticket=2, request=machine.fetch(2, machine.log.log_end_offset)))
    fetch(machine, 2, first)
    lease = lease_of(machine)
    assert lease is not None and lease <= answered_ms


def test_of_five_two_others_must_have_heard_the_leader() -> None:
    machine = Machine(voters=(1, 2, 3, 4, 5)).lead_and_commit()
    elected_ms = lease_of(machine)
    fetch(machine, 2, fetch(machine, 2))
    assert lease_of(machine) == elected_ms
    fetch(machine, 6, fetch(machine, 6))
    assert lease_of(machine) == elected_ms, "observers do not count"
    fetch(machine, 3, fetch(machine, 3))
    assert elected_ms is not None
    assert (lease_of(machine) or 0) > elected_ms


def test_who_needs_nobody_has_no_lease() -> None:
    assert lease_of(Machine(voters=(1,))) is None


def test_the_next_piece_of_a_snapshot_tells_that_the_one_before_arrived() -> None:
    machine = Machine().lead_and_commit()
    elected_ms = lease_of(machine)

    def ask(position: int) -> None:
        piece = FetchSnapshot(
            epoch=machine.epoch, replica=replica_key(2), snapshot_id=SnapshotId(9, 1), position=position
        )
        machine.step(RequestReceived(ticket="piece", request=piece))
        machine.now_ms += 100

    ask(0)
    ask(0)
    assert lease_of(machine) == elected_ms
    asked_ms = machine.now_ms - 200
    ask(50)
    assert lease_of(machine) == asked_ms


# ---- the successor ----


def elected(machine: Machine) -> Machine:
    while machine.role is not RoleName.LEADER:
        if machine.role not in (RoleName.PROSPECTIVE, RoleName.CANDIDATE):
            machine.time_out()
        machine.answer(3, VoteReply(epoch=machine.epoch, is_granted=True))
    return machine


def predecessor(machine: Machine) -> SilentLeader | None:
    role = machine.machine.node.role
    assert isinstance(role, Leader)
    return silent_leader(machine.machine.node, role)


def test_who_is_elected_for_a_leaders_silence_knows_how_long_it_lasted() -> None:
    machine = Machine().follow(2)
    machine.hear()
    heard_ms = machine.now_ms
    assert predecessor(elected(machine)) == SilentLeader(2, heard_ms)


def test_who_is_elected_because_a_connection_was_reset_claims_no_silence() -> None:
    machine = Machine().follow(2)
    machine.hear()
    machine.step(ConnectionLost(peer_id=2))
    assert predecessor(elected(machine)) is None


def test_the_first_leader_follows_upon_nobody() -> None:
    assert predecessor(Machine().win()) is None


def test_a_restarted_follower_is_as_patient_as_it_was_before() -> None:
    machine = Machine(epoch=3, leader_id=2)
    request = vote(3, epoch=3, log_end=(9, 9), is_pre_vote=True)
    assert not machine.receive(request, VoteReply).is_granted, "its leader counts on that"
    machine.step(ConnectionLost(peer_id=2))
    assert machine.receive(request, VoteReply).is_granted


def test_a_follower_brings_the_number_of_the_last_answer_back() -> None:
    machine = Machine().follow(2)
    machine.answer(2, FetchReply(epoch=machine.epoch, leader_id=2, answer_id=5))
    request = machine.asked(Fetch)[2]
    assert isinstance(request, Fetch)
    assert request.answer_id == 5
