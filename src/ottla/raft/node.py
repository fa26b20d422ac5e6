"""What all roles of a node share: identity, log, epoch and vote, contacts with peers; and the change from role to role.

The modules beside this one are the roles' rules, as functions over a `QuorumNode`; `machine.py` calls them and hands
`effects` out after each event. `move_to` is the only place where role, epoch or vote change: it holds the table of
`state.py`, orders the new state to be persisted before anything else leaves, and drops what belonged to the old role.
"""

from typing import Final, NamedTuple

from ottla.base.errors import ErrorCode, invariant
from ottla.base.types import NO_NODE, LeaderEpoch, NodeId, Offset
from ottla.raft.effects import (
    Answer,
    AppendBatches,
    Committed,
    Effect,
    PersistQuorumState,
    RoleChanged,
    Send,
)
from ottla.raft.log_view import Control, LogBatch, LogView
from ottla.raft.messages import FetchReply, Request, VoterChangeReply
from ottla.raft.quorum_state import QuorumState
from ottla.raft.settings import RaftSettings
from ottla.raft.state import TRANSITIONS, Follower, Leader, Role, Unattached
from ottla.raft.voters import ReplicaKey, VoterSet


class Contact:
    """One peer: nothing more is sent to it before `free_at_ms`; an answer to `request_id` frees it at once."""

    __slots__ = ("free_at_ms", "request_id")

    def __init__(self, request_id: int | None, free_at_ms: int) -> None:
        self.request_id = request_id
        self.free_at_ms = free_at_ms


class HeardLeader(NamedTuple):
    """The last leader of another node that we followed, and when it last answered, began or was told to be gone."""

    leader_id: NodeId
    heard_ms: int


