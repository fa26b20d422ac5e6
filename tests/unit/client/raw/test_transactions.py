"""Transactions by handle against a broker: begun here, ended there."""

import time
from collections.abc import Iterator

import pytest

from ottla.base.types import TopicPartition
from ottla.client import ClientError
from ottla.client.raw.cluster import Cluster
from ottla.client.raw.producing import BatchSender
from ottla.client.raw.topic_leaders import TopicLeaders
from ottla.client.raw.transactions import ONGOING, TransactionHandle, Transactions, check_version
from ottla.testing import Broker
from ottla.wire.records import BatchBuilder


@pytest.fixture
def cluster(ottla_broker: Broker) -> Iterator[Cluster]:
    with Cluster(ottla_broker.bootstrap_servers, client_id="test", timeout_s=10) as found:
        yield found


@pytest.fixture
def transactions(cluster: Cluster) -> Transactions:
    check_version(cluster, timeout_s=10)
    return Transactions(cluster, timeout_s=10)


def write(cluster: Cluster, handle: TransactionHandle, topic: str) -> None:
    leaders = TopicLeaders(cluster, timeout_s=10)
    sender = BatchSender(
        leaders,
        {},
        handle.identity,
        transactional_id=handle.transactional_id,
        client_id="test",
        request_timeout_s=10,
        delivery_timeout_s=10,
    )
    builder = BatchBuilder()
    builder.append(int(time.time() * 1000), b"k", b"v")
    sender.send(TopicPartition(topic, 0), builder.build(), record_count=1)
    sender.flush()


def test_a_handle_is_ended_from_elsewhere_and_the_end_can_be_repeated(
    ottla_broker: Broker, ottla_topic: str, cluster: Cluster, transactions: Transactions
) -> None:
    handle = transactions.begin(f"{ottla_topic}-id", timeout_ms=60_000)
    write(cluster, handle, ottla_topic)
    assert transactions.is_open(handle)
    assert transactions.open_handles(ottla_topic) == [handle]
    with Cluster(ottla_broker.bootstrap_servers, client_id="other", timeout_s=10) as elsewhere:
        other = Transactions(elsewhere, timeout_s=10)
        other.end(handle, is_commit=True)
        other.end(handle, is_commit=True)
        with pytest.raises(ClientError, match=r"INVALID_TXN_STATE|PRODUCER_FENCED"):
            other.end(handle, is_commit=False)
    assert not transactions.is_open(handle)
    assert transactions.open_handles(ottla_topic) == []


def test_taking_over_aborts_what_was_open_and_fences_who_had_it(
    ottla_topic: str, cluster: Cluster, transactions: Transactions
) -> None:
    first = transactions.begin(f"{ottla_topic}-id", timeout_ms=60_000, is_two_phase=True)
    write(cluster, first, ottla_topic)
    second = transactions.begin(f"{ottla_topic}-id", timeout_ms=60_000, is_two_phase=True)
    assert second != first
    with pytest.raises(ClientError, match=r"FENCED|EPOCH|MAPPING"):
        transactions.end(first, is_commit=True)
    with pytest.raises(ClientError, match=r"FENCED|EPOCH|MAPPING"):
        write(cluster, first, ottla_topic)


def test_who_saw_another_owner_cannot_take_over(ottla_topic: str, cluster: Cluster, transactions: Transactions) -> None:
    transactional_id = f"{ottla_topic}-id"
    assert transactions.describe(transactional_id) is None
    first = transactions.begin(transactional_id, timeout_ms=60_000)
    write(cluster, first, ottla_topic)
    seen = transactions.describe(transactional_id)
    assert seen is not None and (seen.state, seen.identity) == (ONGOING, first.identity)
    second = transactions.begin(transactional_id, timeout_ms=60_000, seen=seen.identity)
    write(cluster, second, ottla_topic)
    with pytest.raises(ClientError, match="PRODUCER_FENCED"):
        transactions.begin(transactional_id, timeout_ms=60_000, seen=seen.identity)
    assert transactions.is_open(second)
