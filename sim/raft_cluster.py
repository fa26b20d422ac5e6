"""A quorum in virtual time: peers, a network that delays, loses, duplicates and reorders, disks that take their time.

A queue of moments, no event loop: a step of a peer is a function call, so that a thousand seeds take a minute. Requests
and replies travel separately; a reply dies with the process that asked, as a connection does. A process that is gone
refuses connections, a host that is gone says nothing. A node finds others as it does outside: the voters that its log
names, whoever was named to it as a leader, and its bootstrap servers by ids that are nobody's.
"""

import heapq
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Final
from uuid import UUID

from ottla.base.types import NodeId
from ottla.raft.effects import Effect, Flush, InstallSnapshot, RoleChanged
from ottla.raft.events import (
    ConnectionLost,
    Event,
    Flushed,
    ReplyReceived,
    RequestReceived,
    SnapshotInstalled,
    SnapshotTaken,
    Tick,
)
from ottla.raft.messages import Request, SnapshotId, Vote
from ottla.raft.settings import RaftSettings
from ottla.raft.voters import ReplicaKey, Voter, VoterSet
from sim.raft_checkers import RaftCheckers
from sim.raft_disk import RaftDisk, SnapshotFile
from sim.raft_peer import MessageOut, RaftPeer, ReplyOut, RequestOut
from sim.trace import Trace

CRITICAL_FACTOR: Final = 20
STEPS_MAX: Final = 200_000  # A seed that goes on for ever is a bug of its own.


def replica_key(node_id: NodeId, directory_count: int = 0) -> ReplicaKey:
    """`directory_count`: how many directories the node has had before this one."""
    return ReplicaKey(node_id, UUID(int=0xD0000 + 0x100 * directory_count + node_id))


def bootstrap_id(node_id: NodeId) -> NodeId:
    """By which a node is asked that is known by its address alone: -2, -3, … as in `broker/bootstrap_servers.py`."""
    return -1 - node_id


DEFAULT: Final = RaftSettings(me=replica_key(0))
HURRIED: Final = replace(
    DEFAULT,
    fetch_timeout_ms=300,
    election_timeout_ms=150,
    election_backoff_ms_max=150,
    request_timeout_ms=150,
    fetch_wait_ms_max=100,
    retry_backoff_ms=10,
    suspicion_jitter_ms=20,
)
"""Time-outs so short that a network of tens of milliseconds is trouble enough."""


def voter_set(*node_ids: NodeId) -> VoterSet:
    return VoterSet(tuple(Voter(key=replica_key(node_id)) for node_id in sorted(node_ids)))


