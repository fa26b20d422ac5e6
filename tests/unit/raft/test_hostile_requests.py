"""Whatever numbers a request holds, it is answered or parked, and the node lives on as what it was or less."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.raft.effects import Answer, AnswerFetch, AnswerSnapshot
from ottla.raft.events import RequestReceived
from ottla.raft.messages import (
    AddVoter,
    EpochEnd,
    Fetch,
    FetchSnapshot,
    RemoveVoter,
    Request,
    SnapshotId,
    UpdateVoter,
    Vote,
)
from ottla.raft.state import Leader, RoleName
from ottla.raft.voters import Voter
from sim.raft_cluster import replica_key
from tests.unit.raft.machines import Machine

NUMBERS = st.one_of(st.integers(-2, 8), st.sampled_from([2**31 - 1, 2**63 - 1]))
KEYS = st.builds(replica_key, st.integers(0, 5), st.integers(0, 1))
VOTERS = st.builds(Voter, key=KEYS)
REQUESTS = st.one_of(
    st.builds(
        Vote,
        epoch=NUMBERS,
        candidate=KEYS,
        voter=st.just(replica_key(1)),
        log_end=st.builds(EpochEnd, NUMBERS, NUMBERS),
        is_pre_vote=st.booleans(),
    ),
    st.builds(
        Fetch,
        epoch=NUMBERS,
        replica=KEYS,
        fetch_offset=NUMBERS,
        last_fetched_epoch=NUMBERS,
        high_watermark=NUMBERS,
        max_wait_ms=NUMBERS,
    ),
    st.builds(
        FetchSnapshot,
        epoch=NUMBERS,
        replica=KEYS,
        snapshot_id=st.builds(SnapshotId, NUMBERS, NUMBERS),
        position=NUMBERS,
    ),
    st.builds(AddVoter, voter=VOTERS, timeout_ms=NUMBERS),
    st.builds(RemoveVoter, key=KEYS),
    st.builds(UpdateVoter, epoch=NUMBERS, voter=VOTERS),
)


def machine_as(role: RoleName) -> Machine:
    match role:
        case RoleName.LEADER:
            return Machine(epoch=2, log=[1, 1, 2]).lead_and_commit()
        case RoleName.FOLLOWER:
            return Machine(epoch=2, log=[1, 1, 2]).follow()
        case _:
            return Machine(epoch=2, log=[1, 1, 2])


@pytest.mark.parametrize("role", [RoleName.LEADER, RoleName.FOLLOWER, RoleName.UNATTACHED])
@given(requests=st.lists(REQUESTS, max_size=8))
def test_every_request_is_answered_once_or_waits_for_its_answer(role: RoleName, requests: list[Request]) -> None:
    machine = machine_as(role)
    asked, answered = set(), []
    for number, request in enumerate(requests):
        asked.add(number)
        machine.step(RequestReceived(ticket=number, request=request))
        answered += [
            effect.ticket
            for effect in machine.effects
            if isinstance(effect, Answer | AnswerFetch | AnswerSnapshot) and isinstance(effect.ticket, int)
        ]
    waiting = set()
    node_role = machine.machine.node.role
    if isinstance(node_role, Leader):
        waiting = {parked.ticket for parked in node_role.parked if isinstance(parked.ticket, int)}
        if node_role.change is not None and node_role.change.ticket is not None:
            waiting.add(node_role.change.ticket)
    assert len(answered) == len(set(answered))
    assert set(answered) | waiting == asked
    assert not set(answered) & waiting
