"""The quorum's control records as record batches, and batches of the log as the machine sees them.

Each of our control batches holds one record. Kafka's may hold several (a LeaderChange with the version and the voters):
what counts for consensus is the voter set in it, wherever it stands.
"""

from collections.abc import Iterable, Iterator
from typing import Final, assert_never

from ottla.base.errors import ProtocolError
from ottla.base.types import LeaderEpoch, Offset, TimestampMs
from ottla.raft.log_view import Control, KRaftVersion, LeaderChange, LogBatch
from ottla.raft.voters import Endpoint, ReplicaKey, Voter, VoterSet
from ottla.wire import api
from ottla.wire.codec import codec_for
from ottla.wire.records import Batch, ControlType, batches, check_crc, control_batch, control_type_of, records_of

VERSION: Final = 0  # Of all three: Kafka and its tools read a LeaderChange as version 0, whatever it says itself.
KRAFT_VERSION_MAX: Final = 1


def encode_control(
    control: Control, *, timestamp: TimestampMs, base_offset: Offset = 0, leader_epoch: LeaderEpoch = -1
) -> bytearray:
    control_type, value = control_value(control)
    return control_batch(control_type, value, timestamp=timestamp, base_offset=base_offset, leader_epoch=leader_epoch)


def control_value(control: Control) -> tuple[ControlType, bytes]:
    match control:
        case LeaderChange():
            return ControlType.LEADER_CHANGE, codec_for(api.LeaderChangeMessage, VERSION).encode(
                _leader_change(control)
            )
        case KRaftVersion():
            record = api.KRaftVersionRecord(version=VERSION, k_raft_version=control.level)
            return ControlType.KRAFT_VERSION, codec_for(api.KRaftVersionRecord, VERSION).encode(record)
        case VoterSet():
            return ControlType.KRAFT_VOTERS, codec_for(api.VotersRecord, VERSION).encode(voters_record(control))
        case _:
            assert_never(control)


def _leader_change(control: LeaderChange) -> api.LeaderChangeMessage:
    voters = [api.LeaderChangeMessage.Voter(voter_id=node_id) for node_id in control.voters.node_ids]
    return api.LeaderChangeMessage(
        version=VERSION,
        leader_id=control.leader_id,
        voters=voters,
        granting_voters=[voter for voter in voters if voter.voter_id in control.granting_ids],
    )


def voters_record(voters: VoterSet) -> api.VotersRecord:
    return api.VotersRecord(
        version=VERSION,
        voters=[
            api.VotersRecord.Voter(
                voter_id=voter.key.node_id,
                voter_directory_id=voter.key.directory_id,
                endpoints=[
                    api.VotersRecord.Endpoint(name=endpoint.name, host=endpoint.host, port=endpoint.port)
                    for endpoint in voter.endpoints
                ],
                k_raft_version_feature=api.VotersRecord.KRaftVersionFeature(
                    min_supported_version=0, max_supported_version=KRAFT_VERSION_MAX
                ),
            )
            for voter in voters
        ],
    )


def voter_set_of(record: api.VotersRecord) -> VoterSet:
    voters = (
        Voter(
            key=ReplicaKey(voter.voter_id, voter.voter_directory_id),
            endpoints=tuple(Endpoint(each.name, each.host, each.port) for each in voter.endpoints),
        )
        for voter in record.voters
    )
    in_order = tuple(sorted(voters, key=lambda voter: voter.key.node_id))
    if len({voter.key.node_id for voter in in_order}) < len(in_order):
        raise ProtocolError("a voter set names a node twice")
    return VoterSet(in_order)


def voters_of(controls: Iterable[tuple[ControlType | None, bytes]]) -> VoterSet | None:
    """The last voter set among control records; None if there is none."""
    found = None
    for control_type, value in controls:
        if control_type is ControlType.KRAFT_VOTERS:
            body, _ = codec_for(api.VotersRecord, VERSION).decode(memoryview(value), 0)
            found = voter_set_of(body)
    return found


def decode_batches(data: memoryview) -> tuple[LogBatch, ...]:
    """Whole batches with a good CRC, as they came in a Fetch response or are in the log; a cut one at the end is left."""
    return tuple(_log_batch(batch) for batch in batches(data, stop_at_partial=True))


def _log_batch(batch: Batch) -> LogBatch:
    check_crc(batch.view)
    header = batch.header
    return LogBatch(
        base_offset=header.base_offset,
        record_count=header.next_offset - header.base_offset,
        epoch=header.partition_leader_epoch,
        control=voters_of(_controls_in(batch)) if header.is_control else None,
        data=batch.view,
    )


def _controls_in(batch: Batch) -> Iterator[tuple[ControlType | None, bytes]]:
    for record in records_of(batch.view):
        yield control_type_of(record.key), record.value or b""
