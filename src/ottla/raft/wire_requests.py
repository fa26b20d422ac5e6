"""The quorum's requests as Kafka's, both ways; `wire_replies.py` has the answers.

One topic with one partition in each; a message about any other is answered by the caller, who knows the cluster's id.

Versions: Vote 2, BeginQuorumEpoch 1, EndQuorumEpoch 1, Fetch 18, FetchSnapshot 1, AddRaftVoter 1, RemoveRaftVoter 0,
UpdateRaftVoter 0. Older ones lack the directory ids that make a voter.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar
from uuid import UUID

from ottla.base.errors import ProtocolError
from ottla.raft.messages import (
    AddVoter,
    BeginEpoch,
    EndEpoch,
    EpochEnd,
    Fetch,
    FetchSnapshot,
    RemoveVoter,
    Request,
    SnapshotId,
    UpdateVoter,
    Vote,
)
from ottla.raft.voters import Endpoint, ReplicaKey, Voter
from ottla.wire import api
from ottla.wire.message import Message

TOPIC: Final = "__cluster_metadata"
TOPIC_ID: Final = UUID(int=1)
PARTITION: Final = 0
FETCH_BYTES_MAX: Final = 8 << 20
SNAPSHOT_CHUNK_BYTES_MAX: Final = 8 << 20

Item = TypeVar("Item")


def only(items: Sequence[Item], what: str) -> Item:
    if len(items) != 1:
        raise ProtocolError(f"a message of the quorum has one {what}, not {len(items)}")
    return items[0]


def _partition(message: Any) -> Any:
    return only(only(message.topics, "topic").partitions, "partition")


def _endpoints(listeners: Sequence[Any]) -> tuple[Endpoint, ...]:
    return tuple(Endpoint(listener.name, listener.host, listener.port) for listener in listeners)


# ---- requests out ----


def _vote_out(request: Vote, cluster_id: str) -> Message:
    kind = api.VoteRequest
    partition = kind.PartitionData(
        partition_index=PARTITION,
        replica_epoch=request.epoch,
        replica_id=request.candidate.node_id,
        replica_directory_id=request.candidate.directory_id,
        voter_directory_id=request.voter.directory_id,
        last_offset_epoch=request.log_end.epoch,
        last_offset=request.log_end.end_offset,
        pre_vote=request.is_pre_vote,
    )
    topics = [kind.TopicData(topic_name=TOPIC, partitions=[partition])]
    return kind(cluster_id=cluster_id, voter_id=request.voter.node_id, topics=topics)


def _begin_epoch_out(request: BeginEpoch, cluster_id: str) -> Message:
    kind = api.BeginQuorumEpochRequest
    partition = kind.PartitionData(
        partition_index=PARTITION,
        voter_directory_id=request.voter.directory_id,
        leader_id=request.leader_id,
        leader_epoch=request.epoch,
    )
    return kind(
        cluster_id=cluster_id,
        voter_id=request.voter.node_id,
        topics=[kind.TopicData(topic_name=TOPIC, partitions=[partition])],
        leader_endpoints=[kind.LeaderEndpoint(**endpoint._asdict()) for endpoint in request.leader_endpoints],
    )


def _end_epoch_out(request: EndEpoch, cluster_id: str) -> Message:
    kind = api.EndQuorumEpochRequest
    partition = kind.PartitionData(
        partition_index=PARTITION,
        leader_id=request.leader_id,
        leader_epoch=request.epoch,
        preferred_candidates=[
            kind.ReplicaInfo(candidate_id=key.node_id, candidate_directory_id=key.directory_id)
            for key in request.preferred_candidates
        ],
    )
    return kind(
        cluster_id=cluster_id,
        topics=[kind.TopicData(topic_name=TOPIC, partitions=[partition])],
        leader_endpoints=[kind.LeaderEndpoint(**endpoint._asdict()) for endpoint in request.leader_endpoints],
    )


def _fetch_out(request: Fetch, cluster_id: str) -> Message:
    kind = api.FetchRequest
    partition = kind.FetchPartition(
        partition=PARTITION,
        current_leader_epoch=request.epoch,
        fetch_offset=request.fetch_offset,
        last_fetched_epoch=request.last_fetched_epoch,
        partition_max_bytes=FETCH_BYTES_MAX,
        replica_directory_id=request.replica.directory_id,
        high_watermark=request.high_watermark,
    )
    return kind(
        cluster_id=cluster_id,
        replica_state=kind.ReplicaState(replica_id=request.replica.node_id),
        session_id=request.answer_id,
        max_wait_ms=request.max_wait_ms,
        max_bytes=FETCH_BYTES_MAX,
        topics=[kind.FetchTopic(topic_id=TOPIC_ID, partitions=[partition])],
    )


def _fetch_snapshot_out(request: FetchSnapshot, cluster_id: str) -> Message:
    kind = api.FetchSnapshotRequest
    partition = kind.PartitionSnapshot(
        partition=PARTITION,
        current_leader_epoch=request.epoch,
        snapshot_id=kind.SnapshotId(**request.snapshot_id._asdict()),
        position=request.position,
        replica_directory_id=request.replica.directory_id,
    )
    return kind(
        cluster_id=cluster_id,
        replica_id=request.replica.node_id,
        max_bytes=SNAPSHOT_CHUNK_BYTES_MAX,
        topics=[kind.TopicSnapshot(name=TOPIC, partitions=[partition])],
    )


def _add_voter_out(request: AddVoter, cluster_id: str) -> Message:
    kind = api.AddRaftVoterRequest
    return kind(
        cluster_id=cluster_id,
        timeout_ms=request.timeout_ms,
        voter_id=request.voter.key.node_id,
        voter_directory_id=request.voter.key.directory_id,
        listeners=[kind.Listener(**endpoint._asdict()) for endpoint in request.voter.endpoints],
        ack_when_committed=request.ack_when_committed,
    )


def _remove_voter_out(request: RemoveVoter, cluster_id: str) -> Message:
    return api.RemoveRaftVoterRequest(
        cluster_id=cluster_id, voter_id=request.key.node_id, voter_directory_id=request.key.directory_id
    )


def _update_voter_out(request: UpdateVoter, cluster_id: str) -> Message:
    kind = api.UpdateRaftVoterRequest
    return kind(
        cluster_id=cluster_id,
        current_leader_epoch=request.epoch,
        voter_id=request.voter.key.node_id,
        voter_directory_id=request.voter.key.directory_id,
        listeners=[kind.Listener(**endpoint._asdict()) for endpoint in request.voter.endpoints],
        k_raft_version_feature=kind.KRaftVersionFeature(min_supported_version=0, max_supported_version=1),
    )


# ---- requests in ----


def _vote_in(message: api.VoteRequest) -> Vote:
    partition = _partition(message)
    return Vote(
        epoch=partition.replica_epoch,
        candidate=ReplicaKey(partition.replica_id, partition.replica_directory_id),
        voter=ReplicaKey(message.voter_id, partition.voter_directory_id),
        log_end=EpochEnd(partition.last_offset_epoch, partition.last_offset),
        is_pre_vote=partition.pre_vote,
    )


def _begin_epoch_in(message: api.BeginQuorumEpochRequest) -> BeginEpoch:
    partition = _partition(message)
    return BeginEpoch(
        epoch=partition.leader_epoch,
        leader_id=partition.leader_id,
        voter=ReplicaKey(message.voter_id, partition.voter_directory_id),
        leader_endpoints=_endpoints(message.leader_endpoints),
    )


def _end_epoch_in(message: api.EndQuorumEpochRequest) -> EndEpoch:
    partition = _partition(message)
    return EndEpoch(
        epoch=partition.leader_epoch,
        leader_id=partition.leader_id,
        preferred_candidates=tuple(
            ReplicaKey(each.candidate_id, each.candidate_directory_id) for each in partition.preferred_candidates
        ),
        leader_endpoints=_endpoints(message.leader_endpoints),
    )


def _fetch_in(message: api.FetchRequest) -> Fetch:
    partition = _partition(message)
    return Fetch(
        epoch=partition.current_leader_epoch,
        replica=ReplicaKey(message.replica_state.replica_id, partition.replica_directory_id),
        fetch_offset=partition.fetch_offset,
        last_fetched_epoch=partition.last_fetched_epoch,
        high_watermark=partition.high_watermark,
        max_wait_ms=message.max_wait_ms,
        answer_id=message.session_id,
    )


def _fetch_snapshot_in(message: api.FetchSnapshotRequest) -> FetchSnapshot:
    partition = _partition(message)
    return FetchSnapshot(
        epoch=partition.current_leader_epoch,
        replica=ReplicaKey(message.replica_id, partition.replica_directory_id),
        snapshot_id=SnapshotId(partition.snapshot_id.end_offset, partition.snapshot_id.epoch),
        position=partition.position,
    )


def _voter_of(message: api.AddRaftVoterRequest | api.UpdateRaftVoterRequest) -> Voter:
    key = ReplicaKey(message.voter_id, message.voter_directory_id)
    return Voter(key=key, endpoints=_endpoints(message.listeners))


def _add_voter_in(message: api.AddRaftVoterRequest) -> AddVoter:
    return AddVoter(
        voter=_voter_of(message), timeout_ms=message.timeout_ms, ack_when_committed=message.ack_when_committed
    )


def _remove_voter_in(message: api.RemoveRaftVoterRequest) -> RemoveVoter:
    return RemoveVoter(key=ReplicaKey(message.voter_id, message.voter_directory_id))


def _update_voter_in(message: api.UpdateRaftVoterRequest) -> UpdateVoter:
    return UpdateVoter(epoch=message.current_leader_epoch, voter=_voter_of(message))


_REQUESTS_OUT: Final[dict[type, Callable[[Any, str], Message]]] = {
    Vote: _vote_out,
    BeginEpoch: _begin_epoch_out,
    EndEpoch: _end_epoch_out,
    Fetch: _fetch_out,
    FetchSnapshot: _fetch_snapshot_out,
    AddVoter: _add_voter_out,
    RemoveVoter: _remove_voter_out,
    UpdateVoter: _update_voter_out,
}
_REQUESTS_IN: Final[dict[type, Callable[[Any], Request]]] = {
    api.VoteRequest: _vote_in,
    api.BeginQuorumEpochRequest: _begin_epoch_in,
    api.EndQuorumEpochRequest: _end_epoch_in,
    api.FetchRequest: _fetch_in,
    api.FetchSnapshotRequest: _fetch_snapshot_in,
    api.AddRaftVoterRequest: _add_voter_in,
    api.RemoveRaftVoterRequest: _remove_voter_in,
    api.UpdateRaftVoterRequest: _update_voter_in,
}


def request_to_wire(request: Request, cluster_id: str) -> Message:
    return _REQUESTS_OUT[type(request)](request, cluster_id)


def request_of_wire(message: Message) -> Request:
    """`ProtocolError` unless it is about one partition."""
    return _REQUESTS_IN[type(message)](message)
