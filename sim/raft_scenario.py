"""A quorum of one to five voters and up to two observers, under everything that may happen to it; then calm.

While faults last, a fault of some kind begins every moment and ends a while later: crashes that lose unsynced bytes,
also in the middle of a step, links cut one way or both, slow disks, lost, late, doubled and overtaken messages, resets of
healthy connections, leaders told to resign, snapshots, voters added and removed, two at a time, directories wiped as far
as a majority can do without them. Writers append wherever
someone thinks that it leads. When the faults stop, there must be a leader that commits, and all logs must become one.
"""

from collections import Counter
from dataclasses import replace
from random import Random
from typing import Final

from ottla.base.errors import ApiError
from ottla.base.types import LeaderEpoch, NodeId, Offset
from ottla.raft.events import AppendAsked, ConnectionLost, RequestReceived, ResignAsked
from ottla.raft.membership import changed_set
from ottla.raft.messages import AddVoter, RemoveVoter
from ottla.raft.state import Leader
from ottla.raft.voters import Voter, VoterSet
from sim.raft_cluster import HURRIED, RaftCluster, voter_set
from sim.raft_peer import RaftPeer

TROUBLE_MS: Final = 6_000
CALM_MS_MAX: Final = 10_000
APPEND_EVERY_MS: Final = 25
FAULT_EVERY_MS: Final = 150
REPEAT_MS: Final = 50


