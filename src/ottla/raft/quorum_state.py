"""What a voter must never forget: its epoch, the leader of it, and whom it voted for; and `quorum-state`'s JSON.

Version 1 of Kafka's file names the voted directory, too; the voters are in the log (KIP-853). Version 0, a static
quorum's, is read, so that a directory of an older node goes on. Anything else stops the node: to start over would be to
vote twice.
"""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from ottla.base.errors import violated
from ottla.base.types import NO_NODE, LeaderEpoch, NodeId
from ottla.raft.voters import ReplicaKey

DATA_VERSION: Final = 1
DATA_VERSION_STATIC: Final = 0
_NO_DIRECTORY: Final = UUID(int=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumState:
    epoch: LeaderEpoch = 0
    leader_id: NodeId = NO_NODE
    voted: ReplicaKey | None = None


def encode_quorum_state(state: QuorumState) -> bytes:
    voted = state.voted or ReplicaKey(NO_NODE, _NO_DIRECTORY)
    fields = {
        "leaderId": state.leader_id,
        "leaderEpoch": state.epoch,
        "votedId": voted.node_id,
        "votedDirectoryId": urlsafe_b64encode(voted.directory_id.bytes).rstrip(b"=").decode(),
        "data_version": DATA_VERSION,
    }
    return json.dumps(fields, separators=(",", ":")).encode()


def decode_quorum_state(data: bytes) -> QuorumState:
    try:
        fields = json.loads(data)
        if fields["data_version"] not in (DATA_VERSION, DATA_VERSION_STATIC):
            raise ValueError(f"data_version {fields['data_version']}")
        voted_id = int(fields["votedId"])
        directory = UUID(bytes=urlsafe_b64decode(fields.get("votedDirectoryId", "A" * 22) + "=="))
        return QuorumState(
            epoch=int(fields["leaderEpoch"]),
            leader_id=int(fields["leaderId"]),
            voted=None if voted_id == NO_NODE else ReplicaKey(voted_id, directory),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        violated("quorum-state can be read", reason=str(error), content=data[:200])
