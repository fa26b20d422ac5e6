"""The quorum's replies as Kafka's responses, both ways, and the answer to DescribeQuorum.

Records travel beside a `FetchReply`: the driver reads them and hands them in here, or takes them out of the response. An
error about the request as a whole (another cluster's id, say) comes back as a reply with that error and no epoch.
"""

from collections.abc import Callable
from typing import Any, Final

from ottla.base.errors import ErrorCode
from ottla.base.types import NO_EPOCH
from ottla.raft.describe import QuorumStatus, ReplicaStatus
from ottla.raft.messages import (
    AddVoter,
    BeginEpochReply,
    EndEpochReply,
    EpochEnd,
    FetchReply,
    FetchSnapshotReply,
    RemoveVoter,
    Reply,
    SnapshotId,
    UpdateVoter,
    VoterChangeReply,
    VoteReply,
)
from ottla.raft.wire_requests import PARTITION, TOPIC, TOPIC_ID, only
from ottla.wire import api
from ottla.wire.message import Message

# ---- out ----


def _vote_out(reply: VoteReply) -> Message:
    kind = api.VoteResponse
    partition = kind.PartitionData(
        partition_index=PARTITION,
        error_code=reply.error,
        leader_id=reply.leader_id,
        leader_epoch=reply.epoch,
        vote_granted=reply.is_granted,
    )
    return kind(topics=[kind.TopicData(topic_name=TOPIC, partitions=[partition])])


def _epoch_out(kind: Any, reply: Reply) -> Message:
    partition = kind.PartitionData(
        partition_index=PARTITION, error_code=reply.error, leader_id=reply.leader_id, leader_epoch=reply.epoch
    )
    message: Message = kind(topics=[kind.TopicData(topic_name=TOPIC, partitions=[partition])])
    return message


def fetch_reply_to_wire(reply: FetchReply, records: bytes | memoryview = b"") -> api.FetchResponse:
    kind = api.FetchResponse
    partition = kind.PartitionData(
        partition_index=PARTITION,
        error_code=reply.error,
        high_watermark=reply.high_watermark,
        last_stable_offset=reply.high_watermark,
        log_start_offset=reply.log_start_offset,
        current_leader=kind.LeaderIdAndEpoch(leader_id=reply.leader_id, leader_epoch=reply.epoch),
        aborted_transactions=None,
        records=records,
    )
    if reply.diverging is not None:
        partition.diverging_epoch = kind.EpochEndOffset(**reply.diverging._asdict())
    if reply.snapshot_id is not None:
        partition.snapshot_id = kind.SnapshotId(**reply.snapshot_id._asdict())
    topic = kind.FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[partition])
    return kind(session_id=reply.answer_id, responses=[topic])


def _snapshot_out(reply: FetchSnapshotReply) -> Message:
    kind = api.FetchSnapshotResponse
    partition = kind.PartitionSnapshot(
        index=PARTITION,
        error_code=reply.error,
        snapshot_id=kind.SnapshotId(**reply.snapshot_id._asdict()),
        current_leader=kind.LeaderIdAndEpoch(leader_id=reply.leader_id, leader_epoch=reply.epoch),
        size=reply.size,
        position=reply.position,
        unaligned_records=reply.data,
    )
    return kind(topics=[kind.TopicSnapshot(name=TOPIC, partitions=[partition])])


def voter_change_to_wire(request: AddVoter | RemoveVoter | UpdateVoter, reply: VoterChangeReply) -> Message:
    match request:
        case AddVoter():
            return api.AddRaftVoterResponse(error_code=reply.error, error_message=reply.message)
        case RemoveVoter():
            return api.RemoveRaftVoterResponse(error_code=reply.error, error_message=reply.message)
        case UpdateVoter():
            kind = api.UpdateRaftVoterResponse
            leader = kind.CurrentLeader(leader_id=reply.leader_id, leader_epoch=reply.epoch)
            return kind(error_code=reply.error, current_leader=leader)


_REPLIES_OUT: Final[dict[type, Callable[[Any], Message]]] = {
    VoteReply: _vote_out,
    BeginEpochReply: lambda reply: _epoch_out(api.BeginQuorumEpochResponse, reply),
    EndEpochReply: lambda reply: _epoch_out(api.EndQuorumEpochResponse, reply),
    FetchReply: fetch_reply_to_wire,
    FetchSnapshotReply: _snapshot_out,
}


