"""Ottla's Python SDK: Kafka's names and defaults over librdkafka (confluent-kafka).

`Producer`, `Consumer` and `Admin` block, `AsyncProducer` and `AsyncConsumer` await, `ParallelConsumer` runs handlers in
threads; docs/CLIENT.md is the guide. All of it works in front of any Kafka cluster. The same names are attributes of
`ottla`: the first use imports this package.
"""

from ottla.base.types import TopicPartition
from ottla.client.admin import Admin
from ottla.client.async_consumer import AsyncConsumer
from ottla.client.async_producer import AsyncProducer
from ottla.client.consumer import Consumer
from ottla.client.delivery import Delivery
from ottla.client.errors import BufferFull, ClientError, ConfigError, DeserializationError, PartialFailure
from ottla.client.groups import GroupDescription, GroupListing, GroupMember
from ottla.client.parallel_consumer import HandlerFailed, ParallelConsumer, Retries
from ottla.client.parallel_work import Ordering
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
from ottla.client.transaction_states import ProducerState, TransactionDescription, TransactionListing

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
    "GroupDescription",
    "GroupListing",
    "GroupMember",
    "HandlerFailed",
    "HASH",
    "KeyHash",
    "KeysMoveWarning",
    "NewTopic",
    "OffsetAndMetadata",
    "OffsetSpec",
    "Ordering",
    "ParallelConsumer",
    "PartialFailure",
    "Partitioner",
    "Producer",
    "ProducerRecord",
    "ProducerState",
    "RecordMetadata",
    "Retries",
    "RoundRobin",
    "Salting",
    "Sticky",
    "TimestampType",
    "TopicPartition",
    "TransactionDescription",
    "TransactionListing",
]
