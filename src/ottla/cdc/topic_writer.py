"""Records and the position behind them, in one Kafka transaction: both are there, or neither.

Under the transactional id of the capture's name, so that opening a writer fences any older one, whose open transaction is
aborted by it.
"""

import logging
from typing import Final

from ottla.cdc.envelope import Record
from ottla.cdc.positions import POSITION_PARTITION, client_options, position_record
from ottla.cdc.settings import CaptureSettings
from ottla.client.admin import Admin
from ottla.client.errors import ClientError
from ottla.client.options import ClientKind
from ottla.client.producer import Producer
from ottla.client.topics import NewTopic

logger = logging.getLogger(__name__)

# A snapshot, or a transaction of PostgreSQL, is one transaction of Kafka: brokers allow this long unless told otherwise.
TRANSACTION_TIMEOUT_MS: Final = 900_000
END_SECONDS_MAX: Final = 10.0
COMPACTED: Final = {"cleanup.policy": "compact"}
_OPTIONS: Final = {"transaction.timeout.ms": TRANSACTION_TIMEOUT_MS, "linger.ms": 10, "batch.size": 262_144}


class TopicWriter:
    def __init__(self, settings: CaptureSettings) -> None:
        self._settings = settings
        options = _OPTIONS | client_options(settings, ClientKind.PRODUCER)
        self._producer = Producer(options | {"transactional.id": settings.transactional_id})
        self._is_open = False
        self.written_count = 0
        """Records of the open transaction."""

    def fence(self) -> None:
        """No older writer commits any more; what it had open is aborted."""
        self._producer.init_transactions()

    def write(self, record: Record) -> None:
        self._send(record, None)

    def write_to_each_partition(self, record: Record) -> None:
        for partition in self._producer.partitions_for(record.topic):
            self._send(record, partition)

    def _send(self, record: Record, partition: int | None) -> None:
        if not self._is_open:
            self._producer.begin_transaction()
            self._is_open = True
        self._producer.send(
            record.topic,
            record.value,
            record.key,
            partition=partition,
            headers=record.headers or None,
            on_delivery=told_by_the_commit,
        )
        self.written_count += 1

    def commit(self, lsn: int | None) -> None:
        """Records since the last commit, and the position behind them; None forgets the position."""
        self._send(position_record(self._settings, lsn), POSITION_PARTITION)
        self._producer.commit_transaction()
        self._is_open = False
        self.written_count = 0

    def close(self) -> None:
        if self._is_open:
            try:
                self._producer.abort_transaction(END_SECONDS_MAX)
            except ClientError as error:
                logger.warning("the transaction could not be aborted, the next capture does it: %s", error)
        self._producer.close(END_SECONDS_MAX)


def told_by_the_commit(metadata: object, error: object) -> None:
    """A record that is not delivered fails its transaction, once for all of them."""


def create_topics(settings: CaptureSettings) -> None:
    """Those that are missing; what exists is used as it is."""
    with Admin(client_options(settings, ClientKind.ADMIN)) as admin:
        existing = admin.list_topics()
        replicas = settings.replication_factor
        wanted = [
            NewTopic(settings.positions_topic, 1, replicas, COMPACTED),
            *(
                NewTopic(topic, settings.partition_count, replicas, COMPACTED if settings.is_compacted else {})
                for topic in settings.topics
            ),
        ]
        for topic in wanted:
            if topic.name not in existing:
                create_topic(admin, topic)


def create_topic(admin: Admin, topic: NewTopic) -> None:
    try:
        admin.create_topics([topic])
    except ClientError as error:
        if error.code != "TOPIC_ALREADY_EXISTS":  # Another capture has just made it: captures may share a prefix.
            raise
