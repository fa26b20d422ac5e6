"""Messages, control records and the quorum's description, to Kafka's bytes and back."""

from uuid import UUID

import pytest

from ottla.base.errors import ErrorCode, ProtocolError
from ottla.raft.control_records import decode_batches, encode_control
from ottla.raft.log_view import Control, KRaftVersion, LeaderChange
from ottla.raft.messages import (
    AddVoter,
    BeginEpoch,
    BeginEpochReply,
    EndEpoch,
    EndEpochReply,
    EpochEnd,
    Fetch,
    FetchReply,
    FetchSnapshot,
    FetchSnapshotReply,
    RemoveVoter,
    Reply,
    Request,
    SnapshotId,
    UpdateVoter,
    Vote,
    VoterChangeReply,
    VoteReply,
)
from ottla.raft.voters import Endpoint, ReplicaKey, Voter, VoterSet
from ottla.raft.wire_replies import reply_of_wire, reply_to_wire, status_to_wire, voter_change_to_wire
from ottla.raft.wire_requests import request_of_wire, request_to_wire
from ottla.wire import api
from ottla.wire.codec import codec_for
from ottla.wire.message import Message
from ottla.wire.records import BatchBuilder
from tests.unit.raft.machines import Machine

ONE = ReplicaKey(1, UUID(int=11))
TWO = ReplicaKey(2, UUID(int=22))
ENDPOINTS = (Endpoint("CONTROLLER", "one.example", 9093),)
SNAPSHOT = SnapshotId(10, 3)
VOTER = Voter(key=TWO, endpoints=ENDPOINTS)

REQUESTS: list[tuple[Request, int]] = [
    (Vote(epoch=4, candidate=ONE, voter=TWO, log_end=EpochEnd(3, 10), is_pre_vote=True), 2),
    (Vote(epoch=4, candidate=ONE, voter=TWO, log_end=EpochEnd(3, 10), is_pre_vote=False), 2),
    (BeginEpoch(epoch=4, leader_id=1, voter=TWO, leader_endpoints=ENDPOINTS), 1),
    (EndEpoch(epoch=4, leader_id=1, preferred_candidates=(TWO, ONE), leader_endpoints=ENDPOINTS), 1),
    (Fetch(epoch=4, replica=TWO, fetch_offset=9, last_fetched_epoch=3, high_watermark=8, answer_id=6), 18),
    (FetchSnapshot(epoch=4, replica=TWO, snapshot_id=SNAPSHOT, position=77), 1),
    (AddVoter(voter=VOTER, timeout_ms=500, ack_when_committed=False), 1),
    (RemoveVoter(key=TWO), 0),
    (UpdateVoter(epoch=4, voter=VOTER), 0),
]
REPLIES: list[tuple[Reply, int]] = [
    (VoteReply(epoch=4, leader_id=2, is_granted=True), 2),
    (VoteReply(error=ErrorCode.FENCED_LEADER_EPOCH, epoch=4, is_granted=False), 2),
    (BeginEpochReply(error=ErrorCode.INVALID_VOTER_KEY, epoch=4, leader_id=1), 1),
    (EndEpochReply(epoch=4, leader_id=1), 1),
    (FetchReply(epoch=4, leader_id=1, high_watermark=8, log_start_offset=2, answer_id=6), 18),
    (FetchReply(epoch=4, leader_id=1, high_watermark=8, log_start_offset=2, diverging=EpochEnd(3, 7)), 18),
    (FetchReply(epoch=4, leader_id=1, high_watermark=8, log_start_offset=2, snapshot_id=SNAPSHOT), 18),
    (FetchSnapshotReply(epoch=4, leader_id=1, snapshot_id=SNAPSHOT, size=99, position=7, data=b"bytes"), 1),
]


def over_the_wire(message: Message, version: int) -> Message:
    codec = codec_for(type(message), version)
    decoded, _ = codec.decode(memoryview(codec.encode(message)), 0)
    return decoded


