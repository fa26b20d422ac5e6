"""A producer and a consumer that move thousands of messages a call, and know when one went missing.

They are librdkafka (see librdkafka.py) with as little Python around it as can be: messages are C structures, prepared
once and sent many times, or looked at where librdkafka read them. Made for load and for measuring, not for a program
that cares what a message says.
"""

import ctypes
import time
from collections import deque
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Final, Self

from ottla.client import librdkafka
from ottla.client.librdkafka import ClientConfig, Message

MESSAGES_PER_CALL: Final = 5_000
STALL_SECONDS_MAX: Final = 30.0  # Without an acknowledgement or a message for so long, a load has failed.

PRODUCE_CONFIG: Final[ClientConfig] = {
    "acks": 1,
    "linger.ms": 5,
    "batch.size": 1_000_000,
    "batch.num.messages": 100_000,
    "queue.buffering.max.messages": 500_000,
    "socket.nagle.disable": True,
    "log_level": 0,  # What matters is an event, and ends in a LoadError.
}
CONSUME_CONFIG: Final[ClientConfig] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "queued.min.messages": 1_000_000,
    "fetch.queue.backoff.ms": 1,  # By default a reader that catches up with its full queue waits for a second.
    "socket.nagle.disable": True,
    "log_level": 0,
}


class LoadError(Exception):
    """Messages were refused, lost or read with holes: there is no figure to report."""


class MessageBlock:
    """Messages laid out as C structures once and sent many times: message i carries payload i mod their count."""

    def __init__(self, payloads: Sequence[bytes], *, length: int, partition_count: int | None = None) -> None:
        self.length = length
        self.payload_bytes = [len(payload) for payload in payloads]
        self.partition_count = partition_count
        # librdkafka reads these bytes until delivery: whoever holds the block keeps them alive.
        self._buffers = [ctypes.create_string_buffer(payload, len(payload) or 1) for payload in payloads]
        self.messages = (Message * length)()
        addresses = [ctypes.addressof(buffer) for buffer in self._buffers]
        for index, message in enumerate(self.messages):
            message.payload = addresses[index % len(addresses)]
            message.payload_bytes = self.payload_bytes[index % len(addresses)]
            message.partition = index % partition_count if partition_count else 0

    def overwrite(self, payload: int, start: bytes) -> None:
        """Puts other first bytes into a payload: for blocks sent with `copy`, which no one reads afterwards."""
        ctypes.memmove(self._buffers[payload], start, len(start))

    def bytes_of_first(self, count: int) -> int:
        whole, rest = divmod(count, len(self.payload_bytes))
        return whole * sum(self.payload_bytes) + sum(self.payload_bytes[:rest])


class LoadProducer:
    """A producer of message blocks that counts what was delivered, and raises for what was not."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        *,
        config: ClientConfig | None = None,
        every_delivery: bool = False,
        stall_seconds_max: float = STALL_SECONDS_MAX,
    ) -> None:
        """`every_delivery` reports successes too, for `send_and_wait`; without it only failures cost an event."""
        settings = {**PRODUCE_CONFIG, "delivery.report.only.error": not every_delivery, **(config or {})}
        settings["bootstrap.servers"] = bootstrap
        self._library = librdkafka.library()
        events = librdkafka.EVENT_DELIVERY | librdkafka.EVENT_ERROR
        self._handle = librdkafka.Handle(librdkafka.PRODUCER, topic, settings, events=events)
        self._events: int = self._library.rd_kafka_queue_get_main(self._handle.client)
        self.latest_complaint = ""
        self._stall_seconds_max = stall_seconds_max
        self._blocks: list[MessageBlock] = []  # Kept while librdkafka may still read their bytes.
        self.sent_count = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def partition_count(self) -> int:
        return self._handle.partition_count(timeout_seconds=STALL_SECONDS_MAX)

    @property
    def undelivered_count(self) -> int:
        return int(self._library.rd_kafka_outq_len(self._handle.client))

    @property
    def acknowledged_count(self) -> int:
        return self.sent_count - self.undelivered_count

    def send(self, block: MessageBlock, count: int, *, partition: int = 0, copy: bool = False) -> None:
        """Queues the block's first `count` messages, waiting for room. With `copy` its bytes may change afterwards."""
        flags = librdkafka.MESSAGE_COPY if copy else 0
        if block.partition_count:
            flags |= librdkafka.MESSAGE_OWN_PARTITION
        if not copy and block not in self._blocks:
            self._blocks.append(block)
        queued = 0
        patience = _Patience(self, self._stall_seconds_max)
        while queued < count:
            start = ctypes.addressof(block.messages) + queued * ctypes.sizeof(Message)
            taken = self._library.rd_kafka_produce_batch(self._handle.topic, partition, flags, start, count - queued)
            queued += taken
            self.sent_count += taken
            if queued < count:
                err = block.messages[queued].err
                if err != librdkafka.ERROR_QUEUE_FULL:
                    raise LoadError(f"message refused: {librdkafka.error_text(err)}")
                self._take_event(timeout_ms=1)
                patience.check()

    def send_and_wait(self, block: MessageBlock, *, partition: int = 0) -> None:
        """One message, and its acknowledgement before this returns."""
        self.send(block, 1, partition=partition)
        patience = _Patience(self, self._stall_seconds_max)
        while not self._take_event(timeout_ms=100):
            patience.check()

    def wait_delivered(self) -> None:
        """Until every message is acknowledged."""
        patience = _Patience(self, self._stall_seconds_max)
        while self.undelivered_count:
            self._library.rd_kafka_flush(self._handle.client, 100)
            while self._take_event(timeout_ms=0) is not None:
                pass
            patience.check()

    def _take_event(self, *, timeout_ms: int) -> int | None:
        """Handles one event, if there is any, and returns how many messages it acknowledges."""
        event: int | None = self._library.rd_kafka_queue_poll(self._events, timeout_ms)
        if not event:
            return None
        try:
            err: int = self._library.rd_kafka_event_error(event)
            if self._library.rd_kafka_event_type(event) != librdkafka.EVENT_DELIVERY:
                text: bytes | None = self._library.rd_kafka_event_error_string(event)
                self.latest_complaint = (text or b"").decode()  # A lost connection heals, or deliveries fail below.
                return 0
            count = int(self._library.rd_kafka_event_message_count(event))
            if err:
                raise LoadError(
                    f"{count} messages not delivered: {librdkafka.error_text(err)}. {self.latest_complaint}"
                )
            return count
        finally:
            self._library.rd_kafka_event_destroy(event)

    def close(self) -> None:
        if self._events:
            self._library.rd_kafka_purge(self._handle.client, 0x3)  # A failed load must not keep us waiting here.
            self._library.rd_kafka_queue_destroy(self._events)
            self._events = 0
            self._handle.close()


