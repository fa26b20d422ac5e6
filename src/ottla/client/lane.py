"""One librdkafka producer and the daemon thread that serves its callbacks.

librdkafka fixes `acks` per producer, so a `Producer` owns a lane for each `acks` value that is used: order and
idempotence hold within a lane. Only this file calls librdkafka's `produce`, `poll` and `flush`. Waiting is in
slices, so that `close` is prompt.
"""

import logging
import threading
import time
from typing import Any, Final

import confluent_kafka
from confluent_kafka import KafkaException

from ottla.client.delivery import Delivery
from ottla.client.errors import BufferFull, ClientError, ErrorLog, client_error
from ottla.client.options import Settings, opened
from ottla.client.records import header_list

logger = logging.getLogger(__name__)

POLL_SLICE_S: Final = 0.1  # Longest a closing lane waits for its thread.
PURGE_S_MAX: Final = 1.0
PARTITION_ANY: Final = -1
TIMESTAMP_NOW: Final = 0


class Lane:
    def __init__(self, chosen: Settings) -> None:
        self._errors = ErrorLog()
        self.kafka = opened(confluent_kafka.Producer, chosen, error_cb=self._errors.hear)
        self._max_block_ms = chosen.integer("max.block.ms")
        self._room = threading.Event()
        self._flushing = threading.Condition()
        self._wants_flush = False
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._serve, name=f"ottla-acks-{chosen.kafka['acks']}", daemon=True)
        self._thread.start()

    def produce(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        partition: int,
        headers: Any,
        timestamp_ms: int,
        delivery: Delivery,
        *,
        wait: bool = True,
    ) -> None:
        """Queues the record. While the buffer is full it waits up to `max.block.ms`, or not at all."""
        deadline = None
        while True:
            try:
                self.kafka.produce(
                    topic,
                    value,
                    key,
                    partition,
                    on_delivery=delivery.on_report,
                    timestamp=timestamp_ms,
                    headers=header_list(headers) if headers else None,
                )
                return
            except BufferError:
                now = time.monotonic()
                deadline = deadline or now + self._max_block_ms / 1000
                if not wait or now >= deadline:
                    raise BufferFull(topic, self._max_block_ms) from None
                self._room.clear()
                self._room.wait(min(POLL_SLICE_S, deadline - now))
            except KafkaException as error:
                raise client_error(error, f"sending to {topic}") from None

    def flush(self, deadline: float | None) -> int:
        """Waits until all is settled or the deadline (monotonic) passes; returns how many records are not."""
        if threading.current_thread() is self._thread:
            raise ClientError("_STATE", "flush() in a delivery callback would wait for itself")
        with self._flushing:
            self._wants_flush = True
            try:
                while len(self.kafka):
                    left_s = POLL_SLICE_S if deadline is None else min(POLL_SLICE_S, deadline - time.monotonic())
                    if left_s <= 0:
                        break
                    self._flushing.wait(left_s)
            finally:
                self._wants_flush = False
            return len(self.kafka)

    def close(self, deadline: float | None) -> None:
        if threading.current_thread() is self._thread:
            # In a callback, or collected as garbage there: this thread has yet to serve what is flushed.
            threading.Thread(target=self.close, args=(deadline,), name="ottla-closing", daemon=True).start()
            return
        lost = self.flush(deadline)
        if lost:
            logger.warning("closed with %d records unsent or unacknowledged", lost)
            self.kafka.purge()
            self.flush(time.monotonic() + PURGE_S_MAX)
        self._closing.set()
        self._thread.join()

    def _serve(self) -> None:
        """The thread. It alone serves callbacks, so an interrupt of the main thread never falls into one."""
        while not self._closing.is_set():
            # librdkafka's flush is a poll that ignores linger.ms.
            serve = self.kafka.flush if self._wants_flush else self.kafka.poll
            try:
                serve(POLL_SLICE_S)
            except KafkaException as error:
                # Fatal, such as fenced: callers learn it from their own next call. What is in flight is still settled.
                logger.error("%s", client_error(error, "serving the producer"))
            self._errors.tell()
            self._room.set()
            with self._flushing:
                self._flushing.notify_all()