class RaftCluster:
    def __init__(self, seed: int, node_ids: list[NodeId], voters: VoterSet, settings: RaftSettings = HURRIED) -> None:
        self.now_ms = 0
        self.chance = Random(f"{seed}/raft")
        self.trace = Trace()
        self.hits: Counter[str] = Counter()
        self.node_ids = node_ids
        self._settings = settings
        self.disks = {node_id: RaftDisk(replica_key(node_id), voters) for node_id in node_ids}
        self.checkers = RaftCheckers(self.disks, self.hits)
        self.peers: dict[NodeId, RaftPeer] = {}
        """Those that run."""
        self.blocked: set[tuple[NodeId, NodeId]] = set()
        """Links that carry nothing, by direction."""
        self.silent: set[NodeId] = set()
        """Nodes whose whole host is down: nobody refuses a connection."""
        self.loss_probability = 0.0
        self.duplicate_probability = 0.0
        self.delay_ms_max = 5
        self.sync_ms_max = 5
        self.crash_probability = 0.0
        """Of a crash in the middle of a step's effects."""
        self.wiped_count = 0
        self._snapshots: dict[SnapshotId, SnapshotFile] = {}
        """All that were ever taken: a download goes on though its source loses the file."""
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._queued_count = 0
        self._step_count = 0
        for node_id in node_ids:
            self.start(node_id)

    # ---- time ----

    def at(self, delay_ms: int, action: Callable[[], None]) -> None:
        self._queued_count += 1
        heapq.heappush(self._queue, (self.now_ms + delay_ms, self._queued_count, action))

    def run_until(self, condition: Callable[[], bool], within_ms: int) -> bool:
        deadline_ms = self.now_ms + within_ms
        while not condition():
            if not self._queue or self._queue[0][0] > deadline_ms:
                self.now_ms = deadline_ms
                return condition()
            self.now_ms, _, action = heapq.heappop(self._queue)
            action()
            self._step_count += 1
            assert self._step_count < STEPS_MAX, "the quorum does not come to rest"
        return True

    def run_for(self, duration_ms: int) -> None:
        self.run_until(lambda: False, duration_ms)

    # ---- processes ----

    def start(self, node_id: NodeId) -> None:
        bootstrap_ids = tuple(bootstrap_id(other_id) for other_id in self.node_ids if other_id != node_id)
        settings = replace(self._settings, me=self.disks[node_id].key, bootstrap_ids=bootstrap_ids)
        self.silent.discard(node_id)
        peer = RaftPeer(settings, self.disks[node_id], now_ms=self.now_ms, chance=self.chance.random())
        self.checkers.on_started(peer)
        self.peers[node_id] = peer
        self.step(peer, Tick())

    def crash(self, node_id: NodeId, *, is_host: bool) -> None:
        """The process is killed, or the whole host; either way what was not synced may be gone."""
        del self.peers[node_id]
        lost_count = self.disks[node_id].crash(self.chance)
        self.hits["crash of a host" if is_host else "crash of a process"] += 1
        self.hits["crash that lost changes of the log"] += lost_count > 0
        self.trace.add("crash", self.now_ms, node_id, lost_count)
        if is_host:
            self.silent.add(node_id)
            return
        for other_id in sorted(self.peers):
            self.at(self._delay_ms(), lambda other_id=other_id: self._lose_connection(other_id, node_id))  # type: ignore[misc]

    def wipe(self, node_id: NodeId) -> None:
        """The node crashes and loses its directory; it comes back with an empty one, which is another replica."""
        self.crash(node_id, is_host=True)
        self.wiped_count += 1
        self.disks[node_id] = RaftDisk(replica_key(node_id, self.wiped_count), VoterSet())
        self.hits["directory wiped"] += 1

    def is_viable(self, voters: VoterSet, *, without: ReplicaKey | None = None) -> bool:
        """Whether a majority of these voters still has its directory; an empty set is nobody's."""
        live_count = sum(voters.holds(disk.key) for disk in self.disks.values() if disk.key != without)
        return live_count >= voters.majority_count or not voters

    def _lose_connection(self, node_id: NodeId, peer_id: NodeId) -> None:
        if node_id in self.peers and (peer_id, node_id) not in self.blocked:
            self.step(self.peers[node_id], ConnectionLost(peer_id=peer_id))

    # ---- one step ----

    def step(self, peer: RaftPeer, event: Event) -> None:
        node_id = peer.key.node_id
        if self.peers.get(node_id) is not peer:
            return
        effects = peer.machine.step(event, self.now_ms, self.chance.random())
        self.trace.add(self.now_ms, node_id, type(event).__name__, len(effects), peer.machine.node.epoch)
        is_cut_short = self._is_cut_short(effects)
        if is_cut_short:
            del effects[self.chance.randint(0, len(effects)) :]
        for effect in effects:
            self._perform(peer, effect)
        if is_cut_short:
            self.hits["crash between two effects"] += 1
            self.crash(node_id, is_host=self.chance.random() < 0.5)
            self.at(self.chance.choice([1, 10, 100, 1_000]), lambda: self.maybe_start(node_id))
            return
        self._arm(peer)

    def _is_cut_short(self, effects: list[Effect]) -> bool:
        """Where roles change, epochs and votes are given: there a crash is worth most."""
        is_critical = any(isinstance(effect, RoleChanged) for effect in effects)
        return self.chance.random() < self.crash_probability * (CRITICAL_FACTOR if is_critical else 1)

    def maybe_start(self, node_id: NodeId) -> None:
        if node_id not in self.peers:
            self.start(node_id)

    def _arm(self, peer: RaftPeer) -> None:
        deadline_ms = peer.machine.next_deadline_ms()
        if deadline_ms is not None and deadline_ms != peer.armed_ms:
            peer.armed_ms = deadline_ms
            self.at(deadline_ms - self.now_ms, lambda: self._tick(peer, deadline_ms))

    def _tick(self, peer: RaftPeer, deadline_ms: int) -> None:
        if peer.armed_ms == deadline_ms:
            peer.armed_ms = None
            self.step(peer, Tick())

    def _perform(self, peer: RaftPeer, effect: Effect) -> None:
        self.checkers.before(peer, effect)
        if isinstance(effect, RoleChanged):
            self.hits[f"{peer.role.value} → {effect.role.value}"] += 1
        message = peer.perform(effect)
        if message is not None:
            self._send(peer, message)
        elif isinstance(effect, Flush):
            self._sync(peer, effect)
        elif isinstance(effect, InstallSnapshot):
            self.at(self.chance.randint(0, 20), lambda: self._install(peer, effect))

    def _sync(self, peer: RaftPeer, effect: Flush) -> None:
        complete = peer.disk.begin_sync()

        def on_synced() -> None:
            if self.peers.get(peer.key.node_id) is not peer:
                return
            complete()
            if effect.truncation_count != peer.machine.node.log.truncation_count:
                self.hits["fsync overtaken by a truncation"] += 1
            self.step(peer, Flushed(end_offset=effect.end_offset, truncation_count=effect.truncation_count))

        self.at(self.chance.randint(0, self.sync_ms_max), on_synced)

    def _install(self, peer: RaftPeer, effect: InstallSnapshot) -> None:
        if self.peers.get(peer.key.node_id) is not peer:
            return
        snapshot = self._snapshots[effect.snapshot_id]
        peer.install(snapshot)
        self.hits["snapshot installed"] += 1
        self.step(peer, SnapshotInstalled(snapshot_id=snapshot.snapshot_id, voters=snapshot.voters))

    def take_snapshot(self, peer: RaftPeer) -> None:
        if not peer.applied or peer.machine.node.is_installing:
            return
        snapshot = peer.take_snapshot()
        self._snapshots[snapshot.snapshot_id] = snapshot
        log_start_offset = peer.machine.node.log.log_start_offset
        if peer.disk.is_synced:
            peer.disk.drop_before(snapshot)
            log_start_offset = snapshot.snapshot_id.end_offset
        self.hits["snapshot taken"] += 1
        self.step(peer, SnapshotTaken(snapshot_id=snapshot.snapshot_id, log_start_offset=log_start_offset))

    # ---- the network ----

    def _delay_ms(self) -> int:
        return self.chance.randint(0, self.delay_ms_max)

    def _send(self, peer: RaftPeer, message: MessageOut) -> None:
        if isinstance(message, RequestOut) and not peer.knows(message.to_id):
            self.hits["address not known"] += 1
            return
        copies = 2 if self.chance.random() < self.duplicate_probability else 1
        for _ in range(copies):
            if self.chance.random() < self.loss_probability:
                self.hits["message lost"] += 1
                continue
            if isinstance(message, RequestOut):
                self.at(self._delay_ms(), lambda: self._deliver_request(peer, message))
            else:
                self.at(self._delay_ms(), lambda: self._deliver_reply(peer, message))
        self.hits["message duplicated"] += copies - 1

    def _deliver_request(self, source: RaftPeer, message: RequestOut) -> None:
        source_id, asked_id = source.key.node_id, message.to_id
        to_id = bootstrap_id(asked_id) if asked_id < 0 else asked_id
        if (source_id, to_id) in self.blocked or to_id in self.silent:
            self.hits["message into a cut link"] += 1
            return
        target = self.peers.get(to_id)
        if target is None:
            self.hits["connection refused"] += 1
            self.at(self._delay_ms(), lambda: self.step(source, ConnectionLost(peer_id=asked_id)))
            return
        request: Request = message.request
        target.on_named(request)
        is_pre_vote = isinstance(request, Vote) and request.is_pre_vote
        ticket = (source_id, source, asked_id, message.request_id, is_pre_vote)
        self.step(target, RequestReceived(ticket=ticket, request=request))

    def _deliver_reply(self, source: RaftPeer, message: ReplyOut) -> None:
        ticket = message.ticket
        if not isinstance(ticket, tuple):
            self.hits[f"change of voters: {message.reply.error.name}"] += 1
            return
        asker_id, asker, asked_id, request_id, _ = ticket
        if (source.key.node_id, asker_id) in self.blocked:
            self.hits["message into a cut link"] += 1
            return
        self._count_reply(message)
        asker.on_named(message.reply)
        reply = ReplyReceived(peer_id=asked_id, request_id=request_id, reply=message.reply, batches=message.batches)
        self.step(asker, reply)

    def _count_reply(self, message: ReplyOut) -> None:
        reply = message.reply
        for rare in ("diverging", "snapshot_id"):
            if getattr(reply, rare, None) is not None:
                self.hits[f"{type(reply).__name__} with {rare}"] += 1
        if reply.error:
            self.hits[f"{type(reply).__name__}: {reply.error.name}"] += 1
