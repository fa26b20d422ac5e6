"""`Quorum`: one node of the metadata quorum. It runs `raft.RaftMachine` over the node's disk, clock and peers.

`step` is immediate; what it orders is carried out in that order (`effect_queue`), inline while nothing has to be waited
for. So the duties at the top of `raft/effects.py` are held:
- `quorum-state`, a truncation, a write that a full disk refuses hold up all behind them;
- fsyncs run beside, one for all who wait. A failed one, or a write that fails for another reason than a full disk, ends
  this node's part in the quorum until it is restarted: what its disk holds is unknown;
- a leader's own records are written first and told to the machine then: what a full disk refuses has changed nothing.

To the controller it is the `MetadataLog`.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, assert_never

from ottla.base.clock import Clock
from ottla.base.errors import ApiError, ErrorCode, invariant
from ottla.base.owned_tasks import OwnedTasks
from ottla.base.types import NO_NODE, LeaderEpoch, NodeId, Offset
from ottla.broker.peers import Peers
from ottla.broker.quorum import exchange
from ottla.broker.quorum.commits import Commits
from ottla.broker.quorum.correspondence import Correspondence
from ottla.broker.quorum.effect_queue import EffectQueue, Work
from ottla.broker.quorum.exchange import Address
from ottla.broker.quorum.flushing import Flushing
from ottla.broker.quorum.image_following import ImageFollowing
from ottla.broker.quorum.office import Office
from ottla.broker.quorum.opening import OpenedQuorum
from ottla.broker.quorum.reserve import Reserve
from ottla.broker.quorum.sight import Sight
from ottla.broker.quorum.snapshot_exchange import SnapshotDownload
from ottla.broker.quorum.store import QuorumStore
from ottla.metadata.image import MetadataBatch, MetadataImage
from ottla.metadata.records import MetadataRecord, encode_record
from ottla.metadata.runtime import ControllerRuntime
from ottla.raft.describe import QuorumStatus
from ottla.raft.effects import (
    Answer,
    AnswerFetch,
    AnswerSnapshot,
    AppendBatches,
    Committed,
    Effect,
    Flush,
    InstallSnapshot,
    PersistQuorumState,
    RoleChanged,
    Send,
    TruncateLog,
    WriteSnapshotChunk,
)
from ottla.raft.events import AppendAsked, Event, Flushed, ReplyReceived, ResignAsked, Tick
from ottla.raft.lease import SilentLeader, confirmed_ms, silent_leader
from ottla.raft.machine import RaftMachine
from ottla.raft.messages import FetchReply
from ottla.raft.settings import RaftSettings
from ottla.raft.state import Follower, Leader, Resigned, RoleName
from ottla.raft.voters import VoterSet
from ottla.replica.storage import is_passing
from ottla.wire import api
from ottla.wire.message import Message
from ottla.wire.records import BatchBuilder

logger = logging.getLogger(__name__)

RESIGN_SECONDS_MAX: Final = 1.0
LEADER_SECONDS_MAX: Final = 5.0  # An election takes less: a longer wait is worth a line in the log.


class Quorum:
    """Implements `MetadataLog`."""

    def __init__(
        self,
        *,
        opened: OpenedQuorum,
        settings: RaftSettings,
        cluster_id: str,
        store: QuorumStore,
        reserve: Reserve,
        clock: Clock,
        chance: Callable[[], float],
    ) -> None:
        self._settings = settings
        self._cluster_id = cluster_id
        self.store: Final = store
        self.reserve: Final = reserve
        self._clock = clock
        self._chance = chance
        self._machine: Final = RaftMachine(
            settings, opened.state, opened.view, now_ms=self.now_ms(), chance=self._chance()
        )
        self._tasks = OwnedTasks()
        self._errands = OwnedTasks()
        """What may be given up at any time."""
        self._sight = Sight(opened.image)
        self._queue = EffectQueue(
            perform=self._perform,
            make_room=reserve.give_up,
            on_failed=self._on_disk_failed,
            sight=self._sight,
            tasks=self._tasks,
        )
        self._flushing = Flushing(
            store, self._tasks, on_flushed=self._on_flushed, on_failed=self._on_disk_failed, sight=self._sight
        )
        self._commits = Commits(self._machine.node.high_watermark)
        self.runtime: Final = ControllerRuntime(self, opened.image, reserve.give_up)
        self._office = Office(self.runtime, reserve, self._errands, self._tell_waiters)
        self._following = ImageFollowing(store, self.runtime, self._office.on_caught_up, self._on_disk_failed)
        self._download = SnapshotDownload(store, self._following, self.step)
        self._correspondence = Correspondence(
            self._machine.node, store, cluster_id=cluster_id, tasks=self._errands, step=self.step
        )
        self._news: list[asyncio.Future[None]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._is_stopped = False

    # ---- what is so ----

    @property
    def image(self) -> MetadataImage:
        """What is committed, as far as this node knows."""
        return self.runtime.image

    @property
    def epoch(self) -> LeaderEpoch:
        return self._machine.node.epoch

    @property
    def is_leader(self) -> bool:
        """This node leads, and its image holds the whole log: it is the active controller."""
        return self._office.is_taken

    @property
    def leader_id(self) -> NodeId:
        """The active controller, as far as this node knows; `NO_NODE` while there is none."""
        if self._office.is_taken:
            return self._settings.me.node_id
        role = self._machine.node.role
        return role.leader_id if isinstance(role, Follower) else NO_NODE

    @property
    def unconfirmed_ms(self) -> int:
        """How long ago this leader last was the one that a majority followed, for all it knows; 0 for who does not lead."""
        node = self._machine.node
        at_ms = confirmed_ms(node, node.role) if isinstance(node.role, Leader) else None
        return 0 if at_ms is None else self.now_ms() - at_ms

    @property
    def is_followed(self) -> bool:
        """This node leads, and nobody else can have been elected yet."""
        is_leader = isinstance(self._machine.node.role, Leader)
        return is_leader and self.unconfirmed_ms <= self._settings.fetch_timeout_ms

    @property
    def silent_leader(self) -> SilentLeader | None:
        """Whom this leader follows upon, if that one fell silent."""
        node = self._machine.node
        return silent_leader(node, node.role) if isinstance(node.role, Leader) else None

    @property
    def voters(self) -> VoterSet:
        return self._machine.node.voters

    @property
    def foreign_ids(self) -> tuple[NodeId, ...]:
        """Who has answered this node that it belongs to another cluster."""
        return self._correspondence.search.foreign_ids

    @property
    def is_installing(self) -> bool:
        return self._machine.node.is_installing

    def status(self) -> QuorumStatus:
        return self._machine.status()

    def describe(self, request: api.DescribeQuorumRequest) -> api.DescribeQuorumResponse:
        wall_ms_at_zero = self._clock.now_ms() - self.now_ms()
        return exchange.description(request, self.status(), wall_ms_at_zero, is_leader=self._office.is_taken)

    def voters_before(self, offset: Offset) -> VoterSet:
        return self._machine.node.log.voters.before(offset)

    def is_blind(self) -> bool:
        """A full disk keeps this node from following the leader: what is decided meanwhile it does not know."""
        return not self._office.is_taken and self._sight.is_lost

    def address_of(self, node_id: NodeId) -> Address | None:
        """Of the leader, or of a voter."""
        return self._correspondence.address_of(node_id)

    def now_ms(self) -> int:
        return int(self._clock.monotonic() * 1000)

    def on_role_changed(self, listener: Callable[[], None]) -> None:
        """`listener` is called when `leader_id`, `epoch` or `is_leader` may have changed; it must not block."""
        self._office.listen(listener)

    # ---- life ----

    def start(self, peers: Peers) -> None:
        self._correspondence.peers = peers
        self._errands.spawn(self._following.run(), name="follow metadata")
        self.step(Tick())

    async def wait_leader(self) -> NodeId:
        """Until there is one that has answered us, or it is this node. `ApiError`: this node takes no part (any more)."""
        search = self._correspondence.search

        def is_decided() -> bool:
            role = self._machine.node.role
            is_found = self._office.is_taken or (isinstance(role, Follower) and role.has_fetched)
            return is_found or self._is_stopped or search.is_in_vain(self.voters)

        complaint = asyncio.get_running_loop().call_later(LEADER_SECONDS_MAX, self._complain)
        try:
            await self._until(is_decided)
        finally:
            complaint.cancel()
        if self._is_stopped:
            raise ApiError(ErrorCode.BROKER_NOT_AVAILABLE, "This node takes no part in the metadata quorum.")
        if search.is_in_vain(self.voters):
            raise ApiError(ErrorCode.INCONSISTENT_CLUSTER_ID, "The quorum that answers is another cluster's.")
        return self.leader_id

    def _complain(self) -> None:
        logger.warning("no leader of the metadata quorum has answered yet, this node goes on asking: %s",
                       self._correspondence.search.remedy(self.voters))  # fmt: skip

    async def resign(self) -> None:
        """Before this node stops: a leader lets the others know, so that they need not find out."""
        self.step(ResignAsked())

        def is_told() -> bool:
            role = self._machine.node.role
            return not isinstance(role, Resigned) or not role.untold

        with suppress(TimeoutError):
            async with asyncio.timeout(RESIGN_SECONDS_MAX):
                await self._until(is_told)

    async def close(self) -> None:
        """The log stays open: who closes the node closes it."""
        self._stop(ApiError(ErrorCode.NETWORK_EXCEPTION, "This node is stopping."))
        await self._errands.cancel()
        await self._tasks.settle()

    # ---- events ----

    def step(self, event: Event) -> None:
        if self._is_stopped:
            return
        effects = self._machine.step(event, self.now_ms(), self._chance())
        if isinstance(event, ReplyReceived) and isinstance(event.reply, FetchReply):
            self._sight.on_leader_heard(event.reply.high_watermark)
        self._queue.push(effects)
        self._after_step()

    def _after_step(self) -> None:
        self._arm()
        if self._news:
            self._tell_waiters()

    def _arm(self) -> None:
        """One timer, at the machine's next deadline."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        deadline_ms = self._machine.next_deadline_ms()
        if deadline_ms is not None and not self._is_stopped:
            seconds = (deadline_ms - self.now_ms()) / 1000
            self._timer = asyncio.get_running_loop().call_later(max(seconds, 0), self.step, Tick())

    async def _until(self, is_true: Callable[[], bool]) -> None:
        while not is_true():
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._news.append(future)
            await future

    def _tell_waiters(self) -> None:
        waiting, self._news = self._news, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    def _on_flushed(self, flush: Flush) -> None:
        self.step(Flushed(end_offset=flush.end_offset, truncation_count=flush.truncation_count))

    async def answer(self, message: Message) -> Message:
        """What a peer or an administrator asks of the quorum, from and to the wire."""
        return await self._correspondence.receive(message)

    # ---- the controller's log ----

    def append(self, records: Sequence[MetadataRecord]) -> MetadataBatch:
        node = self._machine.node
        if self._is_stopped or not isinstance(node.role, Leader) or not self._queue.is_idle:
            raise ApiError(ErrorCode.NOT_CONTROLLER, "This node does not lead the metadata quorum just now; try again.")
        epoch, now_ms = node.epoch, self._clock.now_ms()
        builder = BatchBuilder()
        for record in records:
            builder.append(now_ms, None, encode_record(record))
        batch = builder.build()
        appended = self.store.append_own(batch, epoch)
        asked = AppendAsked(epoch=epoch, record_count=len(records), data=memoryview(batch))
        (written, *effects) = self._machine.step(asked, self.now_ms(), self._chance())
        invariant(isinstance(written, AppendBatches) and written.batches[0].base_offset == appended.base_offset,
                  "the machine's log is the one on disk", written=written, offset=appended.base_offset)  # fmt: skip
        self._queue.push(effects)
        self._after_step()
        return MetadataBatch(records, appended.last_offset, epoch, now_ms)

    async def committed(self, offset: Offset) -> None:
        await self._commits.wait(offset)

    # ---- effects ----

    def _perform(self, effect: Effect) -> Work | None:
        """Carries out one effect; what has to be waited for comes back."""
        match effect:
            case Send():
                self._correspondence.send(effect)
            case Answer():
                self._correspondence.answer(effect)
            case AnswerFetch():
                self._correspondence.answer_fetch(effect)
            case AnswerSnapshot():
                self._correspondence.answer_snapshot(effect)
            case PersistQuorumState():
                return self._queue.until_written(lambda: self.store.write_state(effect.state))
            case AppendBatches():
                return self._append(effect)
            case TruncateLog():
                return self._queue.until_written(lambda: self.store.truncate(effect.to_offset))
            case Flush():
                self._flushing.ask(effect)
            case Committed():
                self._following.on_committed(effect.high_watermark)
                self._commits.advance(effect.high_watermark)
            case RoleChanged():
                self._on_role(effect)
            case WriteSnapshotChunk():
                return self._queue.until_written(lambda: self._download.write(effect))
            case InstallSnapshot():
                self._tasks.spawn(self._install(effect), name="install snapshot")
            case _:
                assert_never(effect)
        return None

    def _append(self, effect: AppendBatches) -> Work | None:
        for batch in effect.batches:
            if isinstance(batch.control, VoterSet):
                self._correspondence.on_voters_changed(batch.control)
        try:
            self.store.append(effect.batches)
        except OSError as error:
            if not is_passing(error):
                self._on_disk_failed(error)
                return None
            return self._queue.until_written(lambda: self._append_again(effect))
        return None

    async def _append_again(self, effect: AppendBatches) -> None:
        self.store.append(effect.batches)

    def _on_role(self, effect: RoleChanged) -> None:
        if effect.role is RoleName.LEADER:
            self._following.on_elected(self.store.log.log_end_offset)
        else:
            self._office.is_taken = False
            self._following.on_deposed()
            self._commits.fail("this node leads the metadata quorum no more")
        self._office.tell_of(effect)

    async def _install(self, effect: InstallSnapshot) -> None:
        try:
            await self._queue.until_written(lambda: self._download.install(effect))
        except OSError as error:
            self._on_disk_failed(error)

    # ---- the end ----

    def _on_disk_failed(self, error: OSError) -> None:
        if self._is_stopped:
            return
        logger.error(
            "this node leaves the metadata quorum, its disk failed: %s; check the disk, then restart this node", error
        )
        for effect in self._machine.step(ResignAsked(), self.now_ms(), self._chance()):
            if isinstance(effect, Send | Answer):  # Others should not have to find out.
                self._perform(effect)
        self._stop(ApiError(ErrorCode.KAFKA_STORAGE_ERROR, "The disk of the metadata log failed."))

    def _stop(self, reason: ApiError) -> None:
        if self._is_stopped:
            return
        self._is_stopped = True
        self._queue.stop()
        self._flushing.stop()
        self._arm()
        self._office.is_taken = False
        self._following.on_deposed()
        self._commits.fail(reason.message)
        self._correspondence.stop(reason)
        self._office.tell_listeners()
        self._tell_waiters()
