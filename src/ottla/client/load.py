"""Full-speed load on a Kafka cluster: what `ottla bench`, the demo and the benchmarks send and read.

Two rules hold. A figure is only returned when every message arrived: a delivery that failed, a hole in the offsets
read or a stall is a `LoadError`. And the clock runs from the first message to the last acknowledgement (or message
read), not over connecting.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ottla.client import librdkafka
from ottla.client.bulk import (
    MESSAGES_PER_CALL,
    STALL_SECONDS_MAX,
    LoadConsumer,
    LoadError,
    LoadProducer,
    MessageBlock,
    message_at,
)
from ottla.client.librdkafka import ClientConfig

__all__ = ["LoadError", "LoadResult", "ReadTally", "consume_load", "produce_load"]

OnProgress = Callable[[int], None]


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
