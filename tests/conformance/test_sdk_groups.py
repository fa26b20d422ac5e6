"""The SDK's groups, transactions and parallel consumer (scene 39) in front of the broker under test."""

import random
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator

import pytest

import ottla
from ottla import TopicPartition
from tests.conformance.under_test import BrokerUnderTest, Keeper
from tests.conformance.waiting import eventually

WAIT_S = 30

OpenConsumer = Callable[..., ottla.Consumer]


@pytest.fixture
def admin(broker: BrokerUnderTest) -> Iterator[ottla.Admin]:
    with ottla.Admin(bootstrap_servers=broker.bootstrap) as opened:
        yield opened


@pytest.fixture
def open_consumer(broker: BrokerUnderTest) -> Iterator[OpenConsumer]:
    opened: list[ottla.Consumer] = []

    def open_one(group: str, **options: object) -> ottla.Consumer:
        defaults = {"bootstrap.servers": broker.bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
        opened.append(ottla.Consumer(defaults, **options))  # type: ignore[arg-type]
        return opened[-1]

    yield open_one
    for consumer in opened:
        consumer.close()


def fill(broker: BrokerUnderTest, topic: str, keys: list[str]) -> None:
    """A record a key, numbered from 0 on within each key."""
    counts: dict[str, int] = defaultdict(int)
    with ottla.Producer(bootstrap_servers=broker.bootstrap) as producer:
        for key in keys:
            producer.send(topic, str(counts[key]), key)
            counts[key] += 1


def poll_until(consumers: list[ottla.Consumer], is_done: Callable[[], bool]) -> list[ottla.ConsumerRecord]:
    records: list[ottla.ConsumerRecord] = []
    deadline = time.monotonic() + WAIT_S
    while not is_done():
        assert time.monotonic() < deadline
        for consumer in consumers:
            records += consumer.poll(100)
    return records


def test_a_second_member_takes_over_what_the_first_gives_up(
    broker: BrokerUnderTest, keeper: Keeper, topic_name: str, open_consumer: OpenConsumer, admin: ottla.Admin
) -> None:
    keeper.create(topic_name, partitions=4)
    fill(broker, topic_name, [f"key-{number}" for number in range(40)])
    group = f"group-{topic_name}"
    first, second = open_consumer(group), open_consumer(group)
    revoked: list[TopicPartition] = []

    def on_revoke(partitions: list[TopicPartition]) -> None:
        first.commit()
        revoked.extend(partitions)

    read: list[ottla.ConsumerRecord] = []
    first.subscribe(topic_name, on_revoke=on_revoke)
    while len(read) < 40:
        read += first.poll(1_000)
    second.subscribe(topic_name)
    again = poll_until([first, second], lambda: len(first.assignment()) == len(second.assignment()) == 2)
    assert again == []
    assert sorted(revoked) == second.assignment()
    described = admin.describe_group(group)
    assert described.state == "Stable"
    assert sorted(member.partitions for member in described.members) == sorted(
        tuple(consumer.assignment()) for consumer in (first, second)
    )
    assert sum(position.offset for position in admin.list_group_offsets(group).values()) == 40


def test_a_group_is_listed_described_moved_and_deleted(
    broker: BrokerUnderTest, keeper: Keeper, topic_name: str, open_consumer: OpenConsumer, admin: ottla.Admin
) -> None:
    keeper.create(topic_name, partitions=2)
    fill(broker, topic_name, [f"key-{number}" for number in range(20)])
    group, partition = f"group-{topic_name}", TopicPartition(topic_name, 0)
    consumer = open_consumer(group)
    consumer.subscribe(topic_name)
    poll_until([consumer], lambda: sum(consumer._positions[each].offset for each in consumer._positions) == 20)
    consumer.commit()
    assert [listing.state for listing in admin.list_groups() if listing.group == group] == ["Stable"]
    with pytest.raises(ottla.ClientError, match="NON_EMPTY_GROUP"):
        admin.delete_group(group)
    with pytest.raises(ottla.ClientError, match="NON_EMPTY_GROUP"):
        admin.alter_group_offsets(group, {partition: 0})
    with pytest.raises(ottla.ClientError, match="GROUP_SUBSCRIBED_TO_TOPIC"):
        admin.delete_group_offsets(group, partition)
    consumer.close()
    admin.alter_group_offsets(group, {partition: ottla.OffsetAndMetadata(3, "by hand")})
    assert admin.list_group_offsets(group)[partition][:2] == (3, "by hand")
    admin.delete_group_offsets(group, partition)
    assert partition not in admin.list_group_offsets(group)
    admin.delete_group(group)
    with pytest.raises(ottla.ClientError, match="GROUP_ID_NOT_FOUND"):
        admin.describe_group(group)


def test_a_transaction_is_listed_described_and_ended_where_it_hangs(
    broker: BrokerUnderTest, keeper: Keeper, topic_name: str, admin: ottla.Admin
) -> None:
    keeper.create(topic_name)
    partition, transactional_id = TopicPartition(topic_name, 0), f"txn-{topic_name}"
    with ottla.Producer(bootstrap_servers=broker.bootstrap, transactional_id=transactional_id) as producer:
        producer.begin_transaction()
        offset = producer.send(topic_name, "undecided").get(timeout=WAIT_S).offset
        described = admin.describe_transaction(transactional_id)
        assert (described.state, described.partitions) == ("Ongoing", (partition,))
        listed = {listing.transactional_id: listing for listing in admin.list_transactions(states=["Ongoing"])}
        assert listed[transactional_id].producer_id == described.producer_id
        [state] = admin.describe_producers(partition)
        assert (state.producer_id, state.transaction_start_offset) == (described.producer_id, offset)
        with pytest.raises(ottla.ClientError, match="NO_SUCH_TRANSACTION"):
            admin.abort_transaction(partition, offset + 1)
        admin.abort_transaction(partition, offset)
        [state] = admin.describe_producers(partition)
        assert state.transaction_start_offset is None
        producer.abort_transaction()
    with pytest.raises(ottla.ClientError, match="TRANSACTIONAL_ID_NOT_FOUND"):
        admin.describe_transaction("nobody")


def test_a_second_producer_of_an_id_fences_the_first(broker: BrokerUnderTest, topic: str) -> None:
    """Scene 35, as the SDK tells it."""
    options = {"bootstrap_servers": broker.bootstrap, "transactional_id": f"zombie-{topic}"}
    with ottla.Producer(**options) as zombie, ottla.Producer(**options) as successor:  # type: ignore[arg-type]
        zombie.begin_transaction()
        zombie.send(topic, "late").get(timeout=WAIT_S)
        successor.init_transactions()
        with pytest.raises(ottla.ClientError, match=r"give each running instance its own") as caught:
            zombie.commit_transaction()
        assert caught.value.fatal
        with successor.transaction():
            successor.send(topic, "heir")
    with ottla.Consumer(
        bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest", isolation_level="read_committed"
    ) as consumer:
        consumer.assign(TopicPartition(topic, 0))
        assert [record.value for record in consumer.poll(WAIT_S * 1000)] == [b"heir"]


def test_parallel_handlers_keep_the_order_of_keys_and_commit_only_what_is_done(
    broker: BrokerUnderTest, keeper: Keeper, topic_name: str, open_consumer: OpenConsumer, admin: ottla.Admin
) -> None:
    """Scene 39. Handlers take times of chance, so that without lanes they would overtake each other."""
    keeper.create(topic_name, partitions=3)
    chance = random.Random(39)
    fill(broker, topic_name, [f"key-{chance.randrange(20)}" for _ in range(600)])
    group = f"parallel-{topic_name}"
    seen: dict[bytes, list[int]] = defaultdict(list)
    handled, at_work_max, lock = 0, 0, threading.Lock()
    at_work: dict[bytes, int] = defaultdict(int)

    def handle(record: ottla.ConsumerRecord) -> None:
        nonlocal handled, at_work_max
        with lock:
            at_work[record.key] += 1
            at_work_max = max(at_work_max, sum(at_work.values()))
            assert at_work[record.key] == 1
        threading.Event().wait(random.random() / 500)
        with lock:
            at_work[record.key] -= 1
            seen[record.key].append(int(record.value))
            handled += 1
            if handled == 600:
                parallel.stop()

    parallel = ottla.ParallelConsumer(
        open_consumer(group), topic_name, handle, ordering="key", workers=8, in_flight_max=100
    )
    parallel.run()
    assert at_work_max > 1
    assert all(numbers == list(range(len(numbers))) for numbers in seen.values())
    assert sum(map(len, seen.values())) == 600
    assert sum(position.offset for position in admin.list_group_offsets(group).values()) == 600


def test_a_poison_record_stops_its_partition_before_it_and_a_restart_meets_it_again(
    broker: BrokerUnderTest, keeper: Keeper, topic: str, open_consumer: OpenConsumer, admin: ottla.Admin
) -> None:
    fill(broker, topic, ["key"] * 10)
    group = f"poison-{topic}"
    letters: list[int] = []

    def handle(record: ottla.ConsumerRecord) -> None:
        if record.value == b"6":
            raise ValueError("poison")
        if record.value == b"9":
            again.stop()

    consumer = open_consumer(group)
    retries = ottla.Retries(attempts=2, backoff_s=0.01)
    again = ottla.ParallelConsumer(consumer, topic, handle, retries=retries)
    with pytest.raises(ottla.HandlerFailed, match=f"{topic}-0@6"):
        again.run()
    consumer.close()
    assert admin.list_group_offsets(group)[TopicPartition(topic, 0)].offset == 6
    again = ottla.ParallelConsumer(
        open_consumer(group),
        topic,
        handle,
        retries=retries,
        dead_letter=lambda record, error: letters.append(record.offset),
    )
    again.run()
    assert letters == [6]
    assert admin.list_group_offsets(group)[TopicPartition(topic, 0)].offset == 10


def test_two_parallel_consumers_share_a_topic_and_every_record_is_handled(
    broker: BrokerUnderTest, keeper: Keeper, topic_name: str, open_consumer: OpenConsumer, admin: ottla.Admin
) -> None:
    """The second joins while the first is at work: revoked partitions are committed as far as they are done."""
    keeper.create(topic_name, partitions=4)
    fill(broker, topic_name, [f"key-{number}" for number in range(1_200)])
    group = f"shared-{topic_name}"
    seen: set[bytes] = set()
    reading, by_second = threading.Event(), threading.Event()

    def handle(record: ottla.ConsumerRecord) -> None:
        threading.Event().wait(0.01)
        seen.add(record.key)
        reading.set()
        if threading.current_thread().name in second_names:
            by_second.set()

    parallels = [ottla.ParallelConsumer(open_consumer(group), topic_name, handle, workers=4) for _ in range(2)]
    second_names: set[str] = set()
    for worker in parallels[1]._workers:
        worker.name = f"second-{worker.name}"
        second_names.add(worker.name)
    threads = [threading.Thread(target=parallel.run) for parallel in parallels]
    threads[0].start()
    assert reading.wait(WAIT_S)
    threads[1].start()

    def all_read() -> None:
        assert len(seen) == 1_200

    eventually(all_read, wait_s=WAIT_S)
    for parallel, thread in zip(parallels, threads, strict=True):
        parallel.stop()
        thread.join(WAIT_S)
    assert by_second.is_set()
    assert sum(position.offset for position in admin.list_group_offsets(group).values()) == 1_200
