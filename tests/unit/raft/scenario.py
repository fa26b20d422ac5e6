"""Runs scenario files: commands, and the transcript that they must give.

A line that begins with `>` is a command, the lines behind it up to an empty one are what happened, `#` is a comment.

    > quorum 1 2 3 observers 4     nodes with fresh disks; chance is a tenth of the node's id, so node 1 is the fastest
    > tick 1 +1100                 time passes, and node 1 notices
    > deliver                      the messages under way now arrive, in the order they were sent
    > drop 1 2                     those from 1 to 2 do not
    > sync 1                       the fsyncs that node 1 has asked for are done
    > settle                       deliver and sync until nothing is under way
    > append 1 text / snapshot 1 / resign 1 / reset 1 2 / add 1 4 / remove 1 3 / crash 1 / start 1 / status
    > quietly <command>            without a transcript

`python -m tests.unit.raft.scenario FILE...` writes the transcripts anew; read the diff before you believe it.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Final

from ottla.base.errors import ApiError
from ottla.base.types import NodeId
from ottla.raft.effects import Effect, Flush, InstallSnapshot
from ottla.raft.events import (
    AppendAsked,
    ConnectionLost,
    Event,
    Flushed,
    ReplyReceived,
    RequestReceived,
    ResignAsked,
    SnapshotInstalled,
    SnapshotTaken,
    Tick,
)
from ottla.raft.messages import AddVoter, RemoveVoter
from ottla.raft.settings import RaftSettings
from ottla.raft.voters import Voter
from sim.raft_cluster import replica_key, voter_set
from sim.raft_disk import RaftDisk
from sim.raft_peer import MessageOut, RaftPeer, ReplyOut, RequestOut
from tests.unit.raft.telling import told_effect, told_message, told_status

ROUNDS_MAX: Final = 200  # A quorum that nobody disturbs comes to rest; these are fetches upon fetches.


class Scenario:
    def __init__(self) -> None:
        self.now_ms = 0
        self.lines: list[str] = []
        self.peers: dict[NodeId, RaftPeer] = {}
        self.disks: dict[NodeId, RaftDisk] = {}
        self.messages: list[tuple[RaftPeer, MessageOut]] = []
        self.syncs: dict[NodeId, list[tuple[Flush, Callable[[], None]]]] = {}

    # ---- commands ----

    def run(self, command: str) -> list[str]:
        self.lines = []
        word, *arguments = command.split()
        if word == "quietly":
            self.run(" ".join(arguments))
            return []
        getattr(self, f"_do_{word}")(*arguments)
        return self.lines

    def _do_quorum(self, *arguments: str) -> None:
        split = arguments.index("observers") if "observers" in arguments else len(arguments)
        voters = [int(argument) for argument in arguments[:split]]
        observers = [int(argument) for argument in arguments[split + 1 :]]
        self.disks = {node_id: RaftDisk(replica_key(node_id), voter_set(*voters)) for node_id in voters + observers}
        for node_id in self.disks:
            self._do_start(str(node_id))

    def _do_start(self, name: str) -> None:
        node_id = int(name)
        settings = RaftSettings(me=replica_key(node_id))
        peer = RaftPeer(settings, self.disks[node_id], now_ms=self.now_ms, chance=node_id / 10)
        self.peers[node_id] = peer
        self.syncs[node_id] = []
        self.step(peer, Tick())

    def _do_crash(self, name: str) -> None:
        """Loses all that was not synced."""
        peer = self.peers.pop(int(name))
        self.syncs[int(name)] = []
        peer.disk.crash(_Unlucky())
        self.messages = [(source, message) for source, message in self.messages if source is not peer]

    def _do_tick(self, name: str, delay: str) -> None:
        self.now_ms += int(delay)
        self.step(self.peers[int(name)], Tick())

    def _do_deliver(self) -> None:
        messages, self.messages = self.messages, []
        for source, message in messages:
            self._deliver(source, message)

    def _do_drop(self, source_name: str, target_name: str) -> None:
        self.messages = [
            (source, message)
            for source, message in self.messages
            if (source.key.node_id, _target_id(message)) != (int(source_name), int(target_name))
        ]

    def _do_sync(self, name: str) -> None:
        node_id = int(name)
        syncs, self.syncs[node_id] = self.syncs[node_id], []
        for effect, complete in syncs:
            complete()
            event = Flushed(end_offset=effect.end_offset, truncation_count=effect.truncation_count)
            self.step(self.peers[node_id], event)

    def _do_settle(self) -> None:
        for _ in range(ROUNDS_MAX):
            if not self.messages and not any(self.syncs.values()):
                return
            self._do_deliver()
            for node_id in self.peers:
                self._do_sync(str(node_id))
        raise AssertionError("the quorum does not settle")

    def _do_append(self, name: str, text: str) -> None:
        peer = self.peers[int(name)]
        try:
            self.step(peer, AppendAsked(epoch=peer.machine.node.epoch, record_count=1, data=text.encode()))
        except ApiError as error:
            self.lines.append(f"{name} refuses: {error}")

    def _do_snapshot(self, name: str) -> None:
        peer = self.peers[int(name)]
        snapshot = peer.take_snapshot()
        peer.disk.drop_before(snapshot)
        start = snapshot.snapshot_id.end_offset
        self.step(peer, SnapshotTaken(snapshot_id=snapshot.snapshot_id, log_start_offset=start))

    def _do_resign(self, name: str) -> None:
        self.step(self.peers[int(name)], ResignAsked())

    def _do_reset(self, name: str, peer_name: str) -> None:
        self.step(self.peers[int(name)], ConnectionLost(peer_id=int(peer_name)))

    def _do_add(self, name: str, voter_name: str) -> None:
        request = AddVoter(voter=Voter(key=replica_key(int(voter_name))), timeout_ms=1_000)
        self.step(self.peers[int(name)], RequestReceived(ticket="operator", request=request))

    def _do_remove(self, name: str, voter_name: str) -> None:
        request = RemoveVoter(key=replica_key(int(voter_name)))
        self.step(self.peers[int(name)], RequestReceived(ticket="operator", request=request))

    def _do_status(self) -> None:
        self.lines += [told_status(peer) for _, peer in sorted(self.peers.items())]

    # ---- what they do ----

    def step(self, peer: RaftPeer, event: Event) -> None:
        for effect in peer.machine.step(event, self.now_ms, peer.key.node_id / 10):
            self._perform(peer, effect)

    def _perform(self, peer: RaftPeer, effect: Effect) -> None:
        message = peer.perform(effect)
        self.lines += told_effect(peer, effect)
        if message is not None:
            self.messages.append((peer, message))
        elif isinstance(effect, Flush):
            self.syncs[peer.key.node_id].append((effect, peer.disk.begin_sync()))
        elif isinstance(effect, InstallSnapshot):
            holders = (disk.snapshots.get(effect.snapshot_id) for disk in self.disks.values())
            snapshot = next(found for found in holders if found is not None)
            peer.install(snapshot)
            self.step(peer, SnapshotInstalled(snapshot_id=snapshot.snapshot_id, voters=snapshot.voters))

    def _deliver(self, source: RaftPeer, message: MessageOut) -> None:
        target = self.peers.get(_target_id(message))
        if target is None or (isinstance(message, ReplyOut) and message.ticket[1] is not target):
            return
        self.lines.append(told_message(source, target, message))
        if isinstance(message, RequestOut):
            ticket = (source.key.node_id, source, message.request_id)
            self.step(target, RequestReceived(ticket=ticket, request=message.request))
        else:
            reply = ReplyReceived(
                peer_id=source.key.node_id,
                request_id=message.ticket[2],
                reply=message.reply,
                batches=message.batches,
            )
            self.step(target, reply)


class _Unlucky(Random):
    """A crash keeps nothing that it may lose."""

    def random(self) -> float:
        return 1.0


def _target_id(message: MessageOut) -> NodeId:
    if isinstance(message, RequestOut):
        return message.to_id
    return message.ticket[0] if isinstance(message.ticket, tuple) else 0


def transcript_of(text: str) -> str:
    """The file as it should be: its commands and comments with what happens now."""
    scenario = Scenario()
    paragraphs = []
    for paragraph in text.strip().split("\n\n"):
        lines = []
        for line in paragraph.splitlines():
            if line.startswith(">"):
                lines += [line, *scenario.run(line[1:])]
            elif line.startswith("#"):
                lines.append(line)
        paragraphs.append("\n".join(lines))
    return "\n\n".join(paragraphs) + "\n"


def main() -> None:
    for name in sys.argv[1:]:
        path = Path(name)
        path.write_text(transcript_of(path.read_text()))


if __name__ == "__main__":
    main()
