"""From librdkafka's message to a `ConsumerRecord`, deserialized."""

from confluent_kafka import Message

from ottla.base.types import NO_EPOCH, TopicPartition
from ottla.client.errors import DeserializationError
from ottla.client.records import ConsumerRecord, TimestampType
from ottla.client.serializers import Deserializer

TIMESTAMP_TYPES = tuple(TimestampType)  # Indexed by librdkafka's number; an enum call per record would cost more.


class Decoder:
    def __init__(self, key: Deserializer | None, value: Deserializer | None) -> None:
        self._key = key
        self._value = value

    def __call__(self, message: Message) -> ConsumerRecord:
        topic, partition, offset = message.topic() or "", message.partition() or 0, message.offset() or 0
        key, value = message.key(), message.value()
        timestamp_type, timestamp = message.timestamp()
        leader_epoch = message.leader_epoch()
        try:
            # Null is no value to deserialize: a missing key, or a tombstone.
            decoded_key = key if self._key is None or key is None else self._key(key)
            decoded_value = value if self._value is None or value is None else self._value(value)
        except Exception as error:
            raise DeserializationError(TopicPartition(topic, partition), offset, error) from error
        return ConsumerRecord(
            topic,
            partition,
            offset,
            timestamp,
            TIMESTAMP_TYPES[timestamp_type],
            decoded_key,
            decoded_value,
            message.headers() or [],  # type: ignore[arg-type]  # the stubs allow str values for producing
            NO_EPOCH if leader_epoch is None else leader_epoch,
        )
