"""Scenes of the seeds that real clients play: 8, 11, 17, 18, 19, and of 58 what one node can show.

The other scenes have tests in the files of their subjects; `docs/FEATURES.md` lists them all. Rates are modest and bounds
generous: this shows that it holds, the benchmarks (`fan-out`, `many-partitions`) show how well.
"""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from ottla.client import Consumer, Producer, TopicPartition
from ottla.client.load import LoadResult, consume_load, produce_load
from tests.conformance.client import Client, ClientError, Record
from tests.conformance.registry import Can, clients_that
from tests.conformance.segments import batches_on_disk
from tests.conformance.under_test import BrokerUnderTest, Keeper

WAIT_S = 60.0
TIMES_SLOWER_MAX = 10  # Than planned: the machine may be busy with something else.


# -- scene 8: a bit flipped in a .log ---------------------------------------------------------------------------------

LIBRDKAFKA = ("confluent-kafka", "kcat")  # Checks only when told to.


@pytest.mark.needs_directory
@clients_that(Can.READ)
def test_scene_08_a_client_notices_a_flipped_bit_and_others_are_unaffected(
    client: Client, keeper: Keeper, topic_name: str, data_dir: Path
) -> None:
    keeper.create(topic_name, partitions=2)
    for partition in (0, 1):
        for number in range(3):  # A batch each.
            keeper.produce(topic_name, [Record(value=b"value %d" % number, partition=partition)])
    flip_a_bit_of_the_second_batch(data_dir, topic_name)
    settings = {"raw": {"check.crcs": "true"}} if client.name in LIBRDKAFKA else {}

    assert [found.value for found in client.fetch(topic_name, count=1, **settings)] == [b"value 0"]
    with pytest.raises(ClientError):
        client.fetch(topic_name, offset=1, count=1, **settings)
    assert [found.value for found in client.fetch(topic_name, offset=2, count=1, **settings)] == [b"value 2"]
    intact = client.fetch(topic_name, partition=1, count=3, **settings)
    assert [found.value for found in intact] == [b"value 0", b"value 1", b"value 2"]


def flip_a_bit_of_the_second_batch(data_dir: Path, topic: str) -> None:
    first, second, _ = batches_on_disk(data_dir, topic)
    [path] = data_dir.glob(f"{topic}-0/*.log")
    last_value_byte = first.size_bytes + second.size_bytes - 2  # Behind it is the count of headers.
    with path.open("r+b") as file:
        file.seek(last_value_byte)
        [byte] = file.read(1)
        file.seek(last_value_byte)
        file.write(bytes([byte ^ 1]))


# -- scene 11: the producer id changes on restart ---------------------------------------------------------------------


@pytest.mark.needs_directory
@clients_that(Can.WRITE)
def test_scene_11_a_restarted_producer_repeats_what_it_had_sent(
    client: Client, keeper: Keeper, topic: str, data_dir: Path
) -> None:
    """Idempotence ends with the producer: only a transactional.id outlives it."""
    for _ in range(2):  # A new producer each time, as after a crash before it had noted its progress.
        client.produce(topic, [Record(key=b"order 7", value=b"paid")], idempotence=True, acks="all")
    found = keeper.fetch(topic, count=2)
    assert [(record.key, record.value) for record in found] == [(b"order 7", b"paid")] * 2
    first, second = batches_on_disk(data_dir, topic)
    assert (first.base_sequence, second.base_sequence) == (0, 0)
    assert -1 < first.producer_id != second.producer_id > -1


# -- scene 17: long poll ----------------------------------------------------------------------------------------------

FETCH_WAIT_NAMES = {"java": "fetch.max.wait.ms", "confluent-kafka": "fetch.wait.max.ms"}
LONG_WAIT_MS, SHORT_WAIT_MS = 8_000, 1_500
ROUNDS = 5

both_families = pytest.mark.parametrize("client", list(FETCH_WAIT_NAMES), indirect=True)


