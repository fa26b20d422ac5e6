"""Consume, transform, produce, exactly once: a process of its own, `python -m tests.chaos.transform_worker SETTINGS`.

It reads input partitions, writes each record's outputs and its offset in one transaction, and notes in its journal what
it was told of it. Some transactions it dooms: they write as all others do and are aborted. It works until SIGTERM.

Two ways to keep zombies out, both proven: `is_group` False reads one fixed partition, and the next incarnation fences
this one by their common transactional id; `is_group` True shares partitions in a group, and the group's generation
fences (KIP-447). In a group three things matter: records of a partition that is taken away are dropped before they are
transformed; the metadata that fences is that of the assignment, not of the moment; and after an abort the position goes
back to what is committed.
"""

import faulthandler
import json
import random
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Message, Producer, TopicPartition

from tests.chaos.crew import end_with_parent
from tests.chaos.outputs import Output, TransactionName, encode_output
from tests.chaos.readers import position_of
from tests.chaos.writers import QUIET

GROUP: Final = "workers"
INPUT: Final = "input"
OUTPUTS: Final = ("left", "right")
RECORDS_PER_TRANSACTION_MAX: Final = 20
GATHER_SECONDS: Final = 0.05
CALL_SECONDS_MAX: Final = 10.0
DOOMED_SHARE: Final = 0.1
WEDGED_SECONDS: Final = 15.0
SESSION_TIMEOUT_MS: Final = 6_000
TRANSACTION_TIMEOUT_MS: Final = 8_000
RECONNECT: Final = {
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 100,
    "retry.backoff.ms": 50,
    "socket.timeout.ms": 5_000,  # A broker may be silent, and not gone.
}


def output_partition(topic: str, source_partition: int, partition_count: int) -> int:
    """The output topics differ in which partition an input's outputs go to."""
    return (source_partition + OUTPUTS.index(topic)) % partition_count


class Aborted(Exception):
    """The transaction cannot be committed; another attempt may be."""


class Worker:
    def __init__(
        self,
        over: threading.Event,
        *,
        bootstrap: str,
        partition_count: int,
        is_group: bool,
        number: int,
        incarnation: int,
        journal: str,
    ) -> None:
        self._over = over
        self._partition_count = partition_count
        self._is_group = is_group
        self._number = number
        self._transaction = TransactionName(number, incarnation, 0)
        self._journal_path = Path(journal)
        self._chance = random.Random()
        self._gathered: list[Message] = []
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": f"worker-{number}",
                "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
                "linger.ms": 2,
                **RECONNECT,
                **QUIET,
            }
        )
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": GROUP,
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "session.timeout.ms": SESSION_TIMEOUT_MS,
                "heartbeat.interval.ms": 300,
                **RECONNECT,
                **QUIET,
            }
        )
        self._group: Any = None

    def run(self) -> None:
        self._complete(self._producer.init_transactions)
        if self._is_group:
            self._consumer.subscribe(
                [INPUT], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_revoke
            )
        else:
            self._consumer.assign([TopicPartition(INPUT, self._number)])
            self._group = self._consumer.consumer_group_metadata()
            self._rewind()
        while not self._over.is_set():
            self._gather()
            if self._gathered:
                self._transform()

    def close(self) -> None:
        self._consumer.close()

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._group = consumer.consumer_group_metadata()

    def _on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._gathered.clear()

    def _gather(self) -> None:
        """One message a call: a rebalance between two of them clears what came before."""
        wanted = self._chance.randint(1, RECORDS_PER_TRANSACTION_MAX)
        while not self._over.is_set() and len(self._gathered) < wanted:
            message = self._consumer.poll(GATHER_SECONDS)
            if message is None:
                return
            if message.error() is None:
                self._gathered.append(message)

    # -- one transaction ---------------------------------------------------------------------------------------------

    def _transform(self) -> None:
        messages, self._gathered = self._gathered, []
        is_doomed = self._chance.random() < DOOMED_SHARE
        self._producer.begin_transaction()
        try:
            self._write(messages, is_doomed)
            if is_doomed:
                raise Aborted
            lasts = dict(map(position_of, messages))
            commit = [TopicPartition(INPUT, partition, offset + 1) for partition, offset in lasts.items()]
            self._send_offsets(commit)
            self._complete(self._producer.commit_transaction)
            self._note("committed")
        except Aborted:
            self._complete(self._producer.abort_transaction)
            self._note("aborted")
            self._rewind()
        self._transaction = self._transaction._replace(number=self._transaction.number + 1)

    def _write(self, messages: list[Message], is_doomed: bool) -> None:
        for message in messages:
            source_partition, source_offset = position_of(message)
            value = encode_output(Output(source_partition, source_offset, self._transaction, is_doomed))
            for topic in OUTPUTS:
                partition = output_partition(topic, source_partition, self._partition_count)
                self._producer.produce(topic, value, partition=partition)
        if is_doomed and self._chance.random() < 0.8:
            self._producer.flush(CALL_SECONDS_MAX)  # Otherwise an abort would mostly purge what never was in the log.

    def _send_offsets(self, offsets: list[TopicPartition]) -> None:
        """Not tried again, and ended from outside where it hangs: when the broker restarts meanwhile, librdkafka 2.16 may
        wait for ever, whatever the time-out, for a group coordinator to which it is connected. So it does with Kafka."""
        faulthandler.dump_traceback_later(WEDGED_SECONDS, exit=True)
        try:
            self._producer.send_offsets_to_transaction(offsets, self._group, CALL_SECONDS_MAX)
        except KafkaException as failure:
            error = failure.args[0]
            if error.retriable() or error.txn_requires_abort():
                raise Aborted from failure
            raise
        finally:
            faulthandler.cancel_dump_traceback_later()

    def _complete(self, call: Callable[[float], object]) -> None:
        """Until the call succeeds, or can never."""
        while True:
            try:
                call(CALL_SECONDS_MAX)
                return
            except KafkaException as failure:
                error = failure.args[0]
                if error.txn_requires_abort():
                    raise Aborted from failure
                if not error.retriable():
                    raise
                print(f"again: {error}", file=sys.stderr)

    def _note(self, outcome: str) -> None:
        with self._journal_path.open("a") as journal:
            journal.write(f"{self._transaction.incarnation} {self._transaction.number} {outcome}\n")

    def _rewind(self) -> None:
        """Reads on from what is committed. Where that cannot be known, the process ends, and its successor asks again."""
        self._gathered.clear()
        for place in self._consumer.committed(self._consumer.assignment(), timeout=CALL_SECONDS_MAX):
            place.offset = place.offset if place.offset >= 0 else OFFSET_BEGINNING
            if self._is_group:
                self._consumer.seek(place)
            else:
                self._consumer.assign([place])


def main() -> None:
    end_with_parent()
    over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    worker = Worker(over, **json.loads(sys.argv[1]))
    try:
        worker.run()
    except KafkaException as failure:
        sys.exit(f"worker ends: {failure}")
    worker.close()


if __name__ == "__main__":
    main()
