"""Ottla's Python SDK: Kafka's names and defaults over librdkafka (confluent-kafka).

`Producer`, `Consumer` and `Admin` block, `AsyncProducer` and `AsyncConsumer` await; docs/CLIENT.md is the guide. All of
it works in front of any Kafka cluster. The same names are attributes of `ottla`: the first use imports this package.
"""

from ottla.base.types import TopicPartition
from ottla.client.admin import Admin
from ottla.client.async_consumer import AsyncConsumer
from ottla.client.async_producer import AsyncProducer
from ottla.client.consumer import Consumer
from ottla.client.delivery import Delivery
from ottla.client.errors import BufferFull, ClientError, ConfigError, DeserializationError, PartialFailure
from ottla.client.partitioners import HASH, FallThrough, KeyHash, Partitioner, RoundRobin, Salting, Sticky
from ottla.client.producer import Producer
from ottla.client.records import (
    ConsumerOffsets,
    ConsumerRecord,
    ConsumerRecords,
    OffsetAndMetadata,
    ProducerRecord,
    RecordMetadata,
    TimestampType,
)
from ottla.client.topics import KeysMoveWarning, NewTopic, OffsetSpec

__all__ = [
    "Admin",
    "AsyncConsumer",
    "AsyncProducer",
    "BufferFull",
    "ClientError",
    "ConfigError",
    "Consumer",
    "ConsumerOffsets",
    "ConsumerRecord",
    "ConsumerRecords",
    "Delivery",
    "DeserializationError",
    "FallThrough",
    "HASH",
    "KeyHash",
    "KeysMoveWarning",
    "NewTopic",
    "OffsetAndMetadata",
    "OffsetSpec",
    "PartialFailure",
    "Partitioner",
    "Producer",
    "ProducerRecord",
    "RecordMetadata",
    "RoundRobin",
    "Salting",
    "Sticky",
    "TimestampType",
    "TopicPartition",
]