class QuorumNode:
    def __init__(self, settings: RaftSettings, state: QuorumState, log: LogView, role: Role) -> None:
        self.settings: Final = settings
        self.me: Final[ReplicaKey] = settings.me
        self.log: Final = log
        self.state = state
        self.role: Role = role
        self.high_watermark: Offset = log.log_start_offset if log.snapshot_id is None else log.snapshot_id.end_offset
        self.yields_until_ms = -settings.election_timeout_ms
        """A pre-vote was granted: until then this node does not stand itself."""
        self.heard_leader = HeardLeader(NO_NODE, 0)
        self.is_installing = False
        """A snapshot is about to replace the log: until then this node neither fetches nor campaigns."""
        self.contacts: dict[NodeId, Contact] = {}
        self.effects: list[Effect] = []
        self.now_ms = 0
        self.chance = 0.0
        self.request_count = 0

    # ---- what is so ----

    @property
    def epoch(self) -> LeaderEpoch:
        return self.state.epoch

    @property
    def leader_id(self) -> NodeId:
        """The leader of this epoch, followed or not; `NO_NODE` if unknown."""
        return self.state.leader_id

    @property
    def voters(self) -> VoterSet:
        return self.log.voters.latest

    @property
    def is_voter(self) -> bool:
        return self.voters.holds(self.me)

    @property
    def is_sole_voter(self) -> bool:
        return self.is_voter and len(self.voters) == 1

    @property
    def peer_voters(self) -> list[ReplicaKey]:
        return [voter.key for voter in self.voters if voter.key != self.me]

    def random_election_deadline_ms(self) -> int:
        """Between one and two election time-outs from now; at once for who needs nobody."""
        if self.is_sole_voter:
            return self.now_ms
        return self.now_ms + round(self.settings.election_timeout_ms * (1 + self.chance))

    # ---- from role to role ----

    def move_to(self, role: Role, state: QuorumState) -> None:
        old = self.role
        rule = TRANSITIONS[old.name].get(role.name)
        invariant(rule is not None and rule.allows(self.epoch, state.epoch), "roles follow the table",
                  old=old.name, new=role.name, old_epoch=self.epoch, new_epoch=state.epoch)  # fmt: skip
        self.persist(state)
        self.role = role
        self.contacts.clear()
        self.effects.append(RoleChanged(role=role.name, epoch=state.epoch, leader_id=state.leader_id))
        if isinstance(old, Leader):
            self._dismiss(old)

    def persist(self, state: QuorumState) -> None:
        """In the order of effects: whatever is sent later leaves a node that remembers this."""
        if state.epoch == self.epoch:
            voted, leader_id = self.state.voted, self.leader_id
            invariant(voted is None or state.voted == voted, "one vote per epoch", voted=voted, new=state.voted)
            invariant(leader_id in (NO_NODE, state.leader_id), "one leader per epoch",
                      epoch=self.epoch, known=leader_id, new=state.leader_id)  # fmt: skip
        if state != self.state:
            self.state = state
            self._drop_unseen_state()
            self.effects.append(PersistQuorumState(state=state))

    def _drop_unseen_state(self) -> None:
        """A state that this same step replaces, before anything depended on it, is not worth an fsync."""
        for index in reversed(range(len(self.effects))):
            match self.effects[index]:
                case RoleChanged():
                    continue
                case PersistQuorumState():
                    del self.effects[index]
            return

    def become_unattached(self, epoch: LeaderEpoch) -> None:
        state = self.state if epoch == self.epoch else QuorumState(epoch=epoch)
        self.move_to(Unattached(election_deadline_ms=self.random_election_deadline_ms()), state)

    def become_follower(self, epoch: LeaderEpoch, leader_id: NodeId) -> None:
        invariant(leader_id != self.me.node_id, "nobody follows itself", epoch=epoch)
        voted = self.state.voted if epoch == self.epoch else None
        if epoch > self.epoch or self.leader_id == NO_NODE:
            self.yields_until_ms = self.now_ms - self.settings.election_timeout_ms  # Somebody was elected.
            self.hear_leader(leader_id)
        self.move_to(
            Follower(leader_id=leader_id, fetch_deadline_ms=self.now_ms + self.settings.fetch_timeout_ms),
            QuorumState(epoch=epoch, leader_id=leader_id, voted=voted),
        )

    def hear_leader(self, leader_id: NodeId) -> None:
        self.heard_leader = HeardLeader(leader_id, self.now_ms)

    def learn(self, epoch: LeaderEpoch, leader_id: NodeId) -> None:
        """A peer named an epoch and perhaps its leader: newer ones are taken over, in every role (Raft §5.1)."""
        if epoch < self.epoch:
            return
        is_leader_news = leader_id not in (NO_NODE, self.me.node_id)
        if epoch > self.epoch:
            if is_leader_news:
                self.become_follower(epoch, leader_id)
            else:
                self.become_unattached(epoch)
        elif is_leader_news and not isinstance(self.role, Follower) and self.leader_id == NO_NODE:
            self.become_follower(epoch, leader_id)
        elif is_leader_news:
            invariant(self.leader_id == leader_id, "one leader per epoch",
                      epoch=epoch, known=self.leader_id, new=leader_id)  # fmt: skip

    def _dismiss(self, leader: Leader) -> None:
        """Who waits for a leader that is none any more is sent to the next one."""
        error, epoch, leader_id = ErrorCode.NOT_LEADER_OR_FOLLOWER, self.epoch, self.leader_id
        for parked in leader.parked:
            fetch_reply = FetchReply(error=error, epoch=epoch, leader_id=leader_id)
            self.effects.append(Answer(ticket=parked.ticket, reply=fetch_reply))
        if leader.change is not None and leader.change.ticket is not None:
            message = "The leader has changed; the change of voters may still come to be."
            reply = VoterChangeReply(error=error, epoch=epoch, leader_id=leader_id, message=message)
            self.effects.append(Answer(ticket=leader.change.ticket, reply=reply))

    # ---- the log ----

    def append_as_leader(
        self, control: Control | None = None, *, data: bytes | memoryview = b"", record_count: int = 1
    ) -> LogBatch:
        batch = LogBatch(
            base_offset=self.log.log_end_offset,
            record_count=record_count,
            epoch=self.epoch,
            control=control,
            data=data,
        )
        self.log.append(batch)
        self.effects.append(AppendBatches(batches=(batch,)))
        return batch

    def maybe_advance_watermark(self, offset: Offset) -> bool:
        if offset <= self.high_watermark:
            return False
        invariant(offset <= self.log.log_end_offset, "what is committed here is in the log",
                  high_watermark=offset, log_end=self.log.log_end_offset)  # fmt: skip
        self.high_watermark = offset
        self.effects.append(Committed(high_watermark=offset))
        return True

    # ---- peers ----

    def is_free(self, peer_id: NodeId) -> bool:
        contact = self.contacts.get(peer_id)
        return contact is None or contact.free_at_ms <= self.now_ms

    def send(self, peer_id: NodeId, request: Request) -> None:
        self.request_count += 1
        request_id = self.request_count
        self.contacts[peer_id] = Contact(request_id, self.now_ms + self.settings.request_timeout_ms)
        self.effects.append(Send(to_id=peer_id, request_id=request_id, request=request))

    def pause(self, peer_id: NodeId, pause_ms: int) -> None:
        """Nothing to this peer for a while; what it still answers comes too late."""
        self.contacts[peer_id] = Contact(None, self.now_ms + pause_ms)

    def maybe_take_answer(self, peer_id: NodeId, request_id: int) -> bool:
        """Whether this is the answer the current role waits for; then the peer is free again."""
        contact = self.contacts.get(peer_id)
        if contact is None or contact.request_id != request_id:
            return False
        del self.contacts[peer_id]
        return True