@both_families
def test_scene_17_a_waiting_consumer_is_answered_when_data_arrives(client: Client, keeper: Keeper, topic: str) -> None:
    settings = {"raw": {FETCH_WAIT_NAMES[client.name]: str(LONG_WAIT_MS)}, "consumer": topic}
    keeper.produce(topic, [Record(value=b"0")], producer=topic)
    assert client.fetch(topic, count=1, **settings)[0].value == b"0"
    begin = time.monotonic()
    for number in range(1, ROUNDS):  # The consumer has asked for the next record before that is written.
        keeper.produce(topic, [Record(value=b"%d" % number)], producer=topic)
        [found] = client.fetch(topic, count=1, wait_ms=2 * LONG_WAIT_MS, **settings)
        assert (found.offset, found.value) == (number, b"%d" % number)
    assert time.monotonic() - begin < LONG_WAIT_MS / 1000, "each would have taken that long if data did not end a wait"
    for opened in (client, keeper.client):
        opened.call("close", name=topic)


@both_families
def test_scene_17_fetch_min_bytes_is_waited_for(client: Client, keeper: Keeper, topic: str) -> None:
    keeper.produce(topic, [Record(value=b"too little")])
    patient = {"fetch.min.bytes": "1000000", FETCH_WAIT_NAMES[client.name]: str(SHORT_WAIT_MS)}
    begin = time.monotonic()
    [found] = client.fetch(topic, count=1, raw=patient)
    assert found.value == b"too little"
    assert time.monotonic() - begin >= SHORT_WAIT_MS / 1000


# -- scene 18: a fast and a slow consumer -----------------------------------------------------------------------------

FAST_PER_SECOND, SLOW_PER_SECOND = 10_000, 100
PLANNED_S = 2.0
# Little is fetched ahead, so that the slow one is slow towards the broker and not only behind its own buffer.
SLOW_FETCHES = {"queued.min.messages": 1, "queued.max.messages.kbytes": 16, "max.partition.fetch.bytes": 4096}


@dataclass(slots=True, kw_only=True)
class SlowReader:
    """Takes a record, works on it for its hundredth of a second, takes the next."""

    bootstrap: str
    topic: str
    group: str | None
    """As the only member, which commits each record; None: it has assigned itself the partition."""
    ready: threading.Event
    over: threading.Event
    offsets: list[int]

    def run(self) -> None:
        settings = {**SLOW_FETCHES, "auto.offset.reset": "earliest"}
        if self.group is not None:
            settings |= {"group.id": self.group, "enable.auto.commit": False}
        with Consumer(settings, bootstrap_servers=self.bootstrap) as consumer:
            if self.group is None:
                consumer.assign(TopicPartition(self.topic, 0))
            else:
                consumer.subscribe([self.topic])
            while not self.over.wait(1 / SLOW_PER_SECOND):
                found = [record.offset for record in consumer.poll(100, max_records=1)]
                self.offsets += found
                if consumer.assignment():
                    self.ready.set()
                if found and self.group is not None:
                    consumer.commit()


@pytest.fixture(params=["alone", "as a group"])
def slow_reader(request: pytest.FixtureRequest, broker: BrokerUnderTest, topic: str) -> Iterator[SlowReader]:
    reader = SlowReader(
        bootstrap=broker.bootstrap,
        topic=topic,
        group=None if request.param == "alone" else f"slow-{topic}",
        ready=threading.Event(),
        over=threading.Event(),
        offsets=[],
    )
    thread = threading.Thread(target=reader.run, name="slow reader")
    thread.start()
    assert reader.ready.wait(WAIT_S)
    yield reader
    reader.over.set()
    thread.join(WAIT_S)


