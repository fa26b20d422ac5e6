"""Kafka's names in, librdkafka's out (configs.md); contradictions and mistakes refused in words."""

import confluent_kafka
import pytest

from ottla.client.errors import ConfigError
from ottla.client.options import ClientKind, Settings, opened, settings

ADDRESS = {"bootstrap.servers": "localhost:1"}


def producer(**options: object) -> Settings:
    return settings(ClientKind.PRODUCER, ADDRESS, **options)


def consumer(**options: object) -> Settings:
    return settings(ClientKind.CONSUMER, ADDRESS, **options)


def test_producer_defaults_are_kafkas() -> None:
    assert (
        producer().librdkafka.items()
        >= {
            "acks": "all",
            "batch.size": 16_384,
            "linger.ms": 5,
            "compression.type": "none",
            "queue.buffering.max.kbytes": 32_768,
            "enable.idempotence": "true",
            "retries": 2_147_483_647,
            "partitioner": "murmur2_random",
            "max.in.flight.requests.per.connection": 5,
        }.items()
    )


def test_a_transactional_producer_does_not_forget_its_brokers() -> None:
    assert "metadata.recovery.strategy" not in producer().librdkafka
    assert producer(transactional_id="t").librdkafka["metadata.recovery.strategy"] == "none"
    chosen = producer(transactional_id="t", metadata_recovery_strategy="rebootstrap")
    assert chosen.librdkafka["metadata.recovery.strategy"] == "rebootstrap"


def test_consumer_defaults_are_kafkas_but_for_committing() -> None:
    assert (
        consumer().librdkafka.items()
        >= {
            "session.timeout.ms": 45_000,
            "max.poll.interval.ms": 300_000,
            "fetch.min.bytes": 1,
            "fetch.wait.max.ms": 500,
            "isolation.level": "read_uncommitted",
            "enable.auto.commit": "false",
            "partition.assignment.strategy": "cooperative-sticky",
            "auto.offset.reset": "latest",
        }.items()
    )
    assert consumer().integer("max.poll.records") == 500


def test_the_producer_tuning_sheet_is_accepted_whole() -> None:
    sheet = {
        "batch.size": 65536,
        "linger.ms": 10,
        "compression.type": "lz4",
        "buffer.memory": 67108864,
        "acks": "all",
    }
    chosen = settings(ClientKind.PRODUCER, {**ADDRESS, **sheet})
    assert chosen.librdkafka["queue.buffering.max.kbytes"] == 65_536
    assert opened(confluent_kafka.Producer, chosen) is not None


def test_the_consumer_tuning_sheet_is_accepted_whole() -> None:
    sheet = {
        "fetch.min.bytes": 1048576,
        "fetch.max.wait.ms": 500,
        "max.poll.records": 500,
        "max.poll.interval.ms": 300000,
        "session.timeout.ms": 10000,
        "group.id": "group",
        "group.instance.id": "pod-1",
        "partition.assignment.strategy": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
        "isolation.level": "read_committed",
    }
    opened(confluent_kafka.Consumer, settings(ClientKind.CONSUMER, {**ADDRESS, **sheet})).close()


def test_keyword_arguments_are_options_with_underscores_and_win() -> None:
    chosen = settings(ClientKind.PRODUCER, {**ADDRESS, "linger.ms": 1}, linger_ms=7, batch_size=0)
    assert (chosen.librdkafka["linger.ms"], chosen.librdkafka["batch.size"]) == (7, 1)


def test_addresses_may_be_a_list() -> None:
    chosen = settings(ClientKind.ADMIN, None, bootstrap_servers=["a:1", "b:2"])
    assert chosen.librdkafka["bootstrap.servers"] == "a:1,b:2"


@pytest.mark.parametrize(("given", "expected"), [(0, "0"), ("1", "1"), (-1, "all"), ("all", "all")])
def test_acks_by_any_of_its_names(given: object, expected: str) -> None:
    assert producer(acks=given).librdkafka["acks"] == expected


