"""Records through a librdkafka producer, and the account of them.

The client is librdkafka's own, with the SDK's defaults: a key lands where every other client puts it, idempotence is on
unless `acks` gives it up. A `Delivery` object for each line of a file would cost more than sending it.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from confluent_kafka import KafkaException, Producer

from ottla.cli.connection import REQUEST_TIMEOUT_S
from ottla.cli.deliveries import Deliveries
from ottla.cli.errors import NO_ANSWER, OPERATION_FAILED, UNREACHABLE, Failure, refused
from ottla.cli.output import counted, number, plain, print_json, rate_text, say, size_text, stderr, table
from ottla.cli.pace import Pace
from ottla.cli.record_input import OutgoingRecord
from ottla.client.errors import client_error, code_name

PARTITION_BY_KEY: Final = -1
TIMESTAMP_NOW: Final = 0
SENDS_PER_POLL: Final = 1_000
BATCH_BYTES: Final = 1_000_000  # For files, not for latency: the larger, the better they compress.
FLUSH_SLICE_S: Final = 0.2  # Between slices Python gets to see a Ctrl-C.
CREATION_TIMEOUT_S: Final = 2.0  # Kafka says "unknown" until the topic that it is creating has a leader.
CREATION_POLL_S: Final = 0.05
PARTITIONS_SHOWN_MAX: Final = 16


def producer_options(*, compression: str, acks: str) -> dict[str, object]:
    return {
        "acks": acks,
        "compression.type": compression,
        "batch.size": BATCH_BYTES,
        "delivery.timeout.ms": 30_000,
        # How large a record may be is the topic's `max.message.bytes`; the client's own limit would hide it.
        "max.request.size": 256 * 1024 * 1024,
    }


def require_topic(producer: Producer, topic: str) -> None:
    """Fails in seconds where the producer would wait half a minute. A broker that creates topics by itself does so."""
    deadline = time.monotonic() + CREATION_TIMEOUT_S
    while True:
        error = producer.list_topics(topic, timeout=REQUEST_TIMEOUT_S).topics[topic].error
        if error is None:
            return
        if time.monotonic() > deadline:
            raise client_error(error, f"looking for {topic}")
        time.sleep(CREATION_POLL_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class Extras:
    """What the command line adds to every record."""

    headers: tuple[tuple[str, str], ...] = ()
    partition: int | None = None


class Sending:
    def __init__(self, producer: Producer, topic: str, *, extras: Extras, pace: Pace | None) -> None:
        self.topic = topic
        self.deliveries = Deliveries()
        self._producer = producer
        self._extras = extras
        self._pace = pace
        self._sent = 0

    def send_all(self, records: Iterable[OutgoingRecord], *, count_max: int | None) -> None:
        for record in islice(records, count_max):
            if self._pace is not None:
                self._pace.wait()
            self._send(record)
            self._sent += 1
            if self._sent % SENDS_PER_POLL == 0 or self._pace is not None:
                self._producer.poll(0)

    def _send(self, record: OutgoingRecord) -> None:
        partition = self._extras.partition if record.partition is None else record.partition
        while True:
            try:
                self._producer.produce(
                    self.topic,
                    key=record.key,
                    value=record.value,
                    headers=[*record.headers, *self._extras.headers],
                    partition=PARTITION_BY_KEY if partition is None else partition,
                    timestamp=TIMESTAMP_NOW if record.timestamp_ms is None else record.timestamp_ms,
                    on_delivery=self.deliveries.report,
                )
            except BufferError:  # The queue is full: deliveries make room.
                self._producer.poll(FLUSH_SLICE_S)
            except KafkaException as exception:
                raise client_error(exception, f"sending to {self.topic}-{partition}") from exception
            else:
                return

    def wait_delivered(self) -> None:
        """The producer's message time-out bounds it."""
        while self._producer.flush(FLUSH_SLICE_S):
            pass


def show_outcome(sending: Sending, *, seconds: float, as_json: bool) -> None:
    """Raises `Failure` where a record was not delivered."""
    deliveries = sending.deliveries
    if as_json:
        print_json(
            {
                "topic": sending.topic,
                "records": deliveries.records,
                "bytes": deliveries.value_bytes,
                "failed": deliveries.failed,
                "seconds": round(seconds, 6),
                "partitions": deliveries.documents(),
            }
        )
    else:
        told = f"{counted(deliveries.records, 'record')}, {size_text(deliveries.value_bytes)}, to {sending.topic}"
        say(f"{told} in {seconds:.2f} s ({rate_text(deliveries.records, seconds)})")
        if 1 < len(deliveries.partitions) <= PARTITIONS_SHOWN_MAX:
            stderr().print(deliveries_table(deliveries))
    if deliveries.first_error is not None:
        code = code_name(deliveries.first_error)
        raise Failure(
            f"{counted(deliveries.failed, 'record')} not delivered: {refused(code, deliveries.first_error.str())}",
            exit_code=UNREACHABLE if code in NO_ANSWER else OPERATION_FAILED,
        )


def deliveries_table(deliveries: Deliveries) -> Any:
    return table(
        [">partition", ">records", ">first offset", ">last offset"],
        [
            (plain(partition), number(each.records), number(each.first_offset), number(each.last_offset))
            for partition, each in sorted(deliveries.partitions.items())
        ],
    )
