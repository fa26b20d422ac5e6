"""`quorum-state`: what a voter must not forget between starts, as JSON in Kafka's form (version 0, a static quorum).

The epoch only grows. The file is replaced and on disk before anything is written in a new epoch, so that no two
leaders, nor two runs of one, share an epoch. A file that cannot be read stops the node: starting over would reuse one.
"""

import json
from posixpath import join
from typing import Final, NamedTuple

from ottla.base.disk import Disk
from ottla.base.errors import violated
from ottla.base.types import NO_NODE, LeaderEpoch, NodeId

FILE_NAME: Final = "quorum-state"
DATA_VERSION: Final = 0


class QuorumState(NamedTuple):
    leader_id: NodeId = NO_NODE
    leader_epoch: LeaderEpoch = 0
    voted_id: NodeId = NO_NODE
    voters: tuple[NodeId, ...] = ()


def encode_quorum_state(state: QuorumState) -> bytes:
    fields = {
        "clusterId": "",
        "leaderId": state.leader_id,
        "leaderEpoch": state.leader_epoch,
        "votedId": state.voted_id,
        "appliedOffset": 0,
        "currentVoters": [{"voterId": voter} for voter in state.voters],
        "data_version": DATA_VERSION,
    }
    return json.dumps(fields, separators=(",", ":")).encode()


def decode_quorum_state(data: bytes) -> QuorumState:
    try:
        fields = json.loads(data)
        if fields["data_version"] != DATA_VERSION:
            raise ValueError(f"data_version {fields['data_version']}")
        return QuorumState(
            int(fields["leaderId"]),
            int(fields["leaderEpoch"]),
            int(fields["votedId"]),
            tuple(int(voter["voterId"]) for voter in fields["currentVoters"] or ()),
        )
    except (ValueError, KeyError, TypeError) as error:
        violated("quorum-state can be read", reason=str(error), content=data[:200])


def read_quorum_state(disk: Disk, directory: str) -> QuorumState:
    """Blocking. A new directory has none: epoch 0, nobody leads."""
    path = join(directory, FILE_NAME)
    return decode_quorum_state(disk.read(path)) if disk.exists(path) else QuorumState()


def write_quorum_state(disk: Disk, directory: str, state: QuorumState) -> None:
    """Blocking; durable on return."""
    disk.replace(join(directory, FILE_NAME), encode_quorum_state(state))