class _Patience:
    """Lets a producer wait as long as acknowledgements come, however slowly."""

    def __init__(self, producer: LoadProducer, seconds_max: float) -> None:
        self._producer = producer
        self._seconds_max = seconds_max
        self._acknowledged_count = -1
        self._deadline = 0.0

    def check(self) -> None:
        now, acknowledged_count = time.monotonic(), self._producer.acknowledged_count
        if acknowledged_count > self._acknowledged_count:
            self._acknowledged_count, self._deadline = acknowledged_count, now + self._seconds_max
        elif now > self._deadline:
            raise LoadError(f"no acknowledgement in {self._seconds_max:g} s. {self._producer.latest_complaint}")


class LoadConsumer:
    """Reads partitions from an offset on, thousands of messages a call. No group, no commits.

    What `read` returns are addresses of librdkafka's messages, for `message_at` and `payload_at`, and good until
    `release` gives them all back.
    """

    def __init__(self, bootstrap: str, topic: str, *, config: ClientConfig | None = None) -> None:
        settings = {**CONSUME_CONFIG, **(config or {}), "bootstrap.servers": bootstrap}
        self._library = librdkafka.library()
        self._destroy = librdkafka.message_destroyer()
        self._handle = librdkafka.Handle(librdkafka.CONSUMER, topic, settings)
        self._queue: int = self._library.rd_kafka_queue_new(self._handle.client)
        self._addresses = (ctypes.c_void_p * MESSAGES_PER_CALL)()
        self._partitions: list[int] = []
        self._held: list[int] = []  # Read and not released: librdkafka's destroy would wait for them for ever.

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def partition_count(self) -> int:
        return self._handle.partition_count(timeout_seconds=STALL_SECONDS_MAX)

    def start(self, partition: int, offset: int) -> None:
        err = self._library.rd_kafka_consume_start_queue(self._handle.topic, partition, offset, self._queue)
        if err:
            raise LoadError(librdkafka.error_text(self._library.rd_kafka_last_error()))
        self._partitions.append(partition)

    def read(self, *, limit: int = MESSAGES_PER_CALL, timeout_ms: int) -> list[int]:
        """Up to `limit` messages; fewer only when the time is over. The way to read fast."""
        count = self._library.rd_kafka_consume_batch_queue(
            self._queue, timeout_ms, self._addresses, min(limit, MESSAGES_PER_CALL)
        )
        if count < 0:
            raise LoadError(librdkafka.error_text(self._library.rd_kafka_last_error()))
        addresses: list[Any] = self._addresses[:count]
        self._held += addresses
        return addresses

    def read_arrived(self, *, timeout_ms: int) -> list[int]:
        """Whatever is there as soon as anything is. The way to read promptly."""
        first = self.read(limit=1, timeout_ms=timeout_ms)
        return first + self.read(timeout_ms=0) if first else first

    def release(self) -> None:
        held, self._held = self._held, []
        deque(map(self._destroy, held), maxlen=0)

    def close(self) -> None:
        if self._queue:
            self.release()
            for partition in self._partitions:
                self._library.rd_kafka_consume_stop(self._handle.topic, partition)
            self._library.rd_kafka_queue_destroy(self._queue)
            self._queue = 0
            self._handle.close()


def message_at(address: int) -> Message:
    return Message.from_address(address)


def is_partition_end(address: int) -> bool:
    """With `enable.partition.eof`, the end of a partition arrives as a message of its own."""
    return bool(Message.from_address(address).err == librdkafka.ERROR_PARTITION_END)


def payload_at(address: int, *, first_bytes: int | None = None) -> bytes:
    message = Message.from_address(address)
    size = message.payload_bytes if first_bytes is None else min(first_bytes, message.payload_bytes)
    return ctypes.string_at(message.payload, size)
