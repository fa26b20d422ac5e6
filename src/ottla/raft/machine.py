"""The only door: one event in, effects out.

`step` hands the event to the module it concerns, then lets the role do what has become due, and last asks for the fsync
of whatever was appended. It is called from one place at a time, with a time that does not go back and a `chance` between
0 and 1 drawn anew for each call.
"""

from collections.abc import Iterator
from typing import Final, assert_never

from ottla.base.errors import ApiError, ErrorCode, violated
from ottla.base.types import NO_NODE, NodeId
from ottla.raft import election, following, leading, membership, serving, snapshotting
from ottla.raft.describe import QuorumStatus, describe
from ottla.raft.effects import Answer, Effect, Flush
from ottla.raft.events import (
    AppendAsked,
    ConnectionLost,
    Event,
    Flushed,
    ReplyReceived,
    RequestReceived,
    ResignAsked,
    SnapshotInstalled,
    SnapshotRefused,
    SnapshotTaken,
    Tick,
    Ticket,
)
from ottla.raft.log_view import LogView
from ottla.raft.messages import (
    AddVoter,
    BeginEpoch,
    BeginEpochReply,
    EndEpoch,
    EndEpochReply,
    Fetch,
    FetchReply,
    FetchSnapshot,
    FetchSnapshotReply,
    RemoveVoter,
    Request,
    UpdateVoter,
    Vote,
    VoteReply,
)
from ottla.raft.node import QuorumNode
from ottla.raft.quorum_state import QuorumState
from ottla.raft.settings import RaftSettings
from ottla.raft.state import Candidate, Follower, Leader, Prospective, Resigned, Unattached

ROLE_CHANGES_PER_STEP_MAX: Final = 8  # A sole voter takes four, from resigned to leader; more is a loop.


