import json
from random import Random

import pytest

from ottla.base.errors import InvariantViolation
from ottla.metadata.quorum_state import (
    QuorumState,
    decode_quorum_state,
    encode_quorum_state,
    read_quorum_state,
    write_quorum_state,
)
from sim.disk import SimulatedDisk


def test_the_file_is_kafkas():
    state = QuorumState(leader_id=1, leader_epoch=7, voted_id=-1, voters=(1,))
    assert json.loads(encode_quorum_state(state)) == {
        "clusterId": "",
        "leaderId": 1,
        "leaderEpoch": 7,
        "votedId": -1,
        "appliedOffset": 0,
        "currentVoters": [{"voterId": 1}],
        "data_version": 0,
    }


def test_written_and_read_back():
    disk = SimulatedDisk(Random(1))
    disk.make_directory("/m")
    assert read_quorum_state(disk, "/m") == QuorumState()
    write_quorum_state(disk, "/m", QuorumState(1, 2, 3, (1, 2, 3)))
    assert read_quorum_state(disk, "/m") == QuorumState(1, 2, 3, (1, 2, 3))


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"[]", b"null", b'{"data_version":9}', b'{"data_version":0,"leaderId":"x"}', b"\xff"]
)
def test_an_unreadable_file_stops_the_node(data):
    with pytest.raises(InvariantViolation, match="quorum-state"):
        decode_quorum_state(data)
