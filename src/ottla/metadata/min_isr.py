"""How many replicas must have a write of acks=all: asked by the controller for eligible leaders, by brokers for writes.

Both must give one answer: below it the watermark stands still, and that is why a replica which left the ISR meanwhile
may still be elected (KIP-966). It is the topic's `min.insync.replicas`, else that of all brokers, and never more than the
partition has replicas; one that is being added does not count yet, so that raising a replication factor stops no producer.
Nodes' settings may differ, and so they do not count, but for those of a node alone: what the one that founds a cluster
has there becomes the default of all brokers, in the metadata; from then on it is changed there.
"""

from collections.abc import Mapping

from ottla.metadata.configs import MIN_INSYNC_REPLICAS, TOPIC_CONFIGS, BrokerLayers, resolve_topic_config


def effective_min_isr(topic: Mapping[str, str], broker: BrokerLayers, replication_factor: int) -> int:
    """`topic`: its configurations. `replication_factor`: that of the partition (`PartitionImage.replication_factor`)."""
    resolved = resolve_topic_config(TOPIC_CONFIGS[MIN_INSYNC_REPLICAS], topic, broker, replication_factor)
    assert isinstance(resolved.value, int)
    return min(resolved.value, replication_factor)


def setting_without_effect(own: str | None, cluster: str | None) -> str | None:
    """What to tell somebody whose node has another number in its settings than the cluster has."""
    if own is None or own == cluster:
        return None
    return (
        f"{MIN_INSYNC_REPLICAS}={own} in this node's settings has no effect, the cluster's is {cluster or 'not set'}. "
        f"To change that: kafka-configs.sh --alter --entity-type brokers --entity-default "
        f"--add-config {MIN_INSYNC_REPLICAS}={own}"
    )
