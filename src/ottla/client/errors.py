"""What the SDK raises: `ClientError`, with Kafka's name for what happened and a sentence that says what to do.

Names are Kafka's (`MESSAGE_TOO_LARGE`), also where librdkafka has its own; what only librdkafka knows keeps its
leading underscore (`_MSG_TIMED_OUT`). Anything else that comes out of the SDK is a bug of the caller
(`TypeError`, `ValueError`) or of ours.
"""

import logging
import time
from collections import deque
from collections.abc import Mapping
from typing import Final

from confluent_kafka import KafkaError, KafkaException

from ottla.base.errors import ErrorCode
from ottla.base.types import TopicPartition
from ottla.client.remedies import REMEDIES

logger = logging.getLogger(__name__)

REPEATED_ERROR_S: Final = 10.0
HEARD_ERRORS_MAX: Final = 100
# A broker that is gone for a moment, or a role that moves: librdkafka says `retriable` of its transactions alone.
RETRIABLE: Final = frozenset({
    "_TRANSPORT", "_ALL_BROKERS_DOWN", "_WAIT_COORD", "_WAIT_CACHE", "_TIMED_OUT", "NETWORK_EXCEPTION", "REQUEST_TIMED_OUT",
    "COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR", "NOT_LEADER_OR_FOLLOWER",
    "LEADER_NOT_AVAILABLE", "NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS_AFTER_APPEND", "KAFKA_STORAGE_ERROR",
})  # fmt: skip


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
    code = code_name(told)
    return ClientError(
        code,
        f"{told.str().rstrip('.')} (while {doing})",
        retriable=told.retriable() or code in RETRIABLE,
        fatal=told.fatal(),
        needs_abort=told.txn_requires_abort(),
    )


def coded_error(code: int, doing: str, words: str | None = None) -> ClientError:
    """Of an error code in a response that was read without librdkafka."""
    name = ErrorCode(code).name if code in ErrorCode.__members__.values() else f"error {code}"
    return ClientError(name, f"{words or 'the broker refuses'} (while {doing})")


class ErrorLog:
    """Logs librdkafka's errors that belong to no call, such as a lost connection: it goes on trying by itself.

    The same error at most once in a while, or a broker that is away would fill the log. `hear` is librdkafka's error
    callback and not Python code on purpose: it is called inside of `poll()`, where confluent-kafka loses an exception
    that Python code raises there, and Ctrl-C raises one anywhere in Python code. So is `hear_commit`, which is given
    an error (or None) and the partitions of a commit that nobody waits for. `tell` logs what was heard.
    """

    def __init__(self) -> None:
        self._heard: deque[KafkaError] = deque(maxlen=HEARD_ERRORS_MAX)
        self._commits: dict[KafkaError | None, object] = {}
        self._silent_until: dict[str, float] = {}
        self.hear = self._heard.append
        self.hear_commit = self._commits.__setitem__

    def tell(self) -> None:
        while self._commits:
            failure, _ = self._commits.popitem()
            if failure is not None and failure.code() != KafkaError._NO_OFFSET:
                logger.warning("a commit failed: %s", client_error(failure, "committing"))
        while self._heard:
            error = self._heard.popleft()
            code, now = code_name(error), time.monotonic()
            if now >= self._silent_until.get(code, now):
                self._silent_until[code] = now + REPEATED_ERROR_S
                logger.warning("%s", client_error(error, "talking to the cluster"))
