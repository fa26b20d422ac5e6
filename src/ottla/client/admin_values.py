"""Between `Admin`'s values (topics.py) and those of confluent-kafka's admin module."""

from base64 import urlsafe_b64decode
from collections.abc import Callable, Mapping
from typing import Any, Final
from uuid import UUID

import confluent_kafka.admin

from ottla.base.types import NO_EPOCH
from ottla.client.text import c_text
from ottla.client.topics import (
    Broker,
    ClusterDescription,
    ConfigEntry,
    ListedOffset,
    OffsetSpec,
    PartitionInfo,
    TopicDescription,
)

# Untyped on purpose: the module re-exports its classes in a way that strict typing does not see.
librdkafka: Final[Any] = confluent_kafka.admin

OFFSET_SPECS: Final[Mapping[OffsetSpec, Callable[[], Any]]] = {
    OffsetSpec.EARLIEST: librdkafka.OffsetSpec.earliest,
    OffsetSpec.LATEST: librdkafka.OffsetSpec.latest,
    OffsetSpec.MAX_TIMESTAMP: librdkafka.OffsetSpec.max_timestamp,
}


def partition_name(partition: Any) -> str:
    return f"{partition.topic}-{partition.partition}"


def resource_name(resource: Any) -> str:
    return f"{resource.restype.name.lower()} {resource.name}"


def config_values(configs: Mapping[str, object]) -> dict[str, str]:
    return {c_text(name, "the configuration"): config_value(value) for name, value in configs.items()}


def config_value(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else c_text(str(value), "the configured value")


def config_resource(topic: str | None, broker: int | None, changes: list[Any] | None = None) -> Any:
    if (topic is None) == (broker is None):
        raise TypeError("name a topic, or broker=<id>")
    kind = librdkafka.ResourceType.TOPIC if topic is not None else librdkafka.ResourceType.BROKER
    return librdkafka.ConfigResource(kind, topic if topic is not None else str(broker), incremental_configs=changes)


def config_operation(name: str, value: object, operation: Any | None) -> Any:
    unset = operation is None and value is None
    default = librdkafka.AlterConfigOpType.DELETE if unset else librdkafka.AlterConfigOpType.SET
    text = None if unset else config_value(value)
    return librdkafka.ConfigEntry(c_text(name, "the configuration"), text, incremental_operation=operation or default)


def config_entry(entry: Any) -> ConfigEntry:
    return ConfigEntry(
        name=entry.name,
        value=entry.value,
        source=librdkafka.ConfigSource(entry.source).name,
        is_default=entry.is_default,
        is_read_only=entry.is_read_only,
        is_sensitive=entry.is_sensitive,
    )


def topic_description(found: Any) -> TopicDescription:
    return TopicDescription(
        name=found.name,
        topic_id=UUID(bytes=urlsafe_b64decode(f"{found.topic_id}==")),
        is_internal=found.is_internal,
        partitions=tuple(
            PartitionInfo(
                partition=info.id,
                leader=None if info.leader is None else info.leader.id,
                replicas=tuple(node.id for node in info.replicas),
                in_sync_replicas=tuple(node.id for node in info.isr),
            )
            for info in found.partitions
        ),
    )


def cluster_description(found: Any) -> ClusterDescription:
    return ClusterDescription(
        cluster_id=found.cluster_id or "",
        controller=None if found.controller is None else found.controller.id,
        brokers=tuple(
            Broker(id=node.id, host=node.host, port=node.port, rack=node.rack)
            for node in sorted(found.nodes, key=lambda node: node.id)
        ),
    )


def offset_spec(given: OffsetSpec | int) -> Any:
    if isinstance(given, OffsetSpec):
        return OFFSET_SPECS[given]()
    return librdkafka.OffsetSpec.for_timestamp(given)


def listed_offset(found: Any) -> ListedOffset:
    return ListedOffset(found.offset, found.timestamp, NO_EPOCH if found.leader_epoch is None else found.leader_epoch)
