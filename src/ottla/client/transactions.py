"""A producer's transactions: librdkafka's calls, with errors in our words and the first step taken by itself.

`begin` initialises the transactional id where nobody did. After an error whose `needs_abort` is set, abort and begin
again; after a `fatal` one (fenced), the producer is of no more use.
"""

import logging
from typing import Any, Protocol, TypeAlias

import confluent_kafka
from confluent_kafka import KafkaException

from ottla.client.errors import ClientError, ConfigError, client_error
from ottla.client.offsets import librdkafka_offsets
from ottla.client.options import Settings
from ottla.client.records import ConsumerOffsets, Offsets
from ottla.client.text import c_text

logger = logging.getLogger(__name__)


class GroupMember(Protocol):
    def group_metadata(self) -> object: ...


GroupMetadata: TypeAlias = str | GroupMember


class Transactions:
    def __init__(self, kafka: confluent_kafka.Producer, chosen: Settings) -> None:
        self._kafka = kafka
        self._transactional_id = chosen.kafka.get("transactional.id")
        self._timeout_s = chosen.integer("max.block.ms") / 1000
        self._is_initialised = False

    def init(self, timeout_s: float | None) -> None:
        if self._transactional_id is None:
            raise ConfigError("transactions need a transactional.id, one that no other running producer has")
        self._call("initialising transactions", self._kafka.init_transactions, self._seconds(timeout_s))
        self._is_initialised = True

    def begin(self) -> None:
        if not self._is_initialised:
            self.init(None)
        self._call("beginning a transaction", self._kafka.begin_transaction)

    def send_offsets(self, offsets: Offsets, group: GroupMetadata | None) -> None:
        metadata = self._group_metadata(offsets, group)
        self._call(
            "adding offsets to the transaction",
            self._kafka.send_offsets_to_transaction,
            librdkafka_offsets(offsets),
            metadata,
            self._timeout_s,
        )

    def commit(self, timeout_s: float | None) -> None:
        self._call("committing the transaction", self._kafka.commit_transaction, self._seconds(timeout_s))

    def abort(self, timeout_s: float | None) -> None:
        self._call("aborting the transaction", self._kafka.abort_transaction, self._seconds(timeout_s))

    def abort_after_failure(self) -> None:
        try:
            self.abort(None)
        except ClientError as error:
            logger.warning("the transaction could not be aborted, it will time out: %s", error)

    def _group_metadata(self, offsets: Offsets, group: GroupMetadata | None) -> object:
        if isinstance(offsets, ConsumerOffsets) and offsets.group_metadata is not None:
            return offsets.group_metadata()
        if group is None:
            raise TypeError("these offsets do not know their group: give the consumer, or its group id")
        if not isinstance(group, str):
            return group.group_metadata()
        # A consumer that never joins: librdkafka makes the metadata of a group it has only the name of.
        outsider = confluent_kafka.Consumer({"group.id": c_text(group, "the group"), "log_level": 0})
        try:
            return outsider.consumer_group_metadata()
        finally:
            outsider.close()

    def _seconds(self, timeout_s: float | None) -> float:
        return self._timeout_s if timeout_s is None else timeout_s

    def _call(self, doing: str, function: Any, *arguments: Any) -> None:
        try:
            function(*arguments)
        except KafkaException as error:
            raise client_error(error, doing) from None
