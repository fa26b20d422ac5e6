"""What exactly-once costs: consume, transform, produce with transactions beside the same without; and writing in them.

Both loops read 1 KB messages in a group, change them and write them with acks=all, idempotently. At least once waits for
the deliveries of a share and commits its offsets; exactly once puts both into a transaction. Shares are equal, so that the
difference is the transaction alone. A reader then counts what is committed: the figure stands for all of it.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from confluent_kafka import Consumer, Message, Producer, TopicPartition

from benchmarks.rounds import Goal, Metric, Round, Scenario
from benchmarks.transactional_producer import TransactionalLoadProducer
from ottla.client.bulk import MESSAGES_PER_CALL, LoadError, MessageBlock
from ottla.client.load import consume_load, produce_load

KILOBYTE: Final = 1024
TRANSFORMED: Final = 400_000
PRODUCED: Final = 500_000
SHARE: Final = 10_000  # Messages of a transaction: about what 100 ms bring, Kafka Streams' interval for exactly once.
SMALL_SHARE: Final = 1_000
CALL_SECONDS_MAX: Final = 60.0
SILENCE_SECONDS_MAX: Final = 30.0

_QUEUE: Final = {"queue.buffering.max.messages": 1_000_000, "queue.buffering.max.kbytes": 1 << 20}


def _cost_of_exactly_once(share: int) -> Callable[[Round], Mapping[str, float]]:
    def measure(turn: Round) -> Mapping[str, float]:
        shares = turn.scaled(TRANSFORMED // share, at_least=5)
        source = turn.topic_of_all_rounds(
            lambda topic: produce_load(turn.peer.bootstrap, topic, message_bytes=KILOBYTE, count=shares * share)
        )
        plain = _Transformer(turn, source, "at-least-once", share=share)
        exact = _Transformer(turn, source, "exactly-once", share=share)
        for _ in range(shares):
            plain.transform_share()
            exact.transform_share()
        for transformer in (plain, exact):
            transformer.finish(shares * share)
        return {
            "at_least_once": plain.messages_per_second,
            "exactly_once": exact.messages_per_second,
            "cost": (1 - exact.messages_per_second / plain.messages_per_second) * 100,
        }

    return measure


class _Transformer:
    """One of the two loops, a share at a time: they take turns, so that a slow moment of the machine hits both."""

    def __init__(self, turn: Round, source: str, way: str, *, share: int) -> None:
        self._bootstrap = turn.peer.bootstrap
        self._target = turn.create_topic(f"{way}-{turn.index}")
        self._share = share
        is_exact = way == "exactly-once"
        self._write = _exactly_once if is_exact else _at_least_once
        self._producer = _producer(self._bootstrap, transactional_id=self._target if is_exact else None)
        self._consumer = _consumer(self._bootstrap, group=self._target)
        self._consumer.subscribe([source])
        self._timed_count = 0
        self._seconds = 0.0
        self._is_warm = False

    def transform_share(self) -> None:
        """The first one is not timed: the group has to form, and the producer to find its broker."""
        started = time.perf_counter()
        messages = self._consumer.consume(self._share, SILENCE_SECONDS_MAX)
        if len(messages) < self._share:
            raise LoadError(f"{len(messages)} of {self._share} messages, then none for {SILENCE_SECONDS_MAX:g} s")
        self._write(self._consumer, self._producer, self._target, messages)
        if self._is_warm:
            self._seconds += time.perf_counter() - started
            self._timed_count += len(messages)
        self._is_warm = True

    def finish(self, count: int) -> None:
        """Transactions end in markers, which take offsets: messages of all partitions are counted, not followed."""
        self._consumer.close()
        consume_load(
            self._bootstrap, self._target, count=count, partition=None, config={"isolation.level": "read_committed"}
        )

    @property
    def messages_per_second(self) -> float:
        return self._timed_count / self._seconds


def _exactly_once(consumer: Consumer, producer: Producer, target: str, messages: Sequence[Message]) -> None:
    producer.begin_transaction()
    _send(producer, target, messages)
    group = consumer.consumer_group_metadata()
    producer.send_offsets_to_transaction(_offsets_behind(messages), group, CALL_SECONDS_MAX)
    producer.commit_transaction(CALL_SECONDS_MAX)


def _at_least_once(consumer: Consumer, producer: Producer, target: str, messages: Sequence[Message]) -> None:
    _send(producer, target, messages)
    if producer.flush(CALL_SECONDS_MAX):
        raise LoadError("messages were not delivered")
    consumer.commit(offsets=_offsets_behind(messages), asynchronous=False)


def _send(producer: Producer, target: str, messages: Sequence[Message]) -> None:
    """The transformation is small: what is measured is the way of messages through brokers."""
    outgoing = [{"value": (message.value() or b"")[::-1]} for message in messages]
    if producer.produce_batch(target, outgoing, partition=0) != len(outgoing):
        raise LoadError("messages were refused")


def _offsets_behind(messages: Sequence[Message]) -> list[TopicPartition]:
    last = messages[-1]
    topic, partition, offset = last.topic(), last.partition(), last.offset()
    if last.error() is not None or topic is None or partition is None or offset is None:
        raise LoadError(str(last.error()))
    return [TopicPartition(topic, partition, offset + 1)]


def _consumer(bootstrap: str, *, group: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "fetch.queue.backoff.ms": 1,
            "log_level": 0,
        }
    )


def _producer(bootstrap: str, *, transactional_id: str | None) -> Producer:
    settings: dict[str, Any] = {"bootstrap.servers": bootstrap, "linger.ms": 5, "batch.size": 1_000_000, "log_level": 0}
    if transactional_id is None:
        return Producer({**settings, **_QUEUE, "enable.idempotence": True})
    producer = Producer({**settings, **_QUEUE, "transactional.id": transactional_id})
    producer.init_transactions(CALL_SECONDS_MAX)
    return producer


def _transactional_produce(turn: Round) -> Mapping[str, float]:
    return {"large": _produce_rate(turn, SHARE), "small": _produce_rate(turn, SMALL_SHARE)}


def _produce_rate(turn: Round, share: int) -> float:
    topic = turn.create_topic(f"{share}-{turn.index}")
    transactions = turn.scaled(PRODUCED // share)
    block = MessageBlock([b"o" * KILOBYTE], length=min(share, MESSAGES_PER_CALL))
    with TransactionalLoadProducer(turn.peer.bootstrap, topic, transactional_id=topic) as producer:
        producer.partition_count()
        started = time.perf_counter()
        for _ in range(transactions):
            with producer.transaction():
                for _ in range(share // block.length):
                    producer.send(block, block.length)
        seconds = time.perf_counter() - started
    count = transactions * share
    consume_load(turn.peer.bootstrap, topic, count=count, partition=None, config={"isolation.level": "read_committed"})
    return count / seconds


def _cost_metrics(share: int, goal: Goal | None = None) -> tuple[Metric, ...]:
    return (
        Metric(key="at_least_once", title=f"transform 1 KB, {share:,} a commit, at least once", unit="messages/s"),
        Metric(key="exactly_once", title="  exactly once", unit="messages/s"),
        Metric(key="cost", title="  its cost", unit="%", goal=goal),
    )


SCENARIOS: Final = (
    Scenario(
        name="exactly-once",
        metrics=_cost_metrics(SHARE, Goal(ours_max=20.0)),
        measure=_cost_of_exactly_once(SHARE),
    ),
    Scenario(
        name="exactly-once-small",
        metrics=_cost_metrics(SMALL_SHARE),
        measure=_cost_of_exactly_once(SMALL_SHARE),
    ),
    Scenario(
        name="transactional-produce",
        metrics=(
            Metric(key="large", title="produce 1 KB in transactions of 10,000", unit="messages/s"),
            Metric(key="small", title="  of 1,000", unit="messages/s"),
        ),
        measure=_transactional_produce,
    ),
)
