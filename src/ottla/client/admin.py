"""Topics, configurations, offsets, groups, transactions and the cluster, administered.

Every call blocks until the cluster has answered and returns plain values (topics.py, groups.py, transaction_states.py,
cluster_states.py). Where a call has several parts and some fail, the others are done all the same: one failure is raised
as it is, several as `PartialFailure`. Safe to use from several threads.
"""

import warnings
from collections.abc import Iterable, Mapping
from typing import Final, TypeVar

import confluent_kafka
from confluent_kafka import KafkaException, TopicCollection

from ottla.base.errors import ErrorCode
from ottla.base.types import TopicPartition
from ottla.client.admin_cluster import ClusterAdmin
from ottla.client.admin_groups import GroupAdmin
from ottla.client.admin_transactions import TransactionAdmin
from ottla.client.admin_values import (
    cluster_description,
    config_entry,
    config_operation,
    config_resource,
    config_values,
    librdkafka,
    listed_offset,
    offset_spec,
    partition_name,
    resource_name,
    topic_description,
)
from ottla.client.errors import client_error, coded_error
from ottla.client.offsets import librdkafka_offsets
from ottla.client.text import c_texts
from ottla.client.topics import (
    BROKER_DEFAULT,
    ClusterDescription,
    ConfigEntry,
    KeysMoveWarning,
    ListedOffset,
    NewTopic,
    OffsetSpec,
    TopicDescription,
)

K = TypeVar("K")
T = TypeVar("T")

INTERNAL_PREFIX: Final = "__"


class Admin(GroupAdmin, TransactionAdmin, ClusterAdmin):
    """`Admin({"bootstrap.servers": "…"})` or `Admin(bootstrap_servers="…")`."""

    # Topics

    def create_topic(
        self,
        name: str,
        num_partitions: int = BROKER_DEFAULT,
        replication_factor: int = BROKER_DEFAULT,
        configs: Mapping[str, object] | None = None,
        *,
        validate_only: bool = False,
    ) -> None:
        topic = NewTopic(name, num_partitions, replication_factor, configs or {})
        self.create_topics([topic], validate_only=validate_only)

    def create_topics(self, topics: Iterable[NewTopic], *, validate_only: bool = False) -> None:
        asked = [
            librdkafka.NewTopic(
                topic.name, topic.partitions, topic.replication_factor, config=config_values(topic.configs)
            )
            for topic in topics
        ]
        self._finish("creating", self._kafka.create_topics(asked, validate_only=validate_only, **self._timeouts()))

    def delete_topic(self, name: str) -> None:
        self.delete_topics([name])

    def delete_topics(self, names: Iterable[str]) -> None:
        self._finish("deleting", self._kafka.delete_topics(c_texts(names, "the topic"), **self._timeouts()))

    def list_topics(self, *, include_internal: bool = False) -> list[str]:
        try:
            found = self._kafka.list_topics(timeout=self._timeout_s).topics
        except KafkaException as error:
            raise client_error(error, "listing topics") from None
        return sorted(name for name in found if include_internal or not name.startswith(INTERNAL_PREFIX))

    def describe_topic(self, name: str) -> TopicDescription:
        return self.describe_topics([name])[name]

    def describe_topics(self, names: Iterable[str]) -> dict[str, TopicDescription]:
        texts = c_texts(names, "the topic")
        if "" in texts:  # Of the calls that take names this alone has a `ValueError` for it.
            raise coded_error(ErrorCode.INVALID_TOPIC_EXCEPTION, "describing topics", "A topic's name is not empty")
        asked = TopicCollection(texts)
        found = self._finish("describing", self._kafka.describe_topics(asked, request_timeout=self._timeout_s))
        return {name: topic_description(described) for name, described in found.items()}

    def create_partitions(self, totals: Mapping[str, int], *, keys_may_move: bool = False) -> None:
        """Grows topics to the given totals, with a `KeysMoveWarning` unless the caller says that keys may move."""
        asked = [librdkafka.NewPartitions(topic, total) for topic, total in totals.items()]
        self._finish("adding partitions to", self._kafka.create_partitions(asked, **self._timeouts()))
        if not keys_may_move:
            warnings.warn(
                f"{', '.join(totals)} has more partitions now: records with a key go elsewhere than those before, so "
                "their order across this change is lost. Pass keys_may_move=True where that does not matter",
                KeysMoveWarning,
                stacklevel=2,
            )

    # Configurations

    def describe_configs(self, topic: str | None = None, *, broker: int | None = None) -> dict[str, ConfigEntry]:
        """The effective configuration of a topic or of a broker, by name."""
        resource = config_resource(topic, broker)
        futures = self._kafka.describe_configs([resource], request_timeout=self._timeout_s)
        (entries,) = self._finish("describing the configuration of", futures, name=resource_name).values()
        return {name: config_entry(entry) for name, entry in entries.items()}

    def alter_configs(
        self,
        topic: str | None = None,
        changes: Mapping[str, object] | None = None,
        *,
        broker: int | None = None,
        append: Mapping[str, object] | None = None,
        subtract: Mapping[str, object] | None = None,
    ) -> None:
        """Changes what is named and nothing else; None sets a key back to its default.

        `append` and `subtract` add to and take from list values such as cleanup.policy.
        """
        operations = [
            *((name, value, None) for name, value in (changes or {}).items()),
            *((name, value, librdkafka.AlterConfigOpType.APPEND) for name, value in (append or {}).items()),
            *((name, value, librdkafka.AlterConfigOpType.SUBTRACT) for name, value in (subtract or {}).items()),
        ]
        resource = config_resource(topic, broker, [config_operation(*operation) for operation in operations])
        futures = self._kafka.incremental_alter_configs([resource], request_timeout=self._timeout_s)
        self._finish("altering the configuration of", futures, name=resource_name)

    # Records and offsets

    def delete_records(self, before_offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Deletes what comes before each offset (-1: everything there is); returns the new log start offsets."""
        asked = librdkafka_offsets(before_offsets)
        found = self._finish(
            "deleting records of", self._kafka.delete_records(asked, **self._timeouts()), name=partition_name
        )
        return {TopicPartition(given.topic, given.partition): done.low_watermark for given, done in found.items()}

    def list_offsets(
        self, specs: Mapping[TopicPartition, OffsetSpec | int], *, read_committed: bool = False
    ) -> dict[TopicPartition, ListedOffset]:
        asked = {confluent_kafka.TopicPartition(*partition): offset_spec(spec) for partition, spec in specs.items()}
        isolation = confluent_kafka.IsolationLevel
        level = isolation.READ_COMMITTED if read_committed else isolation.READ_UNCOMMITTED
        futures = self._kafka.list_offsets(asked, isolation_level=level, request_timeout=self._timeout_s)
        found = self._finish("listing offsets of", futures, name=partition_name)
        return {TopicPartition(given.topic, given.partition): listed_offset(info) for given, info in found.items()}

    # Cluster

    def describe_cluster(self) -> ClusterDescription:
        try:
            return cluster_description(self._kafka.describe_cluster(request_timeout=self._timeout_s).result())
        except KafkaException as error:
            raise client_error(error, "describing the cluster") from None