@pytest.mark.parametrize(
    "options", [{"acks": 1}, {"retries": 0}, {"max_in_flight_requests_per_connection": 6}], ids=str
)
def test_idempotence_gives_way_where_it_was_not_asked_for(options: dict[str, object]) -> None:
    assert producer(**options).librdkafka["enable.idempotence"] == "false"
    for asked in ({"enable_idempotence": True}, {"transactional_id": "t"}):
        with pytest.raises(ConfigError, match="rules out"):
            producer(**options, **asked)


def test_a_transaction_bounds_the_delivery() -> None:
    chosen = producer(transactional_id="t", transaction_timeout_ms=10_000)
    assert "delivery.timeout.ms" not in chosen.librdkafka
    assert opened(confluent_kafka.Producer, chosen) is not None


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("RangeAssignor", "range"),
        (["RangeAssignor", "org.apache.kafka.clients.consumer.RoundRobinAssignor"], "range,roundrobin"),
        ("cooperative-sticky", "cooperative-sticky"),
    ],
)
def test_assignors_by_class_name(given: object, expected: str) -> None:
    assert consumer(partition_assignment_strategy=given).librdkafka["partition.assignment.strategy"] == expected


def test_the_modern_group_protocol_gets_no_options_of_the_classic_one() -> None:
    chosen = consumer(group_protocol="consumer", group_id="g")
    opened(confluent_kafka.Consumer, chosen).close()
    assert "session.timeout.ms" not in chosen.librdkafka


@pytest.mark.parametrize(
    ("kind", "options", "told"),
    [
        (ClientKind.PRODUCER, {"lingr_ms": 1}, "did you mean linger.ms"),
        (ClientKind.CONSUMER, {"fetch_max_wait": 1, "group_id": "g"}, "did you mean fetch.max.wait.ms"),
        (ClientKind.PRODUCER, {"nothing_like_it_at_all": 1}, "docs/CLIENT.md"),
        (ClientKind.PRODUCER, {"compression_type": "rar"}, "rar"),
    ],
)
def test_what_librdkafka_refuses_is_told_by_kafkas_name(
    kind: ClientKind, options: dict[str, object], told: str
) -> None:
    factory = confluent_kafka.Producer if kind is ClientKind.PRODUCER else confluent_kafka.Consumer
    with pytest.raises(ConfigError, match=told):
        opened(factory, settings(kind, ADDRESS, **options))


@pytest.mark.parametrize(
    ("kind", "options", "told"),
    [
        (ClientKind.PRODUCER, {"group_id": "g"}, "option of a consumer, this is a producer"),
        (ClientKind.CONSUMER, {"acks": 1}, "option of a producer, this is a consumer"),
        (ClientKind.PRODUCER, {"acks": 2}, "give 0"),
        (ClientKind.PRODUCER, {"buffer_memory": "lots"}, "whole number"),
        (ClientKind.CONSUMER, {"auto_offset_reset": "smallest"}, "earliest, latest or none"),
        (ClientKind.CONSUMER, {"partition_assignment_strategy": "Mine"}, "'Mine' is not known"),
        (
            ClientKind.CONSUMER,
            {"partition_assignment_strategy": "RangeAssignor,CooperativeStickyAssignor"},
            "one family",
        ),
    ],
)
def test_mistakes_are_refused_before_anything_is_opened(
    kind: ClientKind, options: dict[str, object], told: str
) -> None:
    with pytest.raises(ConfigError, match=told):
        settings(kind, ADDRESS, **options)


def test_an_address_is_needed() -> None:
    with pytest.raises(ConfigError, match="bootstrap_servers="):
        settings(ClientKind.PRODUCER, {})


def test_librdkafkas_own_options_pass() -> None:
    assert producer(queue_buffering_max_messages=10).librdkafka["queue.buffering.max.messages"] == 10
