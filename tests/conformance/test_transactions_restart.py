"""The broker stops or is killed while transactions are under way: they go on, or end as a whole."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

import ottla.testing
from tests.conformance.client import Client, ClientError, Record
from tests.conformance.groups import committed, new_group
from tests.conformance.registry import Can, clients_that
from tests.conformance.transactions import Transactional, committed_values, last_stable_offset, values
from tests.conformance.waiting import eventually

pytestmark = pytest.mark.needs_ottla

Open = Callable[..., Transactional]
End = Callable[[ottla.testing.Broker], None]

ENDS = [ottla.testing.Broker.stop, ottla.testing.Broker.kill]
TIME_OUT_MS = 3000
TIME_OUT_WAIT_S = 30
PARTITIONS = 3
KILL_DELAYS_S = [0.0, 0.001, 0.003, 0.01, 0.03]


@pytest.fixture
def topic(reader: Client, topic_name: str) -> str:
    reader.create_topic(topic_name, partitions=PARTITIONS)
    return topic_name


@pytest.fixture
def open_producer(transactional: Open, mortal_broker: ottla.testing.Broker) -> Open:
    def open_one(client: Client, transactional_id: str | None = None, **settings: object) -> Transactional:
        return transactional(client, transactional_id, bootstrap=mortal_broker.bootstrap_servers, **settings)

    return open_one


@pytest.fixture(params=ENDS, ids=["SIGTERM", "kill -9"])
def restarted(request: pytest.FixtureRequest, mortal_broker: ottla.testing.Broker) -> Callable[[], None]:
    def restart() -> None:
        request.param(mortal_broker)
        mortal_broker.restart()

    return restart


@clients_that(Can.TRANSACT, Can.OUTLAST_COORDINATOR)
def test_a_transaction_goes_on_after_a_restart(
    client: Client, reader: Client, open_producer: Open, topic: str, restarted: Callable[[], None]
) -> None:
    producer = open_producer(client)
    producer.begin()
    producer.write(topic, *values("before", 2))
    restarted()
    assert eventually(lambda: last_stable_offset(reader, topic)) == 0
    producer.write(topic, *values("after", 2))
    producer.commit()
    expected = [*values("before", 2), *values("after", 2)]
    assert committed_values(reader, topic, count=len(expected)) == expected


@clients_that(Can.TRANSACT, Can.OUTLAST_COORDINATOR)
def test_a_transaction_aborts_after_a_restart(
    client: Client, reader: Client, open_producer: Open, topic: str, restarted: Callable[[], None]
) -> None:
    producer = open_producer(client)
    producer.begin()
    producer.write(topic, b"aborted")
    restarted()
    producer.abort()
    producer.begin()
    producer.write(topic, b"committed")
    producer.commit()
    assert committed_values(reader, topic, count=1) == [b"committed"]


@clients_that(Can.TRANSACT, Can.OUTLAST_COORDINATOR)
def test_a_zombie_stays_fenced_after_a_restart(
    client: Client, reader: Client, open_producer: Open, topic: str, restarted: Callable[[], None]
) -> None:
    zombie = open_producer(client)
    zombie.begin()
    zombie.write(topic, b"zombie")
    successor = open_producer(client, zombie.transactional_id)
    restarted()
    with pytest.raises(ClientError):
        zombie.commit()
    successor.begin()
    successor.write(topic, b"successor")
    successor.commit()
    assert committed_values(reader, topic, count=1) == [b"successor"]


def test_an_abandoned_transaction_times_out_after_a_restart(
    reader: Client, open_producer: Open, topic: str, restarted: Callable[[], None]
) -> None:
    abandoned = open_producer(reader, timeout_ms=TIME_OUT_MS)
    abandoned.begin()
    abandoned.write(topic, b"abandoned")
    restarted()
    reader.produce(topic, [Record(value=b"after")])
    assert committed_values(reader, topic, count=1, wait_ms=TIME_OUT_WAIT_S * 1000) == [b"after"]


def test_pending_offsets_outlive_a_restart(
    borrow: Callable[[str], Client], reader: Client, open_producer: Open, topic: str, restarted: Callable[[], None]
) -> None:
    """By Java: librdkafka's call did not come back within a minute when the broker was back this soon."""
    group = new_group()
    producer = open_producer(borrow("java"))
    producer.begin()
    producer.send_offsets(group, topic, {0: 5})
    restarted()
    plain = {"group": group, "topic": topic, "partition": 0, "require_stable": False}
    assert eventually(lambda: reader.call("fetch_offset", **plain)) == -1
    producer.send_offsets(group, topic, {1: 6})
    producer.commit()
    assert committed(reader, group, topic, (0, 1)) == {0: 5, 1: 6}


@pytest.mark.parametrize("name", ["confluent-kafka", "java"])
def test_a_broker_killed_at_the_commit_leaves_all_or_nothing(
    name: str,
    borrow: Callable[[str], Client],
    reader: Client,
    mortal_broker: ottla.testing.Broker,
    open_producer: Open,
    topic: str,
) -> None:
    """Killed at some moment around EndTxn and its markers; the client asks again, and must be told the truth."""
    producer = open_producer(borrow(name))
    committed_rounds = []
    for delay_s in KILL_DELAYS_S:
        number = len(committed_rounds)
        producer.begin()
        for partition in range(PARTITIONS):
            producer.write(topic, b"%d" % number, partition=partition)
        with ThreadPoolExecutor() as threads:
            committing = threads.submit(producer.commit)
            time.sleep(delay_s)
            mortal_broker.kill()
            mortal_broker.restart()
            committing.result()
        committed_rounds.append(b"%d" % number)
        for partition in range(PARTITIONS):
            found = committed_values(reader, topic, count=len(committed_rounds), partition=partition)
            assert found == committed_rounds, (
                f"partition {partition}, killed {delay_s} s after the commit was asked for"
            )
