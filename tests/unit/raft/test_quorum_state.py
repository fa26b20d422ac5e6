"""`quorum-state`, in Kafka's form."""

import json
from uuid import UUID

import pytest

from ottla.base.errors import InvariantViolation
from ottla.raft.quorum_state import QuorumState, decode_quorum_state, encode_quorum_state
from ottla.raft.voters import ReplicaKey

VOTED = ReplicaKey(3, UUID("11111111-2222-3333-4444-555555555555"))


@pytest.mark.parametrize(
    "state", [QuorumState(), QuorumState(epoch=7, leader_id=2), QuorumState(epoch=7, leader_id=3, voted=VOTED)]
)
def test_what_is_written_is_read(state: QuorumState) -> None:
    assert decode_quorum_state(encode_quorum_state(state)) == state


def test_the_fields_are_kafkas() -> None:
    fields = json.loads(encode_quorum_state(QuorumState(epoch=7, leader_id=3, voted=VOTED)))
    assert fields == {
        "leaderId": 3,
        "leaderEpoch": 7,
        "votedId": 3,
        "votedDirectoryId": "ERERESIiMzNERFVVVVVVVQ",
        "data_version": 1,
    }


def test_a_static_quorums_file_is_read() -> None:
    old = b'{"clusterId":"","leaderId":1,"leaderEpoch":4,"votedId":-1,"appliedOffset":0,"currentVoters":[],"data_version":0}'
    assert decode_quorum_state(old) == QuorumState(epoch=4, leader_id=1)


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b"null", b'{"data_version":2}', b"\xff"])
def test_anything_else_stops_the_node(data: bytes) -> None:
    with pytest.raises(InvariantViolation, match="quorum-state"):
        decode_quorum_state(data)
