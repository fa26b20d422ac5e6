"""The raw client, on which Spark's source and sink stand, against Apache Kafka's listeners for TLS and SASL."""

import time
from collections.abc import Iterator, Mapping

import pytest

from ottla.base.types import TopicPartition
from ottla.client import Admin, ClientError
from ottla.client.raw.cluster import Cluster
from ottla.client.raw.connection import NO_CONNECTION, NOT_TRUSTED
from ottla.client.raw.fetching import PartitionReader
from ottla.client.raw.producing import BatchSender
from ottla.client.raw.security import Security
from ottla.client.raw.security_options import is_security_option, parse_security
from ottla.client.raw.topic_leaders import TopicLeaders
from ottla.client.raw.transactions import Transactions
from ottla.wire.records import BatchBuilder, records_of
from tests.secured_kafka import PASSWORD, SESSION_MS, USER, SecuredKafka, secured_kafka, unsigned_token

SCRAM_JAAS = (
    "org.apache.kafka.common.security.scram.ScramLoginModule required "
    f'username="{USER}" password="{PASSWORD.replace(chr(34), chr(92) + chr(34))}";'
)
ANNA = {"username": USER, "password": PASSWORD}
WAYS = {
    "TLS": ("TLS", {}),
    "a certificate": ("MTLS", {}),
    "PLAIN": ("SASL", {"mechanism": "PLAIN", **ANNA}),
    "SCRAM-SHA-256": ("SASL", {"mechanism": "SCRAM-SHA-256", **ANNA}),
    "SCRAM-SHA-512 by TLS": ("SASLTLS", {"mechanism": "SCRAM-SHA-512", "jaas.config": SCRAM_JAAS}),
    "a token by TLS": ("SASLTLS", {"mechanism": "OAUTHBEARER", "oauthbearer.token.function": f"{__name__}:token"}),
}


def token() -> str:
    return unsigned_token()


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    with secured_kafka(tmp_path_factory.mktemp("secured")) as started:
        yield started


def security_of(options: Mapping[str, str]) -> Security:
    return parse_security({name: text for name, text in options.items() if is_security_option(name)})


def cluster_of(options: Mapping[str, str]) -> Cluster:
    return Cluster(options["bootstrap.servers"], client_id="test", timeout_s=20, security=security_of(options))


@pytest.mark.parametrize(("listener", "sasl"), WAYS.values(), ids=WAYS.keys())
def test_a_transaction_is_written_and_read(kafka: SecuredKafka, listener: str, sasl: dict[str, str]) -> None:
    """Coordinator, leader and whoever knows the cluster: each connection says who is there."""
    options = kafka.options(listener, **sasl)
    topic = f"orders-{listener}-{sasl.get('mechanism')}"
    partition = TopicPartition(topic, 0)
    with Admin(bootstrap_servers=kafka.plaintext) as admin, cluster_of(options) as cluster:
        admin.create_topic(topic)
        transactions = Transactions(cluster, timeout_s=20)
        handle = transactions.begin(topic, timeout_ms=60_000)
        sender = BatchSender(
            TopicLeaders(cluster, timeout_s=20),
            {},
            handle.identity,
            transactional_id=topic,
            client_id="test",
            request_timeout_s=20,
            delivery_timeout_s=20,
            security=security_of(options),
        )
        builder = BatchBuilder()
        builder.append(int(time.time() * 1000), b"key", b"value" * 10_000)
        sender.send(partition, builder.build(), record_count=1)
        sender.flush()
        sender.abandon()
        transactions.end(handle, is_commit=True)
        fetched = PartitionReader(cluster, partition, read_committed=True, fetch_bytes=1 << 20).fetch(0)
        assert [record.value for record in records_of(fetched.batches[0].view)] == [b"value" * 10_000]


def test_a_session_is_renewed_before_it_ends(kafka: SecuredKafka) -> None:
    options = kafka.options("SASL", mechanism="SCRAM-SHA-512", **ANNA)
    with cluster_of(options) as cluster:
        ends = time.monotonic() + 2.5 * SESSION_MS / 1000
        while time.monotonic() < ends:
            assert cluster.brokers()


@pytest.mark.parametrize(
    ("listener", "changed", "code", "told"),
    [
        ("SASL", {"sasl.password": "wrong"}, "SASL_AUTHENTICATION_FAILED", "'anna' by PLAIN"),
        (
            "SASLTLS",
            {"sasl.mechanism": "SCRAM-SHA-256", "sasl.password": "wrong"},
            "SASL_AUTHENTICATION_FAILED",
            "SCRAM",
        ),
        ("TLS", {"ssl.ca.location": ""}, NOT_TRUSTED, "ssl.ca.location"),
        ("MTLS", {"ssl.certificate.location": "", "ssl.key.location": ""}, NOT_TRUSTED, "ssl.certificate.location"),
        ("TLS", {"security.protocol": "PLAINTEXT", "ssl.ca.location": None}, NO_CONNECTION, "it speaks TLS"),
        ("SASL", {"security.protocol": "SSL"}, NO_CONNECTION, "something else than security.protocol=SSL"),
    ],
)
def test_mistakes_are_told(
    kafka: SecuredKafka, listener: str, changed: dict[str, str | None], code: str, told: str
) -> None:
    sasl = {"mechanism": "PLAIN", **ANNA} if listener.startswith("SASL") and "security.protocol" not in changed else {}
    given = {**kafka.options(listener, **sasl), **changed}
    chosen = {name: text for name, text in given.items() if text is not None}
    with cluster_of(chosen) as cluster, pytest.raises(ClientError) as caught:
        cluster.brokers()
    assert caught.value.code == code and told in str(caught.value)


def test_one_who_says_nothing_to_a_listener_of_sasl(kafka: SecuredKafka) -> None:
    with cluster_of({"bootstrap.servers": kafka.addresses["SASL"]}) as cluster, pytest.raises(ClientError) as caught:
        cluster.brokers()
    assert "something else than security.protocol=PLAINTEXT" in str(caught.value)


def test_a_listener_without_sasl_offers_no_mechanism(kafka: SecuredKafka) -> None:
    options = {**kafka.options("SASL", mechanism="PLAIN", **ANNA), "bootstrap.servers": kafka.plaintext}
    with cluster_of(options) as cluster, pytest.raises(ClientError) as caught:
        cluster.brokers()
    assert caught.value.code == "UNSUPPORTED_SASL_MECHANISM" and "is this listener one for SASL?" in str(caught.value)


def test_the_admin_asks_in_the_same_way(kafka: SecuredKafka) -> None:
    """librdkafka and the raw client beside it, with one set of options."""
    with Admin(kafka.options("SASLTLS", mechanism="SCRAM-SHA-256", **ANNA)) as admin:
        assert admin.list_transactions() is not None
        assert admin.describe_cluster().brokers
