"""Sends records. Thread-safe; one producer per process serves all its threads.

`send` queues and returns at once; batches leave after `linger.ms` or `batch.size`. `acks` may be given per call: each
value has a lane of its own (see lane.py), so order holds among records sent with the same `acks`.
"""

import logging
import threading
import time
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final, Self, overload

from ottla.client.delivery import Delivery, DeliveryCallback
from ottla.client.durability import InSyncMinimums
from ottla.client.errors import ClosedError, ConfigError
from ottla.client.lane import PARTITION_ANY, TIMESTAMP_NOW, Lane
from ottla.client.options import ClientKind, as_acks, settings
from ottla.client.partition_counts import PartitionCounts
from ottla.client.partitioners import BY_NAME, Partitioner
from ottla.client.records import Headers, Offsets, ProducerRecord
from ottla.client.serializers import Serializer, to_bytes
from ottla.client.transactions import GroupMetadata, Transactions

logger = logging.getLogger(__name__)

EXIT_FLUSH_S: Final = 5.0  # A program that forgot close() still gets its records out, if a broker is there.


class Producer:
    """`Producer({"bootstrap.servers": "…", "linger.ms": 10})` or `Producer(bootstrap_servers="…", linger_ms=10)`."""

    def __init__(
        self,
        config: Mapping[str, object] | None = None,
        *,
        key_serializer: Serializer = to_bytes,
        value_serializer: Serializer = to_bytes,
        partitioner: Partitioner | str | None = None,
        **options: object,
    ) -> None:
        self._partitioner, option = partitioner_of(partitioner or (config or {}).get("partitioner"))
        self._settings = settings(ClientKind.PRODUCER, config, **{**options, "partitioner": option})
        self._acks = str(self._settings.kafka["acks"])
        self.max_block_s = self._settings.integer("max.block.ms") / 1000
        self._serialize_key = key_serializer
        self._serialize_value = value_serializer
        self._opening = threading.Lock()
        self._lanes = {self._acks: Lane(self._settings)}
        self._main = self._lanes[self._acks]
        self._counts = PartitionCounts(self._main.kafka, self._settings)
        self._minimums = InSyncMinimums(self._settings)
        self._transactions = Transactions(self._main.kafka, self._settings)
        self._closed = False
        self._at_exit = weakref.finalize(self, close_lanes, self._lanes, EXIT_FLUSH_S)

    @overload
    def send(self, record: ProducerRecord, on_delivery: DeliveryCallback | None = None, /) -> Delivery: ...
    @overload
    def send(
        self,
        topic: str,
        value: object = None,
        key: object = None,
        *,
        partition: int | Partitioner | None = None,
        headers: Headers | None = None,
        timestamp_ms: int | None = None,
        acks: int | str | None = None,
        min_insync_replicas: int | None = None,
        on_delivery: DeliveryCallback | None = None,
    ) -> Delivery: ...
    def send(
        self,
        topic: str | ProducerRecord,
        value: object = None,
        key: object = None,
        *,
        partition: int | Partitioner | None = None,
        headers: Headers | None = None,
        timestamp_ms: int | None = None,
        acks: int | str | None = None,
        min_insync_replicas: int | None = None,
        on_delivery: DeliveryCallback | None = None,
    ) -> Delivery:
        """Queues a record; `.get()` on what it returns waits for the acknowledgement.

        `min_insync_replicas` refuses the record unless the topic itself demands that many (looked up once a topic):
        how many replicas confirm is the topic's setting, no producer can raise it. `on_delivery` gets
        (metadata, error), one of them None, in the producer's own thread.
        """
        if isinstance(topic, ProducerRecord):
            record, callback = topic, value
            if not (callback is None or callable(callback)):
                raise TypeError("after a ProducerRecord comes the delivery callback, or nothing")
            return self.send(
                record.topic,
                record.value,
                record.key,
                partition=record.partition,
                headers=record.headers,
                timestamp_ms=record.timestamp_ms,
                on_delivery=callback,
            )
        if min_insync_replicas is not None:
            self._check_minimum(topic, acks, min_insync_replicas)
        delivery = Delivery(on_delivery)
        self.queue(topic, value, key, partition, headers, timestamp_ms, acks, delivery)
        return delivery

    produce = send

    def queue(
        self,
        topic: str,
        value: object,
        key: object,
        partition: int | Partitioner | None,
        headers: Headers | None,
        timestamp_ms: int | None,
        acks: int | str | None,
        delivery: Delivery,
        *,
        wait: bool = True,
    ) -> None:
        """`send` with a delivery of the caller's. Without `wait`, a full buffer is `BufferFull` at once."""
        key_bytes, value_bytes = self._serialize_key(key), self._serialize_value(value)
        chosen = self._partitioner if partition is None else partition
        if callable(chosen):
            chosen = chosen(topic, key_bytes, value_bytes, self._counts.of(topic))
        self._lane(acks).produce(
            topic,
            value_bytes,
            key_bytes,
            PARTITION_ANY if chosen is None else chosen,
            headers,
            TIMESTAMP_NOW if timestamp_ms is None else timestamp_ms,
            delivery,
            wait=wait,
        )

    def is_prepared(
        self, topic: str, partition: int | Partitioner | None, acks: int | str | None, minimum: int | None
    ) -> bool:
        """Whether `queue` with these arguments would ask the cluster for nothing, so that it cannot block."""
        has_count = not callable(partition or self._partitioner) or self._counts.is_known(topic)
        has_lane = acks is None or as_acks("acks", acks) in self._lanes
        return has_count and has_lane and minimum is None

    def prepare(
        self, topic: str, partition: int | Partitioner | None, acks: int | str | None, minimum: int | None
    ) -> None:
        if minimum is not None:
            self._check_minimum(topic, acks, minimum)
        if callable(partition or self._partitioner):
            self._counts.of(topic)
        self._lane(acks)

    def _check_minimum(self, topic: str, acks: int | str | None, minimum: int) -> None:
        self._minimums.check(topic, minimum, acks=self._acks if acks is None else as_acks("acks", acks))

    def _require_open(self) -> None:
        if self._closed:
            raise ClosedError("producer")

    def _lane(self, acks: int | str | None) -> Lane:
        self._require_open()
        if acks is None:
            return self._main
        name = as_acks("acks", acks)
        lane = self._lanes.get(name)
        return lane or self._open_lane(name)

    def _open_lane(self, acks: str) -> Lane:
        if "transactional.id" in self._settings.kafka:
            raise ConfigError(f"acks={acks} cannot be part of a transaction: send with acks='all'")
        with self._opening:
            if acks not in self._lanes:
                # Unset, so that each lane is idempotent where its own options allow it.
                self._lanes[acks] = Lane(self._settings.with_options(acks=acks, enable_idempotence=None))
        return self._lanes[acks]

    def partitions_for(self, topic: str) -> list[int]:
        return list(range(self._counts.of(topic)))

    def flush(self, timeout_s: float | None = None) -> None:
        """Waits until every record sent before is acknowledged or has failed, or raises `TimeoutError`."""
        deadline = deadline_after(timeout_s)
        unsettled = sum(lane.flush(deadline) for lane in list(self._lanes.values()))
        if unsettled:
            raise TimeoutError(f"{unsettled} records are not acknowledged after {timeout_s} s")

    def close(self, timeout_s: float | None = None) -> None:
        """Flushes, then ends the threads. What is not out after `timeout_s` fails with `_PURGE_QUEUE`."""
        self._closed = True
        self._at_exit.detach()
        close_lanes(self._lanes, timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def init_transactions(self, timeout_s: float | None = None) -> None:
        """Fences older producers of this `transactional.id`. `begin_transaction` does it where it was not done."""
        self._transactions.init(timeout_s)

    def begin_transaction(self) -> None:
        self._require_open()
        self._transactions.begin()

    def send_offsets_to_transaction(self, offsets: Offsets, group: GroupMetadata | None = None) -> None:
        """Commits a consumer's offsets with the transaction.

        `offsets` of `records.next_offsets()` know their group; others need `group`: the consumer, or a group id
        (which gives up the check that the consumer is still a member).
        """
        self._require_open()
        self._transactions.send_offsets(offsets, group)

    def commit_transaction(self, timeout_s: float | None = None) -> None:
        self._require_open()
        self._transactions.commit(timeout_s)

    def abort_transaction(self, timeout_s: float | None = None) -> None:
        self._transactions.abort(timeout_s)

    @contextmanager
    def transaction(self) -> Iterator[Self]:
        """Commits at the end of the block, aborts when it raises."""
        self.begin_transaction()
        try:
            yield self
            self.commit_transaction()
        except BaseException:
            self.abort_after_failure()
            raise

    def abort_after_failure(self) -> None:
        """Aborts; should that fail too, it is logged, and the failure that led here is what the caller sees."""
        self._transactions.abort_after_failure()


def partitioner_of(given: object) -> tuple[Partitioner | None, str | None]:
    """A partitioner of ours to call, or the name of one of librdkafka's."""
    if given is None or callable(given):
        return given, None
    name = str(given).rpartition(".")[2].replace("-", "_")
    ours = BY_NAME.get(name)
    return (ours(), None) if ours else (None, str(given))


def close_lanes(lanes: Mapping[str, Lane], timeout_s: float | None) -> None:
    deadline = deadline_after(timeout_s)
    for lane in list(lanes.values()):
        lane.close(deadline)


def deadline_after(timeout_s: float | None) -> float | None:
    return None if timeout_s is None else time.monotonic() + timeout_s
