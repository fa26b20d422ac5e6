"""Snapshots in the place of a log's beginning (KIP-630, Raft §7)."""

import pytest

from ottla.base.errors import ErrorCode, InvariantViolation
from ottla.raft.effects import AnswerSnapshot, InstallSnapshot, WriteSnapshotChunk
from ottla.raft.events import RequestReceived, SnapshotInstalled, SnapshotRefused, SnapshotTaken
from ottla.raft.messages import Fetch, FetchReply, FetchSnapshot, FetchSnapshotReply, SnapshotId, VoteReply
from ottla.raft.state import RoleName
from sim.raft_cluster import replica_key, voter_set
from tests.unit.raft.machines import Machine, batch, vote

SNAPSHOT = SnapshotId(10, 3)


def leader_with_snapshot() -> Machine:
    """Its log begins at 10 and has records of epochs 3 and 4."""
    return Machine(epoch=4, log=[3, 3, 4], snapshot=SNAPSHOT).lead_and_commit()


def test_a_follower_that_needs_what_the_leader_has_discarded_is_sent_the_snapshot() -> None:
    machine = leader_with_snapshot()
    for offset, epoch in ((0, 0), (9, 3), (11, 2)):
        reply = machine.receive(machine.fetch(3, offset, last_epoch=epoch), FetchReply)
        assert reply.snapshot_id == SNAPSHOT
    for offset, epoch in ((10, 3), (12, 3), (13, 4)):
        reply = machine.receive(machine.fetch(3, offset, last_epoch=epoch), FetchReply)
        assert reply.snapshot_id is None and reply.diverging is None


def test_the_leader_hands_out_the_bytes_of_a_snapshot() -> None:
    machine = leader_with_snapshot()
    request = FetchSnapshot(epoch=5, replica=replica_key(3), snapshot_id=SNAPSHOT, position=7)
    machine.step(RequestReceived(ticket="asker", request=request))
    (answer,) = machine.done(AnswerSnapshot)
    assert answer.request == request
    stale = FetchSnapshot(epoch=4, replica=replica_key(3), snapshot_id=SNAPSHOT, position=7)
    assert machine.receive(stale, FetchSnapshotReply).error is ErrorCode.FENCED_LEADER_EPOCH


def test_a_download_keeps_its_leader() -> None:
    machine = leader_with_snapshot()
    machine.tick(machine.settings.check_quorum_timeout_ms - 1)
    request = FetchSnapshot(epoch=5, replica=replica_key(3), snapshot_id=SNAPSHOT, position=0)
    machine.step(RequestReceived(ticket="asker", request=request))
    machine.tick(1)
    assert machine.role is RoleName.LEADER


def chunk(position: int, data: bytes, **fields: object) -> FetchSnapshotReply:
    return FetchSnapshotReply(  # type: ignore[arg-type]
        **{"epoch": 1, "leader_id": 2, "snapshot_id": SNAPSHOT, "size": 6, "position": position, "data": data, **fields}
    )


def downloading() -> Machine:
    machine = Machine().follow(2)
    machine.answer(2, FetchReply(epoch=1, leader_id=2, snapshot_id=SNAPSHOT))
    (request,) = machine.asked(FetchSnapshot).values()
    assert isinstance(request, FetchSnapshot) and (request.snapshot_id, request.position) == (SNAPSHOT, 0)
    return machine


def test_a_follower_downloads_chunk_by_chunk_and_then_installs() -> None:
    machine = downloading()
    machine.answer(2, chunk(0, b"abc"))
    assert machine.done(WriteSnapshotChunk) == [WriteSnapshotChunk(snapshot_id=SNAPSHOT, position=0, data=b"abc")]
    (request,) = machine.asked(FetchSnapshot).values()
    assert isinstance(request, FetchSnapshot) and request.position == 3
    machine.answer(2, chunk(3, b"def"))
    assert machine.done(InstallSnapshot) == [InstallSnapshot(snapshot_id=SNAPSHOT)]


def test_the_follower_discards_its_entire_log_for_the_snapshot() -> None:
    machine = Machine(epoch=1, log=[1, 1]).follow(2)
    machine.answer(2, FetchReply(epoch=2, leader_id=2, snapshot_id=SNAPSHOT))
    machine.answer(2, chunk(0, b"abcdef", epoch=2))
    machine.step(SnapshotInstalled(snapshot_id=SNAPSHOT, voters=voter_set(1, 2)))
    assert (machine.log.log_start_offset, machine.log.log_end_offset, machine.log.last_epoch) == (10, 10, 3)
    assert machine.committed == 10
    assert machine.voter_ids == (1, 2)
    (fetch,) = machine.asked(Fetch).values()
    assert isinstance(fetch, Fetch) and (fetch.fetch_offset, fetch.last_fetched_epoch) == (10, 3)


def test_who_installs_neither_fetches_nor_campaigns_but_votes() -> None:
    machine = downloading()
    machine.answer(2, chunk(0, b"abcdef"))
    for _ in range(5):
        machine.tick(machine.settings.fetch_timeout_ms)
        assert machine.role is RoleName.FOLLOWER
        assert not machine.asked(Fetch)
    assert machine.receive(vote(3, epoch=2), VoteReply).is_granted
    machine.tick(10_000)
    assert machine.role is RoleName.UNATTACHED
    machine.step(SnapshotInstalled(snapshot_id=SNAPSHOT, voters=voter_set(1, 2, 3)))
    assert machine.log.log_end_offset == 10


def test_a_snapshot_that_is_gone_or_refused_is_asked_for_anew_by_a_fetch() -> None:
    machine = downloading()
    machine.answer(2, chunk(0, b"", error=ErrorCode.SNAPSHOT_NOT_FOUND))
    machine.tick(machine.settings.retry_backoff_ms)
    assert machine.asked(Fetch)
    machine = downloading()
    machine.answer(2, chunk(0, b"abcdef"))
    machine.step(SnapshotRefused(snapshot_id=SNAPSHOT))
    assert machine.asked(Fetch)


def test_a_chunk_of_another_place_is_not_taken() -> None:
    machine = downloading()
    machine.answer(2, chunk(3, b"def"))
    assert not machine.done(WriteSnapshotChunk)
    (request,) = machine.asked(FetchSnapshot).values()
    assert isinstance(request, FetchSnapshot) and request.position == 0


def test_a_snapshot_of_our_own_moves_the_start_of_the_log() -> None:
    machine = Machine(voters=(1,), epoch=2, log=[1, 2, 2])
    machine.sync()
    machine.step(SnapshotTaken(snapshot_id=SnapshotId(2, 2), log_start_offset=2))
    assert (machine.log.log_start_offset, machine.log.first_epoch) == (2, 2)
    machine.step(SnapshotTaken(snapshot_id=SnapshotId(3, 2), log_start_offset=2))
    assert machine.log.snapshot_id == SnapshotId(3, 2)


def test_a_snapshot_holds_only_what_is_committed() -> None:
    machine = Machine(epoch=1, log=[1, 1]).follow()
    machine.hear(batch(2, 2), high_watermark=2)
    with pytest.raises(InvariantViolation, match="holds what is committed"):
        machine.step(SnapshotTaken(snapshot_id=SnapshotId(3, 2), log_start_offset=0))
