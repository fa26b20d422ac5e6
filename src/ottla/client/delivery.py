"""A record on its way: `send` returns a `Delivery`, the broker's answer settles it once.

Settled by the poll thread of the producer's lane, waited for by anyone. There is one per record, so it is lean: the
lock is shared by all, and an event exists only where somebody waits.
"""

import logging
import threading
from collections.abc import Callable
from typing import Final, TypeAlias

from confluent_kafka import KafkaError, Message

from ottla.base.types import NO_OFFSET
from ottla.client.errors import ClientError, client_error
from ottla.client.records import RecordMetadata

logger = logging.getLogger(__name__)

DeliveryCallback: TypeAlias = Callable[[RecordMetadata | None, ClientError | None], None]

SETTLING: Final = threading.Lock()  # Held for a few assignments, never while foreign code runs.


class Delivery:
    """Future-like: `get(timeout)` in seconds returns the `RecordMetadata` or raises the `ClientError`."""

    __slots__ = ("_callbacks", "_error", "_event", "_metadata")

    def __init__(self, on_delivery: DeliveryCallback | None = None) -> None:
        self._metadata: RecordMetadata | None = None
        self._error: ClientError | None = None
        self._event: threading.Event | None = None
        self._callbacks: tuple[DeliveryCallback, ...] = (on_delivery,) if on_delivery else ()

    def done(self) -> bool:
        return self._metadata is not None or self._error is not None

    def get(self, timeout: float | None = None) -> RecordMetadata:
        self._wait(timeout)
        if self._error is not None:
            raise self._error
        assert self._metadata is not None
        return self._metadata

    result = get

    def exception(self, timeout: float | None = None) -> ClientError | None:
        self._wait(timeout)
        return self._error

    def add_done_callback(self, callback: DeliveryCallback) -> None:
        """Runs in the producer's poll thread, or at once if the delivery is settled already."""
        with SETTLING:
            if not self.done():
                self._callbacks += (callback,)
                return
        self._tell(callback)

    def on_report(self, error: KafkaError | None, message: Message) -> None:
        """librdkafka's delivery report."""
        topic, partition = message.topic() or "", message.partition() or 0
        if error is not None:
            self._settle(None, client_error(error, f"sending to {topic}-{partition}"))
            return
        offset = message.offset()
        known_offset = offset if offset is not None and offset >= 0 else NO_OFFSET
        self._settle(RecordMetadata(topic, partition, known_offset, message.timestamp()[1]), None)

    def _settle(self, metadata: RecordMetadata | None, error: ClientError | None) -> None:
        with SETTLING:
            self._metadata, self._error = metadata, error
            event, callbacks = self._event, self._callbacks
        if event is not None:
            event.set()
        elif error is not None and not callbacks:
            logger.warning("delivery failed and nobody is waiting for it: %s", error)
        for callback in callbacks:
            self._tell(callback)

    def _tell(self, callback: DeliveryCallback) -> None:
        try:
            callback(self._metadata, self._error)
        except Exception:
            # The thread that called us serves every other record, too.
            logger.exception("a delivery callback raised")

    def _wait(self, timeout: float | None) -> None:
        with SETTLING:
            if self.done():
                return
            self._event = event = self._event or threading.Event()
        if not event.wait(timeout):
            raise TimeoutError(f"no acknowledgement within {timeout} s; the record may still be delivered")