class RaftMachine:
    def __init__(
        self, settings: RaftSettings, state: QuorumState, log: LogView, *, now_ms: int = 0, chance: float = 0.0
    ) -> None:
        """`state` and `log` are what the disk holds after recovery; all of the log is durable. A `Tick` starts it."""
        if log.last_epoch > state.epoch:
            state = QuorumState(epoch=log.last_epoch)
        self._node: Final = QuorumNode(settings, state, log, Unattached(election_deadline_ms=0))
        self._node.now_ms, self._node.chance = now_ms, chance
        self._node.hear_leader(state.leader_id)
        self._node.role = _first_role(self._node)
        self._flush_asked = (log.durable_end_offset, log.truncation_count)

    @property
    def node(self) -> QuorumNode:
        """To look at."""
        return self._node

    def status(self) -> QuorumStatus:
        return describe(self._node)

    def step(self, event: Event, now_ms: int, chance: float = 0.0) -> list[Effect]:
        """`ApiError` from `AppendAsked` alone, and then nothing has changed."""
        node = self._node
        node.now_ms = max(node.now_ms, now_ms)
        node.chance = chance
        self._take(event)
        self._drive()
        self._maybe_flush()
        effects, node.effects = node.effects, []
        return effects

    def next_deadline_ms(self) -> int | None:
        """When a `Tick` is due, if nothing else happens; None if only an event can move this node."""
        return min((at_ms for at_ms in self._deadlines_ms() if at_ms > self._node.now_ms), default=None)

    # ---- the event ----

    def _take(self, event: Event) -> None:
        node = self._node
        match event:
            case Tick():
                pass
            case RequestReceived():
                self._take_request(event.ticket, event.request)
            case ReplyReceived():
                self._take_reply(event)
            case ConnectionLost():
                following.on_connection_lost(node, event.peer_id)
            case AppendAsked():
                self._append(event)
            case Flushed():
                node.log.on_flushed(event.end_offset, event.truncation_count)
            case SnapshotTaken():
                snapshotting.on_snapshot_taken(node, event)
            case SnapshotInstalled():
                snapshotting.on_snapshot_installed(node, event)
            case SnapshotRefused():
                snapshotting.on_installing_over(node)
            case ResignAsked():
                leading.on_resign_asked(node)
            case _:
                assert_never(event)

    def _take_request(self, ticket: Ticket, request: Request) -> None:
        node = self._node
        match request:
            case Vote():
                self._answer(ticket, election.answer_vote(node, request))
            case BeginEpoch():
                self._answer(ticket, following.answer_begin_epoch(node, request))
            case EndEpoch():
                self._answer(ticket, following.answer_end_epoch(node, request))
            case Fetch():
                serving.on_fetch(node, ticket, request)
            case FetchSnapshot():
                serving.on_fetch_snapshot(node, ticket, request)
            case AddVoter() | RemoveVoter() | UpdateVoter():
                membership.on_voter_change(node, ticket, request)
            case _:
                assert_never(request)

    def _answer(self, ticket: Ticket, reply: VoteReply | BeginEpochReply | EndEpochReply) -> None:
        self._node.effects.append(Answer(ticket=ticket, reply=reply))

    def _take_reply(self, event: ReplyReceived) -> None:
        node, reply = self._node, event.reply
        node.learn(reply.epoch, reply.leader_id)
        if not node.maybe_take_answer(event.peer_id, event.request_id):
            return
        match reply:
            case VoteReply():
                election.on_vote_reply(node, event.peer_id, reply)
            case BeginEpochReply():
                leading.on_begin_epoch_reply(node, event.peer_id, reply)
            case EndEpochReply():
                leading.on_end_epoch_reply(node, event.peer_id)
            case FetchReply():
                following.on_fetch_reply(node, event.peer_id, reply, event.batches)
            case FetchSnapshotReply():
                snapshotting.on_fetch_snapshot_reply(node, event.peer_id, reply)
            case _:
                node.pause(event.peer_id, node.settings.retry_backoff_ms)  # Refused as a whole, by another cluster say.

    def _append(self, event: AppendAsked) -> None:
        node = self._node
        if not isinstance(node.role, Leader) or event.epoch != node.epoch:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"This node does not lead in epoch {event.epoch}.")
        node.append_as_leader(data=event.data, record_count=event.record_count)

    # ---- what has become due ----

    def _drive(self) -> None:
        node = self._node
        for _ in range(ROLE_CHANGES_PER_STEP_MAX):
            role = node.role
            match role:
                case Unattached():
                    following.drive_unattached(node, role)
                case Follower():
                    following.drive_follower(node, role)
                case Prospective() | Candidate():
                    election.drive_campaign(node, role)
                case Leader():
                    leading.drive_leader(node, role)
                case Resigned():
                    leading.drive_resigned(node, role)
                case _:
                    assert_never(role)
            if node.role is role:
                return
        violated("roles settle", role=node.role.name, epoch=node.epoch)

    def _maybe_flush(self) -> None:
        log = self._node.log
        wanted = (log.log_end_offset, log.truncation_count)
        if not log.is_durable and wanted != self._flush_asked:
            self._flush_asked = wanted
            self._node.effects.append(Flush(end_offset=log.log_end_offset, truncation_count=log.truncation_count))

    def _deadlines_ms(self) -> Iterator[int]:
        node = self._node
        yield from (contact.free_at_ms for contact in node.contacts.values())
        match node.role:
            case Unattached() as role:
                if election.may_campaign(node):
                    yield max(role.election_deadline_ms, node.yields_until_ms)
            case Follower() as role:
                if not node.is_installing:
                    yield max(role.fetch_deadline_ms, node.yields_until_ms)
            case Prospective() | Candidate() | Resigned() as role:
                yield role.election_deadline_ms
            case Leader() as role:
                yield from leading.deadlines_ms(node, role)


def _first_role(node: QuorumNode) -> Unattached | Follower | Resigned:
    """Who led must not lead again in that epoch: what it had not synced is gone, and its offsets would be used twice.

    It goes on in the next one at once, where it may find out who leads by now.
    """
    leader_id: NodeId = node.leader_id
    if leader_id == node.me.node_id:
        return Resigned(election_deadline_ms=node.now_ms)
    if leader_id != NO_NODE:
        deadline_ms = node.now_ms + node.settings.fetch_timeout_ms
        return Follower(leader_id=leader_id, fetch_deadline_ms=deadline_ms, is_remembered=True)
    return Unattached(election_deadline_ms=node.random_election_deadline_ms())
