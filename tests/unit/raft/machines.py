"""A machine to talk to, one event at a time: the reply or the effects of each come back."""

from collections.abc import Sequence
from typing import TypeVar

from ottla.base.types import NO_NODE, LeaderEpoch, NodeId, Offset
from ottla.raft.effects import Answer, AnswerFetch, AnswerSnapshot, Committed, Effect, PersistQuorumState, Send
from ottla.raft.events import AppendAsked, Event, Flushed, ReplyReceived, RequestReceived, Tick
from ottla.raft.log_view import LogBatch, LogView
from ottla.raft.machine import RaftMachine
from ottla.raft.messages import (
    BeginEpoch,
    EpochEnd,
    Fetch,
    FetchReply,
    Reply,
    Request,
    SnapshotId,
    Vote,
    VoteReply,
)
from ottla.raft.quorum_state import QuorumState
from ottla.raft.settings import RaftSettings
from ottla.raft.state import RoleName
from ottla.raft.voters import ReplicaKey, VoterSet
from sim.raft_cluster import replica_key, voter_set

R = TypeVar("R", bound=Reply)
E = TypeVar("E", bound=Effect)


def batch(offset: Offset, epoch: LeaderEpoch, text: str = "", *, voters: VoterSet | None = None) -> LogBatch:
    return LogBatch(base_offset=offset, record_count=1, epoch=epoch, control=voters, data=text.encode())


def log_of(epochs: Sequence[LeaderEpoch], voters: VoterSet, *, snapshot: SnapshotId | None = None) -> LogView:
    """A durable log with one record per epoch given, behind `snapshot`. The voters count as being in the log."""
    log = LogView(voters)
    if snapshot is not None:
        log.restart_at(snapshot, voters)
    for epoch in epochs:
        log.append(batch(log.log_end_offset, epoch))
    log.on_flushed(log.log_end_offset, log.truncation_count)
    return log


