"""What must hold in a cluster at every moment, looked at from outside, with what every node knows laid side by side."""

from collections import Counter
from dataclasses import dataclass
from typing import Final

from ottla.base.types import LeaderEpoch, NodeId, Offset
from ottla.replica.partition import Partition
from ottla.wire.records import batches
from sim.cluster import SimulatedCluster
from sim.network import content_of
from sim.node import SimulatedNode

READ_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class _Run:
    """One run of one process, as far as one partition's watermark goes."""

    node_id: NodeId
    run_count: int
    partition: int


class ClusterCheckers:
    def __init__(self, cluster: SimulatedCluster, topic: str, hits: Counter[str]) -> None:
        self._cluster = cluster
        self._topic = topic
        self._hits = hits
        self._leaders: dict[tuple[int, LeaderEpoch], NodeId] = {}
        self._watermarks: dict[_Run, Offset] = {}
        self._image_offsets: dict[tuple[NodeId, int], Offset] = {}

    def look(self) -> None:
        for node_id, node in self._cluster.nodes.items():
            if node.is_alive and node.has_opened:
                self._look_at_image(node_id, node)
                self._look_at_watermarks(node_id, node)

    def _look_at_image(self, node_id: NodeId, node: SimulatedNode) -> None:
        image = node.opened.node.image
        run = (node_id, node.run_count)
        before = self._image_offsets.get(run, -1)
        assert image.offset >= before, f"node {node_id}: the metadata went back from {before} to {image.offset}"
        self._image_offsets[run] = image.offset
        topic = image.topics.get(self._topic)
        for index, partition in () if topic is None else topic.partitions.items():
            if partition.leader >= 0:
                key = (index, partition.leader_epoch)
                known = self._leaders.setdefault(key, partition.leader)
                assert known == partition.leader, f"partition {index}: {known} and {partition.leader} lead in {key[1]}"

    def _look_at_watermarks(self, node_id: NodeId, node: SimulatedNode) -> None:
        for partition in node.opened.node.partitions.of_topic(self._topic):
            if partition._truncation is not None:
                continue  # The watermark follows when it is done.
            run = _Run(node_id, node.run_count, partition.topic_partition.partition)
            watermark = partition.high_watermark
            before = self._watermarks.get(run, 0)
            assert watermark >= before, f"node {node_id}: the watermark went back from {before} to {watermark}"
            assert watermark <= partition.log.log_end_offset, f"node {node_id}: a watermark beyond its log"
            self._watermarks[run] = watermark

    def check_logs_agree(self) -> None:
        """Below the lower of two watermarks, byte for byte."""
        living = [node for node in self._cluster.nodes.values() if node.is_alive and node.has_opened]
        for index in range(len(living[0].opened.node.partitions.of_topic(self._topic))):
            copies = [_copy(node, self._topic, index) for node in living]
            common = min(copy.high_watermark for copy in copies)
            contents = [_content(copy, common) for copy in copies]
            assert len(set(contents)) == 1, f"partition {index}: the logs differ below {common}"
            self._hits["offsets compared between logs"] += common


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
