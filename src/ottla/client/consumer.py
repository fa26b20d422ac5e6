"""Reads records: as a member of a group (`subscribe`) or from partitions of one's own choice (`assign`).

One thread uses a consumer at a time. A position is the offset after the last record that `poll` returned; `commit`
writes positions, never what librdkafka has merely fetched ahead. With `enable.auto.commit` a position counts as
processed when `poll` is called again. An error of one poll never swallows records: it is raised when those before
it have been returned. Neither does Ctrl-C: a program that goes on after it reads what the interrupted poll had taken.
"""

import logging
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import timedelta
from typing import Any, Final, Self

import confluent_kafka
from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, OFFSET_STORED, KafkaError, KafkaException, Message

from ottla.base.types import TopicPartition
from ottla.client.decoding import Decoder
from ottla.client.errors import ClientError, ClosedError, ConfigError, DeserializationError, ErrorLog, client_error
from ottla.client.offsets import librdkafka_offsets, librdkafka_partitions, positions
from ottla.client.options import ClientKind, is_true, opened, settings
from ottla.client.records import (
    ConsumerRecord,
    ConsumerRecords,
    OffsetAndMetadata,
    Offsets,
    Partitions,
    partition_list,
    position_after,
)
from ottla.client.serializers import Deserializer
from ottla.client.subscriptions import RebalanceListener, Topics, topic_names

logger = logging.getLogger(__name__)

POLL_SLICE_S: Final = 0.2  # Between slices Python hears Ctrl-C.
POLL_DEFAULT_MS: Final = 1_000
ITERATION_POLL_MS: Final = 1_000
COMMIT_AGAIN_S: Final = 0.1
RESET_OFFSETS: Final = {"earliest": OFFSET_BEGINNING, "latest": OFFSET_END, "none": OFFSET_STORED}


