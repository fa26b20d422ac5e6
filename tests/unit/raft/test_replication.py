"""What replication by fetching adds to the paper: acknowledgements that are fetches, disks that count, observers."""

import pytest

from ottla.base.errors import ErrorCode, InvariantViolation
from ottla.raft.effects import Send
from ottla.raft.events import ConnectionLost, RequestReceived
from ottla.raft.messages import BeginEpoch, EpochEnd, Fetch, FetchReply, Vote
from ottla.raft.state import RoleName
from sim.raft_cluster import replica_key
from tests.unit.raft.machines import Machine, batch


def test_what_is_not_on_disk_does_not_count() -> None:
    machine = Machine().win()
    end_offset = machine.log.log_end_offset
    machine.fetch_from(2)
    assert machine.high_watermark == 0, "one disk of three"
    machine.sync()
    assert machine.high_watermark == end_offset


def test_a_leader_may_commit_what_a_majority_of_others_has_before_its_own_disk_does() -> None:
    """Dissertation §10.2.1."""
    machine = Machine().win()
    machine.fetch_from(2)
    machine.fetch_from(3)
    assert machine.high_watermark == machine.log.log_end_offset > machine.log.durable_end_offset


def test_a_follower_fetches_on_only_once_its_log_is_durable() -> None:
    machine = Machine().follow()
    machine.hear(batch(0, 1))
    assert not machine.asked(Fetch)
    machine.sync()
    (fetch,) = machine.asked(Fetch).values()
    assert isinstance(fetch, Fetch) and fetch.fetch_offset == 1


def test_a_candidate_claims_only_what_is_durable() -> None:
    machine = Machine(epoch=1, log=[1]).follow()
    machine.hear(batch(1, 2))
    machine.tick(machine.settings.fetch_timeout_ms)
    (request, _) = machine.asked(Vote).values()
    assert isinstance(request, Vote) and request.log_end == EpochEnd(1, 1)


def test_a_late_fsync_says_nothing_about_what_was_written_after_a_truncation() -> None:
    machine = Machine(epoch=1, log=[1]).follow()
    machine.hear(batch(1, 1), batch(2, 1))
    machine.follow(3, 3)
    # The fsync of 1 and 2 is still under way. Only a durable log fetches, so another node's word is needed.
    stale_count, stale_end = machine.log.truncation_count, machine.log.log_end_offset
    machine.sync()
    machine.answer(3, FetchReply(epoch=3, leader_id=3, diverging=EpochEnd(1, 1)))
    machine.hear(batch(1, 3), batch(2, 3), leader_id=3)
    machine.log.on_flushed(stale_end, stale_count)
    assert machine.log.durable_end_offset == 1


def test_an_observer_fetches_and_never_campaigns() -> None:
    machine = Machine(node_id=4).follow()
    assert machine.asked(Fetch)
    for _ in range(20):
        machine.tick(1_000)
    assert machine.role is RoleName.UNATTACHED
    assert not [
        effect for effect in machine.all_effects if isinstance(effect, Send) and isinstance(effect.request, Vote)
    ]


@pytest.mark.parametrize("is_reset", [False, True], ids=["silent", "reset"])
@pytest.mark.parametrize("voters", [(), (1, 2, 3)], ids=["knows no voters", "knows old voters"])
def test_an_observer_that_lost_its_leader_finds_it_again(voters: tuple[int, ...], is_reset: bool) -> None:
    """Whoever it can ask names the leader and is not the leader: bootstrap servers are asked by ids that are nobody's."""
    leader_id = 5
    named = FetchReply(error=ErrorCode.NOT_LEADER_OR_FOLLOWER, epoch=1, leader_id=leader_id)
    machine = Machine(node_id=4, voters=voters, bootstrap_ids=(-2,))
    (asked_id,) = machine.asked(Fetch)
    machine.answer(asked_id, named)
    assert list(machine.asked(Fetch)) == [leader_id]
    if is_reset:
        machine.step(ConnectionLost(peer_id=leader_id))
    machine.time_out()
    (asked_id,) = machine.asked(Fetch)
    for _ in range(len(voters) + 1):
        if asked_id != leader_id:
            machine.answer(asked_id, named)
            machine.tick(machine.settings.retry_backoff_ms)
            (asked_id,) = machine.asked(Fetch)
    assert asked_id == leader_id
    machine.hear(leader_id=leader_id)
    assert machine.role is RoleName.FOLLOWER


def test_an_observers_fetch_commits_nothing() -> None:
    machine = Machine().win()
    machine.sync()
    machine.fetch_from(4)
    machine.fetch_from(5)
    assert machine.high_watermark == 0


def test_two_leaders_of_one_epoch_stop_the_node_that_sees_it() -> None:
    machine = Machine().follow(2)
    begin = BeginEpoch(epoch=1, leader_id=3, voter=replica_key(1))
    with pytest.raises(InvariantViolation, match="one leader per epoch"):
        machine.step(RequestReceived(ticket="asker", request=begin))
