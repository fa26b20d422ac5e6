"""What the SDK raises: `ClientError`, with Kafka's name for what happened and a sentence that says what to do.

Names are Kafka's (`MESSAGE_TOO_LARGE`), also where librdkafka has its own; what only librdkafka knows keeps its
leading underscore (`_MSG_TIMED_OUT`). Anything else that comes out of the SDK is a bug of the caller
(`TypeError`, `ValueError`) or of ours.
"""

import logging
import time
from collections.abc import Mapping
from typing import Final

from confluent_kafka import KafkaError, KafkaException

from ottla.base.errors import ErrorCode
from ottla.base.types import TopicPartition

logger = logging.getLogger(__name__)

REPEATED_ERROR_S: Final = 10.0

REMEDIES: Final[Mapping[str, str]] = {
    "UNKNOWN_TOPIC_OR_PARTITION": "Create the topic first: Admin.create_topic(name, partitions, replication_factor).",
    "_UNKNOWN_TOPIC": "Create the topic first: Admin.create_topic(name, partitions, replication_factor).",
    "_UNKNOWN_PARTITION": "partitions_for(topic) lists a topic's partitions, Consumer.assignment() one's own.",
    "MESSAGE_TOO_LARGE": "Raise the topic's max.message.bytes and the producer's max.request.size, or send less.",
    "NOT_ENOUGH_REPLICAS": "Fewer replicas are in sync than min.insync.replicas: bring brokers back, then send again.",
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND": "The record is written but under-replicated; an idempotent retry is safe.",
    "TOPIC_ALREADY_EXISTS": "Use it, or delete it first: Admin.delete_topic(name).",
    "INVALID_PARTITIONS": "Partitions can only grow; for fewer, create another topic and copy.",
    "INVALID_REPLICATION_FACTOR": "Give at most as many replicas as there are brokers.",
    "COORDINATOR_NOT_AVAILABLE": "The broker cannot serve groups yet; assign() reads partitions without a group.",
    "KAFKA_STORAGE_ERROR": "A disk of the broker is full or failed: free space, lower retention.ms, look at its log.",
    "PRODUCER_FENCED": "Another producer uses this transactional.id: give each running instance its own.",
    "INVALID_PRODUCER_EPOCH": "Another producer uses this transactional.id: give each running instance its own.",
    "_FENCED": "Another producer uses this transactional.id: give each running instance its own.",
    "OFFSET_OUT_OF_RANGE": "Retention has deleted that offset: seek_to_beginning(), or set auto.offset.reset.",
    "_AUTO_OFFSET_RESET": "No such offset, and auto.offset.reset is none: seek() to where reading should begin.",
    "_MSG_TIMED_OUT": "No acknowledgement within delivery.timeout.ms: is the broker at bootstrap.servers reachable?",
    "_TIMED_OUT": "No answer in time: is the broker at bootstrap.servers reachable, and its advertised address too?",
    "_TRANSPORT": "The connection failed: is the broker at bootstrap.servers running?",
    "_ALL_BROKERS_DOWN": "No broker answers: check bootstrap.servers and the brokers' advertised addresses.",
    "_RESOLVE": "The host name in bootstrap.servers, or one that a broker advertises, does not resolve.",
    "_MAX_POLL_EXCEEDED": "poll() was not called for max.poll.interval.ms: raise it, or process smaller batches.",
    "_PURGE_QUEUE": "The producer was closed before the record could be sent: give close() more time.",
    "_STATE": "That call does not fit the client's state, such as a send outside of begin_transaction().",
}


class ClientError(Exception):
    """`code` is the name to compare with; `retriable`, `fatal` and `needs_abort` say what may be done next."""

    def __init__(
        self, code: str, message: str, *, retriable: bool = False, fatal: bool = False, needs_abort: bool = False
    ) -> None:
        remedy = REMEDIES.get(code)
        super().__init__(f"{code}: {message}. {remedy}" if remedy else f"{code}: {message}")
        self.code = code
        self.retriable = retriable
        self.fatal = fatal
        self.needs_abort = needs_abort


class ConfigError(ClientError, ValueError):
    """An option that is unknown, invalid, or contradicts another."""

    def __init__(self, message: str) -> None:
        super().__init__("INVALID_CONFIG", message)


class BufferFull(ClientError):
    """`buffer.memory` stayed full for `max.block.ms`: the broker is slower than the caller, or away."""

    def __init__(self, topic: str, max_block_ms: int) -> None:
        super().__init__(
            "BUFFER_FULL",
            f"no room for a record to {topic} within max.block.ms={max_block_ms}. Send more slowly, raise "
            "buffer.memory, or find out why the broker does not acknowledge",
            retriable=True,
        )


class ClosedError(ClientError):
    def __init__(self, what: str) -> None:
        super().__init__("CLOSED", f"this {what} was closed; open another one")


class DeserializationError(ClientError):
    """A record that the deserializer refuses. The position stays on it, so nothing is skipped unseen."""

    def __init__(self, partition: TopicPartition, offset: int, cause: Exception) -> None:
        super().__init__(
            "DESERIALIZATION",
            f"{partition}@{offset} cannot be deserialized ({type(cause).__name__}: {cause}). "
            f"Fix the deserializer, or skip the record with seek(partition, {offset + 1})",
        )
        self.partition = partition
        self.offset = offset


class PartialFailure(ClientError):
    """Several of the topics (or partitions) of one call failed: `failures` has each, the others were done."""

    def __init__(self, failures: Mapping[str, ClientError]) -> None:
        told = "; ".join(f"{name}: {error}" for name, error in failures.items())
        super().__init__("PARTIAL_FAILURE", f"{len(failures)} of the call's parts failed: {told}")
        self.failures = dict(failures)


def code_name(error: KafkaError) -> str:
    code = error.code()
    if code in ErrorCode.__members__.values():
        return ErrorCode(code).name
    return error.name()


def client_error(error: KafkaError | KafkaException, doing: str) -> ClientError:
    """Of librdkafka's error, in Kafka's words. `doing` completes "… while"."""
    told: KafkaError = error.args[0] if isinstance(error, KafkaException) else error
    return ClientError(
        code_name(told),
        f"{told.str().rstrip('.')} (while {doing})",
        retriable=told.retriable(),
        fatal=told.fatal(),
        needs_abort=told.txn_requires_abort(),
    )


class ErrorLog:
    """Logs librdkafka's errors that belong to no call, such as a lost connection: it goes on trying by itself.

    The same error at most once in a while, or a broker that is away would fill the log.
    """

    def __init__(self) -> None:
        self._silent_until: dict[str, float] = {}

    def __call__(self, error: KafkaError) -> None:
        code, now = code_name(error), time.monotonic()
        if now >= self._silent_until.get(code, now):
            self._silent_until[code] = now + REPEATED_ERROR_S
            logger.warning("%s", client_error(error, "talking to the cluster"))