class Consumer:
    """`Consumer({"bootstrap.servers": "…", "group.id": "…"})` or `Consumer(bootstrap_servers="…", group_id="…")`."""

    def __init__(
        self,
        config: Mapping[str, object] | None = None,
        *,
        key_deserializer: Deserializer | None = None,
        value_deserializer: Deserializer | None = None,
        **options: object,
    ) -> None:
        self._settings = settings(ClientKind.CONSUMER, config, **options)
        self._has_group = "group.id" in self._settings.kafka
        # librdkafka insists on a group; without one of the user's, this one never joins and never commits.
        group = {} if self._has_group else {"group.id": f"ottla-groupless-{uuid.uuid4()}"}
        self._errors = ErrorLog()
        heard = {"error_cb": self._errors.hear, "on_commit": self._errors.hear_commit}
        self._kafka = opened(confluent_kafka.Consumer, self._settings, **heard, **group)
        self._decode = Decoder(key_deserializer, value_deserializer)
        self._max_poll_records = self._settings.integer("max.poll.records")
        self._timeout_s = self._settings.integer("default.api.timeout.ms") / 1000
        reset = str(self._settings.kafka["auto.offset.reset"])
        self._start_offset = OFFSET_STORED if self._has_group else RESET_OFFSETS[reset]
        self.commits_itself: Final = self._has_group and is_true(self._settings.kafka["enable.auto.commit"])
        self._positions: dict[TopicPartition, OffsetAndMetadata] = {}
        self._postponed: BaseException | None = None
        self._revoking: Callable[[Any, list[Any]], None] | None = None
        self._closing = False
        self._gone: set[TopicPartition] = set()  # Revoked during the poll that is going on.
        self._assigned_by_hand = False
        self._closed = False

    # Which partitions to read

    def subscribe(
        self,
        topics: Topics,
        *,
        on_assign: RebalanceListener | None = None,
        on_revoke: RebalanceListener | None = None,
        on_lost: RebalanceListener | None = None,
    ) -> None:
        """Joins the group for these topics; a name that begins with ^, or a compiled pattern, is a regular expression.

        The listeners get partitions and run inside of `poll` and `close`; what they raise is raised there. `on_revoke`
        is the last moment to commit. `on_lost` is too late for that: the partitions are another member's already.
        """
        self._need_group("subscribe")
        self._assigned_by_hand = False
        self._revoking = self._listener(on_revoke, forgets=True)
        self._call(
            "subscribing",
            self._kafka.subscribe,
            topic_names(topics),
            on_assign=self._listener(on_assign),
            on_revoke=self._revoking,
            on_lost=self._listener(on_lost or on_revoke, forgets=True),
        )

    def _listener(
        self, listener: RebalanceListener | None, *, forgets: bool = False
    ) -> Callable[[Any, list[Any]], None]:
        def on_rebalance(_: object, listed: list[confluent_kafka.TopicPartition]) -> None:
            if self._closing:  # `close` has told of them already.
                return
            partitions = sorted(positions(listed))
            try:
                if listener is not None:
                    listener(partitions)
            except BaseException as error:  # confluent-kafka would drop it, or the record that the poll had taken
                self._postponed = self._postponed or error
            for partition in partitions:
                if forgets:
                    self._positions.pop(partition, None)
                    self._gone.add(partition)
                else:
                    self._gone.discard(partition)

        return on_rebalance

    def unsubscribe(self) -> None:
        """Gives up everything. A group's partitions go through `on_revoke` first, in the next poll or in `close`."""
        self._call("unsubscribing", self._kafka.unsubscribe)
        if self._assigned_by_hand:
            self.assign([])

    def assign(self, partitions: Partitions) -> None:
        """Reads exactly these, from the committed offset or, without a group, from where `auto.offset.reset` says."""
        listed = librdkafka_partitions(partition_list(partitions), self._start_offset)
        self._call("assigning", self._kafka.assign, listed)
        self._positions.clear()
        self._assigned_by_hand = True

    def assignment(self) -> list[TopicPartition]:
        return sorted(positions(self._call("reading the assignment", self._kafka.assignment)))

    def partitions_for(self, topic: str) -> list[TopicPartition]:
        """All partitions of a topic, ready for `assign`."""
        doing = f"asking for the partitions of {topic}"
        found = self._call(doing, self._kafka.list_topics, topic, self._timeout_s).topics[topic]
        if found.error is not None:
            raise client_error(found.error, doing)
        return [TopicPartition(topic, partition) for partition in sorted(found.partitions)]

    # Reading

    def poll(self, timeout_ms: float | timedelta = POLL_DEFAULT_MS, max_records: int | None = None) -> ConsumerRecords:
        """What is there, at most `max_records` (`max.poll.records`); waits only while there is nothing."""
        if self._closed:
            raise ClosedError("consumer")
        if self.commits_itself:
            self._store_positions()
        timeout_s = (timeout_ms / timedelta(seconds=1)) if isinstance(timeout_ms, timedelta) else timeout_ms / 1000
        records_max = self._max_poll_records if max_records is None else max_records
        try:
            records = self._decoded(self._messages(timeout_s, records_max))
            self._remember(records)
        except KeyboardInterrupt:
            self._go_back_to_positions()
            raise
        return ConsumerRecords(records, self.group_metadata if self._has_group else None)

    def __iter__(self) -> Iterator[ConsumerRecord]:
        """Endless, one record at a time, so that `commit()` in the loop's body covers what the body has seen."""
        while not self._closed:
            yield from self.poll(ITERATION_POLL_MS, max_records=1)

    def _messages(self, timeout_s: float, records_max: int) -> list[Message]:
        self._raise_postponed()
        self._gone.clear()
        first = self._first_message(timeout_s)
        if first is None:
            self._raise_postponed()
            return []
        # A time-out of zero takes what is fetched already; with more, librdkafka would wait to fill the batch.
        more = self._call("reading", self._kafka.consume, records_max - 1, 0) if records_max > 1 else []
        messages = []
        for message in (first, *more):
            error = message.error()
            if (message.topic(), message.partition()) in self._gone:
                continue  # Taken just before its partition went: the new owner reads it, and commits it.
            if error is None:
                messages.append(message)
            elif self._postponed is None and error.code() != KafkaError._PARTITION_EOF:
                self._postponed = client_error(error, f"reading {message.topic()}-{message.partition()}")
        if not messages:
            self._raise_postponed()
        return messages

    def _raise_postponed(self) -> None:
        if self._postponed is not None:
            error, self._postponed = self._postponed, None
            raise error

    def _first_message(self, timeout_s: float) -> Message | None:
        deadline = time.monotonic() + timeout_s
        while True:
            left_s = deadline - time.monotonic()
            message: Message | None = self._call("reading", self._kafka.poll, max(0.0, min(POLL_SLICE_S, left_s)))
            self._errors.tell()
            if message is not None or left_s <= 0 or self._postponed is not None:
                return message

    def _decoded(self, messages: list[Message]) -> list[ConsumerRecord]:
        records: list[ConsumerRecord] = []
        for message in messages:
            try:
                records.append(self._decode(message))
            except DeserializationError as error:
                self.go_back((m.topic() or "", m.partition() or 0, m.offset() or 0) for m in messages[len(records) :])
                if not records:
                    raise
                logger.debug("records before a broken one are returned first: %s", error)
                break
        return records

    def go_back(self, unread: Iterable[tuple[str, int, int]]) -> None:
        """Makes the next poll return these (topic, partition, offset) again, and whatever follows them."""
        first_offsets: dict[TopicPartition, int] = {}
        for topic, partition, offset in unread:
            first_offsets.setdefault(TopicPartition(topic, partition), offset)
        for topic_partition, offset in first_offsets.items():
            self.seek(topic_partition, offset)

    def _go_back_to_positions(self) -> None:
        """After an interrupt nobody knows what librdkafka had handed over: the next poll returns all of it again."""
        for partition in self.assignment():
            known = self._positions.get(partition)
            if known is not None:
                self._seek(partition, known.offset)
            elif (
                self._call("reading positions", self._kafka.position, librdkafka_partitions([partition]))[0].offset >= 0
            ):
                self._restart(partition, self._start_offset)

    def _remember(self, records: list[ConsumerRecord]) -> None:
        for record in records:
            self._positions[TopicPartition(record.topic, record.partition)] = position_after(record)

    # Where to read

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """The next poll returns this offset first. Also within what is assigned but was never read."""
        self._seek(partition, offset)
        self._positions[TopicPartition(*partition)] = OffsetAndMetadata(offset)

    def seek_to_beginning(self, partitions: Partitions | None = None) -> None:
        self._seek_all(partitions, OFFSET_BEGINNING)

    def seek_to_end(self, partitions: Partitions | None = None) -> None:
        self._seek_all(partitions, OFFSET_END)

    def _seek_all(self, partitions: Partitions | None, offset: int) -> None:
        for partition in self.assignment() if partitions is None else partition_list(partitions):
            self._seek(partition, offset)
            self._positions.pop(partition, None)

    def _seek(self, partition: TopicPartition, offset: int) -> None:
        target = confluent_kafka.TopicPartition(partition[0], partition[1], offset)
        doing = f"seeking in {partition[0]}-{partition[1]}"
        if partition not in self.assignment():
            raise ClientError("_UNKNOWN_PARTITION", f"{doing}, which is not assigned to this consumer")
        try:
            self._call(doing, self._kafka.seek, target)
        except ClientError as error:
            if error.code != "_STATE":
                raise
            # A partition that stopped, for want of an offset to begin with, takes no seek but a new start.
            self._restart(partition, offset)

    def _restart(self, partition: TopicPartition, offset: int) -> None:
        target = [confluent_kafka.TopicPartition(partition[0], partition[1], offset)]
        self._call(f"restarting {partition[0]}-{partition[1]}", self._kafka.incremental_unassign, target)
        self._call(f"restarting {partition[0]}-{partition[1]}", self._kafka.incremental_assign, target)

    def position(self, partition: TopicPartition) -> int:
        """The offset that is read next."""
        known = self._positions.get(partition)
        if known is not None:
            return known.offset
        committed = self.committed(partition)[partition] if self._has_group else None
        if committed is not None:
            return committed.offset
        ends = self.beginning_offsets if self._settings.kafka["auto.offset.reset"] == "earliest" else self.end_offsets
        return ends(partition)[partition]

    def beginning_offsets(self, partitions: Partitions) -> dict[TopicPartition, int]:
        return {partition: self._watermarks(partition)[0] for partition in partition_list(partitions)}

    def end_offsets(self, partitions: Partitions) -> dict[TopicPartition, int]:
        return {partition: self._watermarks(partition)[1] for partition in partition_list(partitions)}

    def _watermarks(self, partition: TopicPartition) -> tuple[int, int]:
        asked = confluent_kafka.TopicPartition(*partition)
        found: tuple[int, int] = self._call(
            f"asking for the offsets of {partition}", self._kafka.get_watermark_offsets, asked, self._timeout_s
        )
        return found

    def offsets_for_times(self, timestamps_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """Per partition the first offset whose record is not older; None where there is no such record."""
        asked = [confluent_kafka.TopicPartition(*partition, stamp) for partition, stamp in timestamps_ms.items()]
        found = self._call("asking for offsets by time", self._kafka.offsets_for_times, asked, self._timeout_s)
        for given in found:
            if given.error is not None:
                raise client_error(given.error, f"asking for offsets of {given.topic}-{given.partition} by time")
        return {partition: None if at is None else at.offset for partition, at in positions(found).items()}

    # What is processed

    def commit(
        self, offsets: Offsets | None = None, *, asynchronous: bool = False, timeout_s: float | None = None
    ) -> None:
        """Without offsets: the position of every partition read. Returns when the group has them, or at once.

        Tried again for `timeout_s` (`default.api.timeout.ms`) while the coordinator is away, as when a broker restarts.
        """
        self._need_group("commit")
        chosen = self._positions if offsets is None else offsets
        if not chosen:
            return
        listed = librdkafka_offsets(chosen)
        deadline = time.monotonic() + (self._timeout_s if timeout_s is None else timeout_s)
        while True:
            try:
                self._commit(listed, asynchronous=asynchronous)
                return
            except ClientError as error:
                if asynchronous or not error.retriable or time.monotonic() + COMMIT_AGAIN_S > deadline:
                    raise
            time.sleep(COMMIT_AGAIN_S)

    def _commit(self, listed: list[confluent_kafka.TopicPartition], *, asynchronous: bool) -> None:
        answer = self._call("committing", self._kafka.commit, offsets=listed, asynchronous=asynchronous)
        for given in answer or ():
            if given.error is not None:
                raise client_error(given.error, f"committing {given.topic}-{given.partition}")

    def commit_sync(self, offsets: Offsets | None = None) -> None:
        self.commit(offsets)

    def commit_async(self, offsets: Offsets | None = None) -> None:
        """A failure is logged; the next commit covers it."""
        self.commit(offsets, asynchronous=True)

    def committed(self, partitions: Partitions) -> dict[TopicPartition, OffsetAndMetadata | None]:
        self._need_group("committed")
        listed = librdkafka_partitions(partition_list(partitions))
        found = self._call("asking for committed offsets", self._kafka.committed, listed, self._timeout_s)
        return dict(positions(found))

    def group_metadata(self) -> object:
        """For `Producer.send_offsets_to_transaction`: who this member is right now."""
        return self._kafka.consumer_group_metadata()

    # Flow

    def pause(self, partitions: Partitions) -> None:
        self._call("pausing", self._kafka.pause, librdkafka_partitions(partition_list(partitions)))

    def resume(self, partitions: Partitions) -> None:
        self._call("resuming", self._kafka.resume, librdkafka_partitions(partition_list(partitions)))

    def close(self) -> None:
        """Leaves the group at once; with `enable.auto.commit` the last positions are committed."""
        if self._closed:
            return
        if self.commits_itself:
            self._store_positions()
        self._postponed = None  # Errors of records that nobody reads any more.
        if self._revoking is not None and not self._assigned_by_hand and (assigned := self._kafka.assignment()):
            # Before librdkafka does it: during a rebalance it leaves the group first, and a commit comes too late.
            self._revoking(None, assigned)
        self._closing = True
        try:
            self._kafka.close()
        finally:
            self._closed = True
            self._errors.tell()
        self._raise_postponed()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _store_positions(self) -> None:
        if self._positions:
            self._call("storing positions", self._kafka.store_offsets, offsets=librdkafka_offsets(self._positions))

    def _need_group(self, call: str) -> None:
        if not self._has_group:
            raise ConfigError(f"{call}() needs a group.id; assign() and seek() read without one")

    def _call(self, doing: str, function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        if self._closed:
            raise ClosedError("consumer")
        try:
            return function(*arguments, **named)
        except KafkaException as error:
            raise client_error(error, doing) from None