def reply_to_wire(reply: Reply) -> Message:
    """All but changes of voters, whose response depends on the request."""
    return _REPLIES_OUT[type(reply)](reply)


# ---- in ----


def _partition(message: Any) -> Any:
    return only(only(message.topics, "topic").partitions, "partition")


def _about(partition: Any) -> dict[str, Any]:
    """The fields that every reply has, where Vote, BeginQuorumEpoch and EndQuorumEpoch keep them."""
    return {
        "error": ErrorCode(partition.error_code),
        "epoch": partition.leader_epoch,
        "leader_id": partition.leader_id,
    }


def _about_current(partition: Any) -> dict[str, Any]:
    """The same, where Fetch and FetchSnapshot keep them."""
    leader = partition.current_leader
    return {"error": ErrorCode(partition.error_code), "epoch": leader.leader_epoch, "leader_id": leader.leader_id}


def _vote_in(message: api.VoteResponse) -> Reply:
    partition = _partition(message)
    return VoteReply(**_about(partition), is_granted=partition.vote_granted)


def _fetch_in(message: api.FetchResponse) -> Reply:
    partition = only(only(message.responses, "topic").partitions, "partition")
    diverging, snapshot = partition.diverging_epoch, partition.snapshot_id
    return FetchReply(
        **_about_current(partition),
        high_watermark=partition.high_watermark,
        log_start_offset=partition.log_start_offset,
        answer_id=message.session_id,
        diverging=EpochEnd(diverging.epoch, diverging.end_offset) if diverging.end_offset >= 0 else None,
        snapshot_id=SnapshotId(snapshot.end_offset, snapshot.epoch) if snapshot.end_offset >= 0 else None,
    )


def _snapshot_in(message: api.FetchSnapshotResponse) -> Reply:
    partition = _partition(message)
    return FetchSnapshotReply(
        **_about_current(partition),
        snapshot_id=SnapshotId(partition.snapshot_id.end_offset, partition.snapshot_id.epoch),
        size=partition.size,
        position=partition.position,
        data=partition.unaligned_records,
    )


_REPLIES_IN: Final[dict[type, Callable[[Any], Reply]]] = {
    api.VoteResponse: _vote_in,
    api.BeginQuorumEpochResponse: lambda message: BeginEpochReply(**_about(_partition(message))),
    api.EndQuorumEpochResponse: lambda message: EndEpochReply(**_about(_partition(message))),
    api.FetchResponse: _fetch_in,
    api.FetchSnapshotResponse: _snapshot_in,
}


def reply_of_wire(message: Any) -> Reply:
    """`ProtocolError` unless it is about one partition, or an error about all."""
    if message.error_code != ErrorCode.NONE:
        return Reply(error=ErrorCode(message.error_code), epoch=NO_EPOCH)
    return _REPLIES_IN[type(message)](message)


# ---- DescribeQuorum ----


def status_to_wire(status: QuorumStatus, wall_ms_at_zero: int) -> api.DescribeQuorumResponse:
    """`wall_ms_at_zero`: the wall clock's time when the machine's was 0."""
    kind = api.DescribeQuorumResponse

    def replica_state(replica: ReplicaStatus) -> api.DescribeQuorumResponse.ReplicaState:
        def wall_ms(time_ms: int) -> int:
            return -1 if time_ms < 0 else wall_ms_at_zero + time_ms

        return kind.ReplicaState(
            replica_id=replica.key.node_id,
            replica_directory_id=replica.key.directory_id,
            log_end_offset=replica.log_end_offset,
            last_fetch_timestamp=wall_ms(replica.last_fetch_ms),
            last_caught_up_timestamp=wall_ms(replica.last_caught_up_ms),
        )

    partition = kind.PartitionData(
        partition_index=PARTITION,
        leader_id=status.leader_id,
        leader_epoch=status.epoch,
        high_watermark=status.high_watermark,
        current_voters=[replica_state(replica) for replica in status.voter_status],
        observers=[replica_state(replica) for replica in status.observers],
    )
    listeners = [
        kind.Node(
            node_id=voter.key.node_id,
            listeners=[kind.Listener(**endpoint._asdict()) for endpoint in voter.endpoints],
        )
        for voter in status.voters
    ]
    return kind(topics=[kind.TopicData(topic_name=TOPIC, partitions=[partition])], nodes=listeners)