@pytest.mark.parametrize(("request_", "version"), REQUESTS, ids=lambda value: type(value).__name__)
def test_a_request_arrives_as_it_was_sent(request_: Request, version: int) -> None:
    message = request_to_wire(request_, "cluster")
    assert message.cluster_id == "cluster"  # type: ignore[attr-defined]
    assert request_of_wire(over_the_wire(message, version)) == request_


@pytest.mark.parametrize(("reply", "version"), REPLIES, ids=lambda value: type(value).__name__)
def test_a_reply_arrives_as_it_was_sent(reply: Reply, version: int) -> None:
    arrived = reply_of_wire(over_the_wire(reply_to_wire(reply), version))
    if isinstance(arrived, FetchSnapshotReply):
        assert bytes(arrived.data) == b"bytes"
    assert arrived == reply


def test_an_error_about_the_whole_request_is_a_reply_without_an_epoch() -> None:
    message = api.VoteResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
    assert reply_of_wire(message) == Reply(error=ErrorCode.INCONSISTENT_CLUSTER_ID, epoch=-1)


def test_a_message_about_no_partition_is_refused() -> None:
    with pytest.raises(ProtocolError, match="one topic"):
        request_of_wire(api.VoteRequest())
    with pytest.raises(ProtocolError, match="one topic"):
        reply_of_wire(api.VoteResponse())


@pytest.mark.parametrize("request_", [request for request, _ in REQUESTS[-3:]])
def test_a_change_of_voters_is_answered_in_its_own_form(request_: AddVoter | RemoveVoter | UpdateVoter) -> None:
    reply = VoterChangeReply(error=ErrorCode.REQUEST_TIMED_OUT, epoch=4, leader_id=1, message="later")
    message = voter_change_to_wire(request_, reply)
    assert over_the_wire(message, 0).error_code == ErrorCode.REQUEST_TIMED_OUT  # type: ignore[attr-defined]


CONTROLS: list[Control] = [
    LeaderChange(leader_id=1, voters=VoterSet((Voter(key=ONE), VOTER)), granting_ids=(1,)),
    KRaftVersion(level=1),
    VoterSet((Voter(key=ONE, endpoints=ENDPOINTS), VOTER)),
]


@pytest.mark.parametrize("control", CONTROLS, ids=lambda control: type(control).__name__)
def test_control_records_are_batches_of_the_log(control: Control) -> None:
    encoded = encode_control(control, timestamp=123, base_offset=17, leader_epoch=4)
    (batch,) = decode_batches(memoryview(bytes(encoded)))
    assert (batch.base_offset, batch.record_count, batch.epoch) == (17, 1, 4)
    assert batch.control == (control if isinstance(control, VoterSet) else None)
    assert bytes(batch.data) == bytes(encoded)


def test_batches_of_a_fetch_end_where_the_last_whole_one_ends() -> None:
    builder = BatchBuilder(base_offset=3, leader_epoch=2)
    builder.append(0, None, b"one")
    builder.append(0, None, b"two")
    data = bytes(builder.build())
    batches = decode_batches(memoryview(data + data[:30]))
    assert [(batch.base_offset, batch.end_offset, batch.epoch) for batch in batches] == [(3, 5, 2)]


def test_a_batch_with_a_flipped_bit_is_no_batch() -> None:
    data = encode_control(KRaftVersion(level=1), timestamp=0)
    data[-1] ^= 1
    with pytest.raises(ProtocolError):
        decode_batches(memoryview(bytes(data)))


def test_the_quorum_is_described_in_wall_clock_time() -> None:
    machine = Machine().lead_and_commit()
    message = status_to_wire(machine.machine.status(), wall_ms_at_zero=1_000_000)
    partition = over_the_wire(message, 2).topics[0].partitions[0]  # type: ignore[attr-defined]
    assert (partition.leader_id, partition.leader_epoch) == (1, 1)
    assert [voter.replica_id for voter in partition.current_voters] == [1, 2, 3]
    assert partition.current_voters[1].last_fetch_timestamp == 1_000_000 + machine.now_ms
    assert partition.current_voters[2].last_fetch_timestamp == -1
