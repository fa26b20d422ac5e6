"""What must hold in a cluster at every moment, looked at from outside, with what every node knows laid side by side.

One leader per epoch, of every partition and of the quorum, by what nodes do and not only by what the metadata says; metadata
and watermarks that never go back; logs that agree below the watermark. What is seldom is counted on the way.
"""

from collections import Counter
from typing import Final

from ottla.base.types import LeaderEpoch, NodeId, Offset
from ottla.metadata.image_parts import PartitionImage
from ottla.raft.state import RoleName
from ottla.replica.partition import Partition
from ottla.wire.records import batches
from sim.cluster import SimulatedCluster
from sim.network import content_of
from sim.node import SimulatedNode

READ_BYTES: Final = 1 << 20


class ClusterCheckers:
    def __init__(self, cluster: SimulatedCluster, topic: str, hits: Counter[str]) -> None:
        self._cluster = cluster
        self._topic = topic
        self._hits = hits
        self._leaders: dict[tuple[int, LeaderEpoch], NodeId] = {}
        self._quorum_leaders: dict[LeaderEpoch, NodeId] = {}
        self._watermarks: dict[Partition, Offset] = {}  # By the object: a copy that was removed and comes back is new.
        self._log_ends: dict[Partition, Offset] = {}
        self._image_offsets: dict[tuple[NodeId, int], Offset] = {}
        self._states: dict[int, PartitionImage] = {}

    def look(self) -> None:
        for node_id, node in self._cluster.nodes.items():
            if node.is_alive and node.has_opened:
                self._look_at_image(node_id, node)
                self._look_at_quorum(node_id, node)
                self._look_at_offline(node_id, node)
                for partition in node.opened.node.partitions.of_topic(self._topic):
                    self._look_at_copy(node_id, partition)
        for _, index, state in self._cluster.named_partitions(self._topic):
            self._count_changes(index, state)

    # -- what must hold ----------------------------------------------------------------------------------------------

    def _look_at_image(self, node_id: NodeId, node: SimulatedNode) -> None:
        image = node.opened.node.image
        run = (node_id, node.run_count)
        before = self._image_offsets.get(run, -1)
        assert image.offset >= before, f"node {node_id}: the metadata went back from {before} to {image.offset}"
        self._image_offsets[run] = image.offset
        topic = image.topics.get(self._topic)
        for index, partition in () if topic is None else topic.partitions.items():
            if partition.leader >= 0:
                self._note_leader(index, partition.leader_epoch, partition.leader)

    def _note_leader(self, index: int, epoch: LeaderEpoch, leader_id: NodeId) -> None:
        known = self._leaders.setdefault((index, epoch), leader_id)
        assert known == leader_id, f"partition {index}: {known} and {leader_id} lead in {epoch}"

    def _look_at_quorum(self, node_id: NodeId, node: SimulatedNode) -> None:
        status = node.opened.node.quorum.status()
        if status.role is RoleName.LEADER:
            if status.epoch not in self._quorum_leaders:
                self._hits["active controller elected"] += 1
            known = self._quorum_leaders.setdefault(status.epoch, node_id)
            assert known == node_id, f"{known} and {node_id} lead the quorum in {status.epoch}"

    def _look_at_offline(self, node_id: NodeId, node: SimulatedNode) -> None:
        for place, reason in node.opened.node.partitions._offline.items():
            assert isinstance(reason, OSError), f"node {node_id}: {place} is offline, and no disk is to blame: {reason}"

    def _look_at_copy(self, node_id: NodeId, partition: Partition) -> None:
        if partition._truncation is not None:
            return  # The watermark follows when it is done.
        if partition.is_leading:
            self._note_leader(partition.topic_partition.partition, partition.leader_epoch, node_id)
        watermark, log_end = partition.high_watermark, partition.log.log_end_offset
        before = self._watermarks.get(partition, 0)
        assert watermark >= before, f"node {node_id}: the watermark went back from {before} to {watermark}"
        assert watermark <= log_end, f"node {node_id}: a watermark beyond its log"
        self._hits["log truncated"] += log_end < self._log_ends.get(partition, 0)
        self._watermarks[partition], self._log_ends[partition] = watermark, log_end

    def check_logs_agree(self) -> None:
        """Below the lower of two watermarks, byte for byte."""
        for _, index, state in self._cluster.named_partitions(self._topic):
            copies = [_copy(self._cluster.nodes[replica], self._topic, index) for replica in state.replicas]
            common = min(copy.high_watermark for copy in copies)
            contents = [_content(copy, common) for copy in copies]
            assert len(set(contents)) == 1, f"partition {index}: the logs differ below {common}"
            self._hits["offsets compared between logs"] += common

    # -- what is seldom ----------------------------------------------------------------------------------------------

    def _count_changes(self, index: int, state: PartitionImage) -> None:
        before = self._states.get(index)
        self._states[index] = state
        if before is None or before.partition_epoch == state.partition_epoch:
            return
        hits = self._hits
        hits["ISR shrunk"] += len(state.isr) < len(before.isr)
        hits["ISR expanded"] += len(state.isr) > len(before.isr)
        hits["reassignment completed or cancelled"] += before.is_moving and not state.is_moving
        if state.leader == before.leader:
            return
        hits["partition without a leader"] += state.leader < 0
        if state.leader >= 0:
            hits["leader elected"] += 1
            hits["leader elected that was not in the ISR"] += state.leader not in before.isr
            hits["leader elected after a comparison of logs"] += bool(before.last_known_elr)


def _copy(node: SimulatedNode, topic: str, index: int) -> Partition:
    partition = node.opened.node.partitions.find(topic, index)
    assert partition is not None, f"partition {index} of {topic} is not where it should be"
    return partition


def _content(partition: Partition, end_offset: Offset) -> bytes:
    offset, content = partition.log.log_start_offset, b""
    while offset < end_offset:
        piece = content_of(partition.log.read(offset, READ_BYTES, up_to_offset=end_offset))
        content += piece
        offset = max(batch.header.next_offset for batch in batches(memoryview(piece)))
    return content