def test_scene_18_a_slow_consumer_slows_neither_the_fast_one_nor_the_producer(
    broker: BrokerUnderTest, topic: str, slow_reader: SlowReader
) -> None:
    count = int(FAST_PER_SECOND * PLANNED_S)
    fast = ReaderOfAll(broker.bootstrap, topic, count)
    fast.start()
    begin = time.monotonic()
    produce_at_rate(broker.bootstrap, topic, rate=FAST_PER_SECOND, count=count)
    produced_s = time.monotonic() - begin
    fast.join(WAIT_S)
    fast_s = time.monotonic() - begin
    slow_reader.over.set()

    assert fast.result.messages == count
    assert max(produced_s, fast_s) < PLANNED_S * TIMES_SLOWER_MAX
    read_slowly = len(slow_reader.offsets)
    assert slow_reader.offsets == list(range(read_slowly)), "dense and in order, at its own pace"
    assert fast_s * SLOW_PER_SECOND / TIMES_SLOWER_MAX < read_slowly < count / 10


# -- scene 19: five readers -------------------------------------------------------------------------------------------

READERS = 5
MODEST_PER_SECOND = 10_000  # Of 1 KB: 10 MB/s in, 50 MB/s out. The benchmark does 115 and 575.


class ReaderOfAll(threading.Thread):
    """Reads `count` messages from the start of a partition while they are written; a hole in them is its error."""

    def __init__(self, bootstrap: str, topic: str, count: int) -> None:
        super().__init__(name="reader of all", daemon=True)
        self._arguments = (bootstrap, topic, count)
        self._result: LoadResult | Exception | None = None

    def run(self) -> None:
        bootstrap, topic, count = self._arguments
        try:
            self._result = consume_load(bootstrap, topic, count=count, stall_seconds_max=WAIT_S)
        except Exception as error:
            self._result = error

    @property
    def result(self) -> LoadResult:
        assert isinstance(self._result, LoadResult), f"{self.name}: {self._result}"
        return self._result


def produce_at_rate(bootstrap: str, topic: str, *, rate: int, count: int) -> None:
    """A tenth of a second's messages at a time, each tenth when it is due or, behind it, at once."""
    step = rate // 10
    begin = time.monotonic()
    for sent in range(0, count, step):
        time.sleep(max(0.0, begin + sent / rate - time.monotonic()))
        produce_load(bootstrap, topic, count=min(step, count - sent))


def test_scene_19_five_readers_keep_up_with_the_producer(
    broker: BrokerUnderTest, topic: str, record_property: Callable[[str, object], None]
) -> None:
    count = int(MODEST_PER_SECOND * PLANNED_S)
    readers = [ReaderOfAll(broker.bootstrap, topic, count) for _ in range(READERS)]
    begin = time.monotonic()
    for reader in readers:
        reader.start()
    produce_at_rate(broker.bootstrap, topic, rate=MODEST_PER_SECOND, count=count)
    for reader in readers:
        reader.join(WAIT_S)
    seconds = time.monotonic() - begin
    assert [reader.result.messages for reader in readers] == [count] * READERS
    assert seconds < PLANNED_S * TIMES_SLOWER_MAX
    record_property("megabytes_per_second_read", sum(reader.result.bytes for reader in readers) / seconds / 1e6)


# -- scene 58: a thousand partitions ----------------------------------------------------------------------------------

PARTITION_COUNT = 1000


def test_scene_58_a_topic_of_a_thousand_partitions(
    broker: BrokerUnderTest, borrow: Callable[[str], Client], keeper: Keeper, topic_name: str
) -> None:
    java = borrow("java")
    java.create_topic(topic_name, partitions=PARTITION_COUNT)
    described = java.partitions(topic_name)
    assert [one["index"] for one in described] == list(range(PARTITION_COUNT))
    assert all(one["leader"] == one["replicas"][0] for one in described)

    with Producer(bootstrap_servers=broker.bootstrap) as producer:
        sent = [producer.send(topic_name, str(index), partition=index) for index in range(PARTITION_COUNT)]
        assert [delivery.get(WAIT_S).partition for delivery in sent] == list(range(PARTITION_COUNT))
    with Consumer(bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign(consumer.partitions_for(topic_name))
        found: dict[int, bytes | None] = {}
        while len(found) < PARTITION_COUNT and (records := consumer.poll(WAIT_S * 1000)):
            found.update((record.partition, record.value) for record in records)
    assert found == {index: b"%d" % index for index in range(PARTITION_COUNT)}
    keeper.delete(topic_name)
