"""The table of transitions: what it must say, and that nothing goes around it."""

import pytest

from ottla.base.errors import InvariantViolation
from ottla.raft.quorum_state import QuorumState
from ottla.raft.state import TRANSITIONS, EpochRule, Leader, Resigned, RoleName, Unattached
from sim.raft_cluster import replica_key
from tests.unit.raft.machines import Machine


def test_every_role_is_in_the_table_and_none_lowers_the_epoch() -> None:
    assert set(TRANSITIONS) == set(RoleName)
    for arrows in TRANSITIONS.values():
        for rule in arrows.values():
            assert not rule.allows(5, 4)


def test_only_a_candidate_becomes_leader_and_a_leader_leaves_its_epoch_as_resigned() -> None:
    assert [old for old, arrows in TRANSITIONS.items() if RoleName.LEADER in arrows] == [RoleName.CANDIDATE]
    in_same_epoch = {new for new, rule in TRANSITIONS[RoleName.LEADER].items() if rule.allows(5, 5)}
    assert in_same_epoch == {RoleName.RESIGNED}
    assert not any(rule.allows(5, 5) for rule in TRANSITIONS[RoleName.RESIGNED].values())


def test_only_who_was_told_that_it_would_win_takes_an_epoch() -> None:
    takers = {old for old, arrows in TRANSITIONS.items() if EpochRule.NEXT in arrows.values()}
    assert takers == {RoleName.PROSPECTIVE}


def test_a_step_around_the_table_stops_the_node() -> None:
    node = Machine(epoch=3).machine.node
    with pytest.raises(InvariantViolation, match="roles follow the table"):
        node.move_to(Leader(elected_at_ms=0, epoch_start_offset=0), node.state)
    with pytest.raises(InvariantViolation, match="roles follow the table"):
        node.move_to(Resigned(election_deadline_ms=0), node.state)
    with pytest.raises(InvariantViolation, match="roles follow the table"):
        node.move_to(Unattached(election_deadline_ms=0), QuorumState(epoch=2))


def test_a_second_vote_or_leader_in_an_epoch_stops_the_node() -> None:
    node = Machine(epoch=3, voted=2).machine.node
    with pytest.raises(InvariantViolation, match="one vote per epoch"):
        node.persist(QuorumState(epoch=3, voted=replica_key(3)))
    node.persist(QuorumState(epoch=3, voted=replica_key(2), leader_id=2))
    with pytest.raises(InvariantViolation, match="one leader per epoch"):
        node.persist(QuorumState(epoch=3, voted=replica_key(2), leader_id=3))
