"""Two-phase commit (KIP-939): a transaction is prepared, everybody dies, and whoever comes back decides once."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import ottla
import ottla.testing
from ottla.client.errors import coded_error
from ottla.client.raw.cluster import Cluster
from ottla.client.raw.patience import COORDINATOR_PASSING, patiently
from ottla.client.raw.transactions import TransactionHandle, Transactions
from ottla.wire import api
from ottla.wire.apis import ApiKey
from tests.conformance.client import Client
from tests.conformance.handles import write
from tests.conformance.kafka_tools import Tools
from tests.conformance.transactions import (
    committed_values,
    new_transactional_id,
    sees_nothing,
    values,
)
from tests.conformance.waiting import eventually

pytestmark = pytest.mark.needs_ottla

TIMEOUT_S = 30.0
TIMEOUT_MS = 1_000  # Of transactions that are not of two phases; the broker looks for them twice a second.


@pytest.fixture
def topic(reader: Client, topic_name: str) -> str:
    reader.create_topic(topic_name)
    return topic_name


@pytest.fixture
def cluster(mortal_broker: ottla.testing.Broker) -> Iterator[Cluster]:
    with Cluster(mortal_broker.bootstrap_servers, client_id="driver", timeout_s=TIMEOUT_S) as opened:
        yield opened


def test_a_handle_outlives_the_broker_and_commits_once(
    cluster: Cluster, mortal_broker: ottla.testing.Broker, reader: Client, topic: str
) -> None:
    transactions = Transactions(cluster, timeout_s=TIMEOUT_S)
    handle = transactions.begin(new_transactional_id(), timeout_ms=TIMEOUT_MS, is_two_phase=True)
    write(cluster, handle, topic, *values("prepared", 3))
    mortal_broker.kill()
    mortal_broker.restart()
    assert sees_nothing(reader, topic)
    with Cluster(mortal_broker.bootstrap_servers, client_id="other driver", timeout_s=TIMEOUT_S) as other:
        for _ in range(3):
            Transactions(other, timeout_s=TIMEOUT_S).end(handle, is_commit=True)
        with pytest.raises(ottla.ClientError) as caught:
            Transactions(other, timeout_s=TIMEOUT_S).end(handle, is_commit=False)
    assert caught.value.code == "INVALID_TXN_STATE"
    assert committed_values(reader, topic, count=3) == [*values("prepared", 3)]


def test_a_handle_waits_longer_than_any_time_out(cluster: Cluster, reader: Client, topic: str) -> None:
    """Two transactions begun together: the broker aborts the one that has a time-out, and only that one."""
    transactions = Transactions(cluster, timeout_s=TIMEOUT_S)
    impatient = transactions.begin(new_transactional_id(), timeout_ms=TIMEOUT_MS)
    handle = transactions.begin(new_transactional_id(), timeout_ms=TIMEOUT_MS, is_two_phase=True)
    write(cluster, handle, topic, b"patient")
    write(cluster, impatient, topic, b"impatient")

    def aborted() -> None:
        view = transactions.describe(impatient.transactional_id)
        assert view is not None
        assert view.state == "CompleteAbort"

    eventually(aborted)
    transactions.end(handle, is_commit=True)
    assert committed_values(reader, topic, count=1) == [b"patient"]


def checked(answer: api.InitProducerIdResponse) -> api.InitProducerIdResponse:
    if answer.error_code:
        raise coded_error(answer.error_code, "coming back")
    return answer


def test_whoever_comes_back_is_told_what_is_open_and_ends_it(
    tools: Tools, cluster: Cluster, mortal_broker: ottla.testing.Broker, reader: Client, topic: str
) -> None:
    transactional_id = new_transactional_id()
    handle = Transactions(cluster, timeout_s=TIMEOUT_S).begin(
        transactional_id, timeout_ms=TIMEOUT_MS, is_two_phase=True
    )
    write(cluster, handle, topic, b"prepared")
    mortal_broker.kill()
    mortal_broker.restart()
    request = api.InitProducerIdRequest(
        transactional_id=transactional_id, transaction_timeout_ms=TIMEOUT_MS, enable2_pc=True, keep_prepared_txn=True
    )

    back = patiently(
        lambda: checked(cluster.ask(ApiKey.INIT_PRODUCER_ID, request, api.InitProducerIdResponse)),
        passing=COORDINATOR_PASSING,
        timeout_s=TIMEOUT_S,
    )
    assert (back.ongoing_txn_producer_id, back.ongoing_txn_producer_epoch) == handle.identity
    logs = Path(mortal_broker.data_dir).rglob("__transaction_state-*/*.log")
    decoded = "".join(tools.dump(log, "--transaction-log-decoder").out for log in logs)
    assert re.search(rf'"{transactional_id}".*"nextProducerEpoch":{back.producer_epoch}\b', decoded), decoded
    transactions = Transactions(cluster, timeout_s=TIMEOUT_S)
    with pytest.raises(ottla.ClientError) as caught:
        transactions.end(handle, is_commit=False)
    assert caught.value.code == "PRODUCER_FENCED"
    own_handle = TransactionHandle(transactional_id, back.producer_id, back.producer_epoch)
    transactions.end(own_handle, is_commit=True)
    transactions.end(own_handle, is_commit=True)
    assert committed_values(reader, topic, count=1) == [b"prepared"]
