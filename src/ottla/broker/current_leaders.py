"""Whom to ask instead: the leader of a partition and its address, told with NOT_LEADER_OR_FOLLOWER (KIP-951)."""

from collections.abc import Iterable
from uuid import UUID

from ottla.base.types import NodeId
from ottla.metadata.image import MetadataImage
from ottla.wire.hot import TopicKey
from ottla.wire.hot_leaders import CurrentLeader, NodeEndpoint


def current_leader(image: MetadataImage, topic: TopicKey, index: int) -> CurrentLeader | None:
    """As far as this node knows; None where nobody leads."""
    found = image.topics.get(topic) if isinstance(topic, str) else image.topics_by_id.get(UUID(bytes=topic))
    partition = None if found is None else found.partitions.get(index)
    if partition is None or partition.leader < 0:
        return None
    return CurrentLeader(partition.leader, partition.leader_epoch)


def endpoints_of(image: MetadataImage, leaders: Iterable[NodeId], listener: str) -> list[NodeEndpoint]:
    """On the listener that the client came in through."""
    endpoints = []
    for node_id in dict.fromkeys(leaders):
        broker = image.brokers.get(node_id)
        endpoint = None if broker is None else broker.endpoint(listener)
        if broker is not None and endpoint is not None:
            endpoints.append(NodeEndpoint(node_id, endpoint.host, endpoint.port, broker.rack))
    return endpoints