class RaftScenario:
    def __init__(self, seed: int) -> None:
        self.seed = seed
        shape = Random(f"{seed}/shape")
        voter_count = shape.choice([1, 3, 3, 3, 5, 5])
        node_count = voter_count + shape.choice([0, 1, 2])
        self.node_ids: list[NodeId] = list(range(1, node_count + 1))
        # Where nobody lets another go first, votes are split, and that is where epochs are contended for.
        settings = replace(HURRIED, yield_ms=shape.choice([0, 0, HURRIED.yield_ms]))
        self.cluster = RaftCluster(seed, self.node_ids, voter_set(*self.node_ids[:voter_count]), settings)
        self.chance = self.cluster.chance
        self.is_in_trouble = True
        self._append_count = 0
        self._waiting: list[tuple[RaftPeer, LeaderEpoch, Offset, bytes]] = []
        """Appends of a leader that is not known to have committed them."""
        self._acknowledged: dict[Offset, bytes] = {}

    @property
    def hits(self) -> Counter[str]:
        return self.cluster.hits

    def run(self) -> str:
        cluster = self.cluster
        cluster.loss_probability = self.chance.choice([0.0, 0.02, 0.1])
        cluster.duplicate_probability = self.chance.choice([0.0, 0.05])
        cluster.delay_ms_max = self.chance.choice([2, 20, 60])
        cluster.sync_ms_max = self.chance.choice([1, 10, 40])
        cluster.crash_probability = self.chance.choice([0.0, 0.001, 0.003])
        cluster.at(0, self._keep_appending)
        cluster.at(300, self._keep_troubling)
        cluster.run_for(TROUBLE_MS)
        self._calm_down()
        self._check_progress()
        return cluster.trace.digest()

    # ---- writers ----

    def _keep_appending(self) -> None:
        if not self.is_in_trouble:
            return
        self._note_acknowledged()
        for peer in self._leaders():
            if self.chance.random() < 0.7:
                self.append(peer)
        self.cluster.at(self.chance.randint(1, 2 * APPEND_EVERY_MS), self._keep_appending)

    def append(self, peer: RaftPeer) -> None:
        node = peer.machine.node
        epoch, offset = node.epoch, node.log.log_end_offset
        self._append_count += 1
        data = f"record {self._append_count}".encode()
        try:
            self.cluster.step(peer, AppendAsked(epoch=epoch, record_count=self.chance.randint(1, 3), data=data))
        except ApiError:
            self.hits["append refused"] += 1
            return
        self._waiting.append((peer, epoch, offset, data))

    def _note_acknowledged(self) -> None:
        """A writer is told so if the leader it wrote to commits while it leads in the same epoch."""
        still_waiting = []
        for peer, epoch, offset, data in self._waiting:
            node = peer.machine.node
            is_leading = self._runs(peer) and isinstance(node.role, Leader) and node.epoch == epoch
            if is_leading and node.high_watermark > offset:
                self._acknowledged[offset] = data
                self.hits["append acknowledged"] += 1
            elif is_leading:
                still_waiting.append((peer, epoch, offset, data))
            else:
                self.hits["append undecided"] += 1
        self._waiting = still_waiting

    def _runs(self, peer: RaftPeer) -> bool:
        return self.cluster.peers.get(peer.key.node_id) is peer

    def _leaders(self) -> list[RaftPeer]:
        return [peer for peer in self.cluster.peers.values() if isinstance(peer.machine.node.role, Leader)]

    # ---- trouble ----

    def _keep_troubling(self) -> None:
        if not self.is_in_trouble:
            return
        troubles = (
            self._crash,
            self._crash,
            self._isolate,
            self._split,
            self._cut_one_way,
            self._slow_disk,
            self._change_voters,
            self._change_voters,
            self._wipe,
            self._snapshot,
            self._resign,
            self._reset_connection,
        )
        self.chance.choice(troubles)()
        self.cluster.at(self.chance.randint(1, 2 * FAULT_EVERY_MS), self._keep_troubling)

    def _someone(self) -> RaftPeer | None:
        """Leaders are worth more trouble than others."""
        candidates = self._leaders() if self.chance.random() < 0.5 else []
        candidates = candidates or list(self.cluster.peers.values())
        return self.chance.choice(candidates) if candidates else None

    def _crash(self) -> None:
        peer = self._someone()
        if peer is None:
            return
        node_id = peer.key.node_id
        self.cluster.crash(node_id, is_host=self.chance.random() < 0.4)
        self.cluster.at(self.chance.randint(1, 800), lambda: self.cluster.maybe_start(node_id))

    def _block(self, links: set[tuple[NodeId, NodeId]], what: str) -> None:
        self.hits[what] += 1
        self.cluster.blocked |= links
        self.cluster.at(self.chance.randint(100, 1_200), lambda: self.cluster.blocked.difference_update(links))

    def _isolate(self) -> None:
        peer = self._someone()
        if peer is not None:
            self._separate({peer.key.node_id}, "node isolated")

    def _split(self) -> None:
        self._separate({node_id for node_id in self.node_ids if self.chance.random() < 0.5}, "network split")

    def _separate(self, group: set[NodeId], what: str) -> None:
        others = set(self.node_ids) - group
        self._block({pair for one in group for other in others for pair in ((one, other), (other, one))}, what)

    def _cut_one_way(self) -> None:
        peer = self._someone()
        if peer is None:
            return
        one, other = peer.key.node_id, self.chance.choice(self.node_ids)
        self._block({(one, other)} if self.chance.random() < 0.5 else {(other, one)}, "link cut one way")

    def _slow_disk(self) -> None:
        self.hits["disks slow"] += 1
        usual_ms = self.cluster.sync_ms_max
        self.cluster.sync_ms_max = 400

        def mend() -> None:
            self.cluster.sync_ms_max = min(usual_ms, self.cluster.sync_ms_max)

        self.cluster.at(self.chance.randint(100, 600), mend)

    def _change_voters(self) -> None:
        """To everyone who thinks that it leads, now and then two changes at once."""
        for peer in self._leaders():
            for _ in range(self.chance.choice([1, 1, 3])):
                request = self._some_change(peer.machine.node.voters)
                if self._is_wise(peer.machine.node.voters, request):
                    self.cluster.step(peer, RequestReceived(ticket="operator", request=request))

    def _some_change(self, voters: VoterSet) -> AddVoter | RemoveVoter:
        """Who lost its directory goes first; else anyone comes or goes."""
        keys = {node_id: disk.key for node_id, disk in self.cluster.disks.items()}
        lost = [voter.key for voter in voters if voter.key != keys[voter.key.node_id]]
        key = lost[0] if lost else keys[self.chance.choice(self.node_ids)]
        if voters.holds(key) and len(voters) > 1:
            return RemoveVoter(key=key)
        return AddVoter(voter=Voter(key=key), timeout_ms=300)

    def _is_wise(self, voters: VoterSet, request: AddVoter | RemoveVoter) -> bool:
        """Not even the protocol can help an operator who leaves too few voters that have their directory."""
        try:
            return self.cluster.is_viable(changed_set(voters, request))
        except ApiError:
            return True  # It will be refused.

    def _wipe(self) -> None:
        """Never more directories than a majority can do without, of any set that any log holds or is about to."""
        peer = self._someone()
        roles = [other.machine.node.role for other in self.cluster.peers.values()]
        if peer is None or any(isinstance(role, Leader) and role.change is not None for role in roles):
            return
        contents = [content for disk in self.cluster.disks.values() for content in (disk.written, disk.durable)]
        voter_sets = [voters for content in contents for voters in content.voter_sets]
        if all(self.cluster.is_viable(voters, without=peer.key) for voters in voter_sets):
            node_id = peer.key.node_id
            self.cluster.wipe(node_id)
            self.cluster.at(self.chance.randint(1, 300), lambda: self.cluster.maybe_start(node_id))

    def _snapshot(self) -> None:
        peer = self._someone()
        if peer is not None:
            self.cluster.take_snapshot(peer)

    def _resign(self) -> None:
        for peer in self._leaders():
            self.hits["leader told to resign"] += 1
            self.cluster.step(peer, ResignAsked())

    def _reset_connection(self) -> None:
        peer = self._someone()
        if peer is not None:
            self.hits["healthy connection reset"] += 1
            self.cluster.step(peer, ConnectionLost(peer_id=self.chance.choice(self.node_ids)))

    # ---- calm ----

    def _calm_down(self) -> None:
        self.is_in_trouble = False
        cluster = self.cluster
        cluster.blocked = set()
        cluster.loss_probability = cluster.duplicate_probability = cluster.crash_probability = 0.0
        cluster.delay_ms_max, cluster.sync_ms_max = 5, 5
        for node_id in self.node_ids:
            cluster.maybe_start(node_id)

    def _check_progress(self) -> None:
        cluster = self.cluster
        assert cluster.run_until(self._has_settled, CALM_MS_MAX), f"no leader that all follow: {self._told()}"
        (leader,) = self._leaders()
        self.append(leader)
        end_offset = leader.machine.node.log.log_end_offset
        is_done = cluster.run_until(lambda: self._all_applied(end_offset), CALM_MS_MAX)
        assert is_done, f"not everyone has {end_offset}: {self._told()}"
        self._note_acknowledged()
        assert not self._waiting, "a leader in calm does not acknowledge"
        for offset, data in self._acknowledged.items():
            assert cluster.checkers.committed[offset].data == data, f"acknowledged and gone: {data!r} at {offset}"
        for peer in cluster.peers.values():
            assert peer.applied == leader.applied, f"node {peer.key.node_id} applied something else"

    def _has_settled(self) -> bool:
        """One leader, which all others follow in its epoch and which has committed all it has."""
        leaders = self._leaders()
        nodes = [peer.machine.node for peer in self.cluster.peers.values()]
        if len(leaders) != 1 or len({(node.epoch, node.leader_id) for node in nodes}) != 1:
            return False
        node = leaders[0].machine.node
        return node.high_watermark == node.log.log_end_offset

    def _all_applied(self, end_offset: Offset) -> bool:
        peers = self.cluster.peers.values()
        return len({peer.applied_end for peer in peers}) == 1 and all(peer.applied_end >= end_offset for peer in peers)

    def _told(self) -> str:
        return "; ".join(
            f"{node_id}: {peer.machine.node.role.name.value} in {peer.machine.node.epoch}, applied {peer.applied_end}"
            for node_id, peer in sorted(self.cluster.peers.items())
        )
