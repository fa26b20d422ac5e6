"""Full-speed load on a Kafka cluster: what `ottla bench`, the demo and the benchmarks send and read.

Five thousand messages a call go through librdkafka (see librdkafka.py), so that the client costs little beside the
broker it loads. Two rules hold. A figure is only returned when every message arrived: a delivery that failed, a hole
in the offsets read or a stall is a `LoadError`. And the clock runs from the first message to the last
acknowledgement (or message read), not over connecting.
"""

import ctypes
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
    "message.timeout.ms": int(STALL_SECONDS_MAX * 1000),
    "socket.nagle.disable": True,
    "log_level": 3,  # What matters arrives as an event; a broker that goes away is no news to the one who stopped it.
}
CONSUME_CONFIG: Final[ClientConfig] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "socket.nagle.disable": True,
    "log_level": 3,  # What matters arrives as an event; a broker that goes away is no news to the one who stopped it.
}

OnProgress = Callable[[int], None]


class LoadError(Exception):
    """Messages were refused, lost or read with holes: there is no figure to report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadResult:
    messages: int
    bytes: int
    seconds: float

    @property
    def messages_per_second(self) -> float:
        return self.messages / self.seconds

    @property
    def megabytes_per_second(self) -> float:
        return self.bytes / self.seconds / 1e6


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
        self, bootstrap: str, topic: str, *, config: ClientConfig | None = None, every_delivery: bool = False
    ) -> None:
        """`every_delivery` reports successes too, for `send_and_wait`; without it only failures cost an event."""
        settings = {**PRODUCE_CONFIG, "delivery.report.only.error": not every_delivery, **(config or {})}
        settings["bootstrap.servers"] = bootstrap
        self._library = librdkafka.library()
        events = librdkafka.EVENT_DELIVERY | librdkafka.EVENT_ERROR
        self._handle = librdkafka.Handle(librdkafka.PRODUCER, topic, settings, events=events)
        self._events: int = self._library.rd_kafka_queue_get_main(self._handle.client)
        self._latest_complaint = ""
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

    def send(self, block: MessageBlock, count: int, *, partition: int = 0, copy: bool = False) -> None:
        """Queues the block's first `count` messages, waiting for room. With `copy` its bytes may change afterwards."""
        flags = librdkafka.MESSAGE_COPY if copy else 0
        if block.partition_count:
            flags |= librdkafka.MESSAGE_OWN_PARTITION
        if not copy and block not in self._blocks:
            self._blocks.append(block)
        queued = 0
        while queued < count:
            start = ctypes.addressof(block.messages) + queued * ctypes.sizeof(Message)
            queued += self._library.rd_kafka_produce_batch(self._handle.topic, partition, flags, start, count - queued)
            if queued < count:
                err = block.messages[queued].err
                if err != librdkafka.ERROR_QUEUE_FULL:
                    raise LoadError(f"message refused: {librdkafka.error_text(err)}")
                self._take_event(timeout_ms=1)
        self.sent_count += count

    def send_and_wait(self, block: MessageBlock, *, partition: int = 0) -> None:
        """One message, and its acknowledgement before this returns."""
        self.send(block, 1, partition=partition)
        deadline = time.monotonic() + STALL_SECONDS_MAX
        while not self._take_event(timeout_ms=1000):
            if time.monotonic() > deadline:
                raise LoadError(f"no acknowledgement in {STALL_SECONDS_MAX:.0f} s. {self._latest_complaint}")

    def wait_delivered(self) -> None:
        """Until every message is acknowledged. The client's own message time-out bounds it."""
        while self.undelivered_count:
            self._library.rd_kafka_flush(self._handle.client, 100)
            while self._take_event(timeout_ms=0):
                pass

    def _take_event(self, *, timeout_ms: int) -> int:
        """Handles one event of the client's and returns how many messages it acknowledges."""
        event: int | None = self._library.rd_kafka_queue_poll(self._events, timeout_ms)
        if not event:
            return 0
        try:
            err: int = self._library.rd_kafka_event_error(event)
            if self._library.rd_kafka_event_type(event) != librdkafka.EVENT_DELIVERY:
                text: bytes | None = self._library.rd_kafka_event_error_string(event)
                self._latest_complaint = (text or b"").decode()  # A lost connection heals, or deliveries fail below.
                return 0
            count = int(self._library.rd_kafka_event_message_count(event))
            if err:
                raise LoadError(
                    f"{count} messages not delivered: {librdkafka.error_text(err)}. {self._latest_complaint}"
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


def produce_load(
    bootstrap: str,
    topic: str,
    *,
    message_bytes: int = 1024,
    count: int,
    partition: int | None = 0,
    payloads: Sequence[bytes] | None = None,
    config: ClientConfig | None = None,
    on_progress: OnProgress | None = None,
) -> LoadResult:
    """Sends `count` messages, of `message_bytes` each or cycling through `payloads`; `partition` None takes turns."""
    with LoadProducer(bootstrap, topic, config=config) as producer:
        partition_count = producer.partition_count()
        turns = partition_count if partition is None else 1
        block = MessageBlock(
            payloads or [b"o" * message_bytes],
            length=max(
                turns, MESSAGES_PER_CALL // turns * turns
            ),  # Whole turns, so that every partition gets its share.
            partition_count=partition_count if partition is None else None,
        )
        sent_bytes = 0
        started = time.perf_counter()
        while producer.sent_count < count:
            share = min(block.length, count - producer.sent_count)
            producer.send(block, share, partition=partition or 0)
            sent_bytes += block.bytes_of_first(share)
            if on_progress is not None:
                on_progress(producer.sent_count - producer.undelivered_count)
        producer.wait_delivered()
        seconds = time.perf_counter() - started
        if on_progress is not None:
            on_progress(count)
    return LoadResult(messages=count, bytes=sent_bytes, seconds=seconds)


def consume_load(
    bootstrap: str,
    topic: str,
    *,
    count: int,
    partition: int | None = 0,
    offset: int = 0,
    config: ClientConfig | None = None,
    stall_seconds_max: float = STALL_SECONDS_MAX,
    on_progress: OnProgress | None = None,
) -> LoadResult:
    """Reads `count` messages of one partition, whose offsets must be dense, or of all partitions (`partition` None).

    A load's messages are of one size: bytes are counted by the first message of each call.
    """
    with LoadConsumer(bootstrap, topic, config=config) as consumer:
        partition_count = consumer.partition_count()
        tally = ReadTally(next_offset=offset if partition is not None else None)
        started = time.perf_counter()
        for each in range(partition_count) if partition is None else (partition,):
            consumer.start(each, offset)
        last_arrival = started
        read_ms = min(1000, int(stall_seconds_max * 1000))
        while tally.messages < count:
            addresses = consumer.read(limit=count - tally.messages, timeout_ms=read_ms)
            now = time.perf_counter()
            if addresses:
                last_arrival = now
                tally.take(addresses)
                consumer.release()
                if on_progress is not None:
                    on_progress(tally.messages)
            elif now - last_arrival > stall_seconds_max:
                raise LoadError(f"{tally.messages} of {count} messages, then none for {stall_seconds_max:g} s")
        seconds = time.perf_counter() - started
    return LoadResult(messages=tally.messages, bytes=tally.bytes, seconds=seconds)


@dataclass(slots=True, kw_only=True)
class ReadTally:
    """What was read so far. `next_offset` is None when several partitions arrive mixed."""

    next_offset: int | None
    messages: int = 0
    bytes: int = 0

    def take(self, addresses: list[int]) -> None:
        """Judges one call's messages: by the ends of a dense run, or one by one where partitions mix."""
        first, last = message_at(addresses[0]), message_at(addresses[-1])
        looked_at = (first, last) if self.next_offset is not None else map(message_at, addresses)
        for message in looked_at:
            if message.err:
                raise LoadError(f"partition {message.partition}: {librdkafka.error_text(message.err)}")
        if self.next_offset is not None:
            if first.offset != self.next_offset or last.offset != first.offset + len(addresses) - 1:
                raise LoadError(
                    f"{len(addresses)} messages read at offset {self.next_offset} hold {first.offset} to {last.offset}"
                )
            self.next_offset = last.offset + 1
        self.messages += len(addresses)
        self.bytes += first.payload_bytes * len(addresses)
