"""A member that reads at least once: a process of its own, `python -m tests.chaos.group_member SETTINGS`.

It writes what it processed into its journal and commits afterwards. A commit that fails is repeated as long as the
partition stays here, which it may over a cooperative rebalance; else whoever owns it then reads it again. It works until
SIGTERM.
"""

import json
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from tests.chaos.crew import end_with_parent
from tests.chaos.readers import position_of
from tests.chaos.transform_worker import RECONNECT, SESSION_TIMEOUT_MS
from tests.chaos.writers import QUIET

GROUP: Final = "members"
TOPIC: Final = "read-by-many"
RECORDS_PER_COMMIT_MAX: Final = 50
GATHER_SECONDS: Final = 0.05


class Member:
    def __init__(
        self,
        over: threading.Event,
        *,
        bootstrap: str,
        strategy: str,
        is_static: bool,
        number: int,
        incarnation: int,
        journal: str,
    ) -> None:
        self._over = over
        self._journal_path = Path(journal)
        self._gathered: list[Message] = []
        self._uncommitted: dict[int, int] = {}
        static = {"group.instance.id": f"member-{number}"} if is_static else {}
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": GROUP,
                "client.id": f"member-{number}-{incarnation}",
                "partition.assignment.strategy": strategy,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "session.timeout.ms": SESSION_TIMEOUT_MS,
                "heartbeat.interval.ms": 300,
                **static,
                **RECONNECT,
                **QUIET,
            }
        )

    def run(self) -> None:
        self._consumer.subscribe([TOPIC], on_revoke=self._on_revoke, on_lost=self._on_revoke)
        while not self._over.is_set():
            self._gather()
            if self._gathered or self._uncommitted:
                self._process()
        self._consumer.close()

    def _on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """What was read and not yet processed is the next owner's."""
        gone = {each.partition for each in partitions}
        self._gathered = [message for message in self._gathered if message.partition() not in gone]
        self._uncommitted = {partition: end for partition, end in self._uncommitted.items() if partition not in gone}

    def _gather(self) -> None:
        while not self._over.is_set() and len(self._gathered) < RECORDS_PER_COMMIT_MAX:
            message = self._consumer.poll(GATHER_SECONDS)
            if message is None:
                return
            error = message.error()
            if error is None:
                self._gathered.append(message)
            elif error.code() == KafkaError._FATAL:  # Its static name is another process's by now.
                raise KafkaException(error)

    def _process(self) -> None:
        messages, self._gathered = self._gathered, []
        positions = [position_of(message) for message in messages]
        with self._journal_path.open("a") as journal:
            journal.writelines(f"{partition} {offset}\n" for partition, offset in positions)
        self._uncommitted |= {partition: offset + 1 for partition, offset in positions}
        ends = [TopicPartition(TOPIC, partition, end) for partition, end in self._uncommitted.items()]
        try:
            self._consumer.commit(offsets=ends, asynchronous=False)
            told, self._uncommitted = "committed", {}
        except KafkaException as failure:
            told = str(failure)
        # For whoever must find out how an offset went back.
        print(f"{time.time():.3f} {positions[:1]} to {positions[-1:]}: {told}", file=sys.stderr, flush=True)


def main() -> None:
    end_with_parent()
    over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    try:
        Member(over, **json.loads(sys.argv[1])).run()
    except KafkaException as failure:
        sys.exit(f"member ends: {failure}")


if __name__ == "__main__":
    main()