class Machine:
    """Node 1 of three voters, unless told otherwise. Its disk syncs when the test says so."""

    def __init__(
        self,
        *,
        node_id: NodeId = 1,
        voters: Sequence[NodeId] = (1, 2, 3),
        epoch: LeaderEpoch = 0,
        leader_id: NodeId = NO_NODE,
        voted: NodeId | None = None,
        log: Sequence[LeaderEpoch] = (),
        snapshot: SnapshotId | None = None,
        bootstrap_ids: tuple[NodeId, ...] = (),
    ) -> None:
        self.now_ms = 0
        self.chance = 0.5
        self.settings = RaftSettings(me=replica_key(node_id), bootstrap_ids=bootstrap_ids)
        state = QuorumState(epoch=epoch, leader_id=leader_id, voted=None if voted is None else replica_key(voted))
        view = log_of(log, voter_set(*voters), snapshot=snapshot)
        self.machine = RaftMachine(self.settings, state, view, chance=self.chance)
        self.effects: list[Effect] = []
        """Of the last step."""
        self.all_effects: list[Effect] = []
        self.tick(0)

    # ---- looking ----

    @property
    def role(self) -> RoleName:
        return self.machine.node.role.name

    @property
    def epoch(self) -> LeaderEpoch:
        return self.machine.node.epoch

    @property
    def log(self) -> LogView:
        return self.machine.node.log

    @property
    def high_watermark(self) -> Offset:
        return self.machine.node.high_watermark

    @property
    def voter_ids(self) -> tuple[NodeId, ...]:
        return self.machine.node.voters.node_ids

    def done(self, kind: type[E]) -> list[E]:
        """The effects of that kind in the last step."""
        return [effect for effect in self.effects if isinstance(effect, kind)]

    def asked(self, kind: type[Request]) -> dict[NodeId, Request]:
        """The requests of that kind sent in the last step, by receiver."""
        return {effect.to_id: effect.request for effect in self.done(Send) if isinstance(effect.request, kind)}

    @property
    def persisted(self) -> QuorumState | None:
        states = [effect.state for effect in self.all_effects if isinstance(effect, PersistQuorumState)]
        return states[-1] if states else None

    @property
    def committed(self) -> Offset | None:
        commits = self.done(Committed)
        return commits[-1].high_watermark if commits else None

    # ---- doing ----

    def step(self, event: Event) -> list[Effect]:
        self.effects = self.machine.step(event, self.now_ms, self.chance)
        self.all_effects += self.effects
        return self.effects

    def tick(self, delay_ms: int) -> None:
        self.now_ms += delay_ms
        self.step(Tick())

    def time_out(self) -> None:
        """Waits for the next election or fetch deadline of its own."""
        role = self.machine.node.role
        deadline_ms = getattr(role, "election_deadline_ms", None) or getattr(role, "fetch_deadline_ms", None)
        assert deadline_ms is not None
        self.tick(deadline_ms - self.now_ms)

    def receive(self, request: Request, reply_type: type[R]) -> R:
        """The request's reply, which must come at once."""
        self.step(RequestReceived(ticket="asker", request=request))
        replies = [
            effect.reply
            for effect in self.effects
            if isinstance(effect, Answer | AnswerFetch | AnswerSnapshot) and effect.ticket == "asker"
        ]
        assert len(replies) == 1, self.effects
        assert isinstance(replies[0], reply_type)
        return replies[0]

    def answer(self, peer_id: NodeId, reply: Reply, batches: tuple[LogBatch, ...] = ()) -> None:
        """The peer's reply to the last request sent to it."""
        sent = [effect for effect in self.all_effects if isinstance(effect, Send) and effect.to_id == peer_id]
        self.step(ReplyReceived(peer_id=peer_id, request_id=sent[-1].request_id, reply=reply, batches=batches))

    def sync(self) -> None:
        self.step(Flushed(end_offset=self.log.log_end_offset, truncation_count=self.log.truncation_count))

    def append(self, text: str = "x") -> None:
        self.step(AppendAsked(epoch=self.epoch, record_count=1, data=text.encode()))

    # ---- conversations ----

    def win(self) -> "Machine":
        """Becomes leader by the votes of as many others as it needs."""
        voters = self.machine.node.voters
        others = [node_id for node_id in voters.node_ids if node_id != self.settings.me.node_id]
        needed = others[: voters.majority_count - 1]
        self.time_out()
        for expected in (RoleName.CANDIDATE, RoleName.LEADER):
            for voter_id in needed:
                self.answer(voter_id, VoteReply(epoch=self.epoch, is_granted=True))
            assert self.role is expected
        return self

    def lead_and_commit(self) -> "Machine":
        """Leads, and as many others as it needs have all that it has."""
        self.win()
        self.sync()
        for node_id in range(2, self.machine.node.voters.majority_count + 1):
            self.fetch_from(node_id)
        assert self.high_watermark == self.log.log_end_offset
        return self

    def fetch_from(self, node_id: NodeId, offset: Offset | None = None, last_epoch: LeaderEpoch | None = None) -> None:
        """A fetch of a replica that has all up to `offset`, or up to the end."""
        end = self.log.log_end_offset if offset is None else offset
        self.step(RequestReceived(ticket=f"fetch of {node_id}", request=self.fetch(node_id, end, last_epoch)))

    def fetch(self, node_id: NodeId, offset: Offset, last_epoch: LeaderEpoch | None = None) -> Fetch:
        return Fetch(
            epoch=self.epoch,
            replica=replica_key(node_id),
            fetch_offset=offset,
            last_fetched_epoch=self.log.epoch_before(offset) if last_epoch is None else last_epoch,
            high_watermark=self.high_watermark,
            max_wait_ms=500,
        )

    def follow(self, leader_id: NodeId = 2, epoch: LeaderEpoch | None = None) -> "Machine":
        """Hears of a leader and has its first fetch under way."""
        epoch = self.epoch + 1 if epoch is None else epoch
        self.step(
            RequestReceived(
                ticket="begin", request=BeginEpoch(epoch=epoch, leader_id=leader_id, voter=self.settings.me)
            )
        )
        assert self.role is RoleName.FOLLOWER
        return self

    def hear(self, *batches: LogBatch, high_watermark: Offset = 0, leader_id: NodeId = 2) -> None:
        """The leader's answer to the fetch under way."""
        reply = FetchReply(epoch=self.epoch, leader_id=leader_id, high_watermark=high_watermark)
        self.answer(leader_id, reply, batches)


def vote(
    candidate_id: NodeId = 2,
    *,
    epoch: LeaderEpoch,
    log_end: tuple[LeaderEpoch, Offset] = (0, 0),
    voter: ReplicaKey | None = None,
    is_pre_vote: bool = False,
) -> Vote:
    return Vote(
        epoch=epoch,
        candidate=replica_key(candidate_id),
        voter=voter or replica_key(1),
        log_end=EpochEnd(*log_end),
        is_pre_vote=is_pre_vote,
    )
