"""Scene 8: a bit flips in a segment file. Whoever reads the batch notices, and nothing else suffers.

A running broker sends batches as they are, and the client's CRC finds it. After a crash the recovery reads what was not
surely on the disk: it cuts the log in front of the damaged batch, and says where. What lies below the recovery point is
not cut. Other partitions keep everything in all cases.
"""

import random
from collections.abc import Callable, Iterator
from typing import Final

import pytest
from confluent_kafka import KafkaError

import ottla.testing
from ottla.testing import Broker
from ottla.wire.records import HEADER_BYTES
from tests.chaos.brokers import require_untroubled, wait_until
from tests.chaos.checker import Stored
from tests.chaos.conftest import CreateTopic
from tests.chaos.files import BatchOnDisk, batches_on_disk, segments_of
from tests.chaos.filler import Filler
from tests.chaos.payload import Numbered
from tests.chaos.readers import read_all, read_until_trouble

SEGMENT_BYTES: Final = 1 << 20
DAMAGED, OTHER = 0, 1
WRITER: Final = 1
SINGLE_BATCHES: Final = 10
CHECKPOINT_MS: Final = 100
ROUNDS_MAX: Final = 20
# Base offset and leader epoch are the broker's to set: they lie outside the checksum, in Kafka too.
UNPROTECTED: Final = frozenset([*range(8), *range(12, 16)])
ANYWHERE: Final = [at for at in range(HEADER_BYTES + 1_000) if at not in UNPROTECTED]
IN_RECORDS: Final = range(HEADER_BYTES, HEADER_BYTES + 1_000)


@pytest.fixture
def broker(port: int) -> Iterator[Broker]:
    config = {"log.flush.offset.checkpoint.interval.ms": CHECKPOINT_MS}
    with ottla.testing.broker(port=port, config=config) as running:
        yield running


def fill(broker: Broker, topic: str, create_topic: CreateTopic) -> int:
    """Both partitions get several closed segments and an active one of many batches; the count of records in each."""
    create_topic(broker.bootstrap_servers, topic, partitions=2, config={"segment.bytes": SEGMENT_BYTES})
    filler = Filler(broker, topic, writer=WRITER)
    for partition in (DAMAGED, OTHER):
        filler.write_bytes(2 * SEGMENT_BYTES, partition=partition)
        for _ in range(SINGLE_BATCHES):
            assert filler.write(partition=partition) is None
    return len(filler.history.offsets[OTHER])


def batch_in(broker: Broker, topic: str, chance: random.Random, *, active: bool) -> BatchOnDisk:
    """A batch of the active segment or of a closed one, neither its first nor its last."""
    segments = segments_of(broker.data_dir, topic, DAMAGED)
    wanted = segments[-1] if active else segments[0]
    return chance.choice([one for one in batches_on_disk(broker.data_dir, topic, DAMAGED) if one.path == wanted][1:-1])


def flip_a_bit(batch: BatchOnDisk, at: int, chance: random.Random) -> None:
    with batch.path.open("r+b") as file:
        file.seek(batch.position + at)
        [byte] = file.read(1)
        file.seek(batch.position + at)
        file.write(bytes([byte ^ 1 << chance.randrange(8)]))


def records(partition: int, count: int) -> list[Stored]:
    """The first `count` records of a partition: its only writer numbers them as the broker does."""
    return [Stored(number, Numbered(WRITER, partition, number)) for number in range(count)]


def wait_for_checkpoint(broker: Broker, topic: str, offset: int) -> None:
    """Until the recorded recovery point of the damaged partition has reached an offset."""
    path = broker.data_dir / "recovery-point-offset-checkpoint"

    def has_reached() -> bool:
        rows = [line.split() for line in path.read_text().splitlines()] if path.exists() else []
        return any(row[:2] == [topic, str(DAMAGED)] and int(row[2]) >= offset for row in rows)

    wait_until(has_reached, f"the recovery point is at {offset}")


@pytest.mark.parametrize("active", [False, True], ids=["closed", "active"])
def test_clients_notice_a_flipped_bit(
    active: bool, broker: Broker, chance: random.Random, create_topic: CreateTopic
) -> None:
    count = fill(broker, "flipped", create_topic)
    batch = batch_in(broker, "flipped", chance, active=active)
    flip_a_bit(batch, chance.choice(IN_RECORDS), chance)

    before, error = read_until_trouble(broker.bootstrap_servers, "flipped", DAMAGED)
    assert error is not None
    assert error.code() == KafkaError._BAD_MSG, error.str()
    assert before == records(DAMAGED, batch.header.base_offset)
    behind, error = read_until_trouble(broker.bootstrap_servers, "flipped", DAMAGED, batch.header.next_offset)
    assert error is None
    assert behind == records(DAMAGED, count)[batch.header.next_offset :]
    assert read_all(broker.bootstrap_servers, "flipped", [OTHER]) == {OTHER: records(OTHER, count)}
    require_untroubled(broker)


@pytest.mark.timeout(600)
def test_recovery_cuts_in_front_of_the_damage(
    broker: Broker, chance: random.Random, create_topic: CreateTopic, rounds: int, report: Callable[[str], None]
) -> None:
    flips = min(rounds, ROUNDS_MAX)
    for number in range(flips):
        topic = f"flipped-{number}"
        count = fill(broker, topic, create_topic)
        batch = batch_in(broker, topic, chance, active=True)
        at = chance.choice(ANYWHERE)
        broker.kill()
        flip_a_bit(batch, at, chance)
        broker.start()

        where = f"byte {at} of {batch.header}"
        logs = read_all(broker.bootstrap_servers, topic, [DAMAGED, OTHER])
        assert logs[DAMAGED] == records(DAMAGED, batch.header.base_offset), where
        assert logs[OTHER] == records(OTHER, count), where
        said = f"cutting {batch.path} at position {batch.position} (offset {batch.header.base_offset})"
        assert said in broker.log, where
        assert Filler(broker, topic, writer=2).write(partition=DAMAGED) is None
    require_untroubled(broker)
    report(f"{flips} flips, each log cut in front of its batch")


def test_recovery_does_not_cut_below_the_recovery_point(
    broker: Broker, chance: random.Random, create_topic: CreateTopic
) -> None:
    count = fill(broker, "flipped", create_topic)
    batch = batch_in(broker, "flipped", chance, active=False)
    sealed, following, *_ = segments_of(broker.data_dir, "flipped", DAMAGED)
    assert batch.path == sealed
    wait_for_checkpoint(broker, "flipped", int(following.stem))
    broker.kill()
    flip_a_bit(batch, chance.choice(IN_RECORDS), chance)
    broker.start()

    before, error = read_until_trouble(broker.bootstrap_servers, "flipped", DAMAGED)
    assert error is not None
    assert error.code() == KafkaError._BAD_MSG, error.str()
    assert before == records(DAMAGED, batch.header.base_offset)
    behind, error = read_until_trouble(broker.bootstrap_servers, "flipped", DAMAGED, batch.header.next_offset)
    assert (behind, error) == (records(DAMAGED, count)[batch.header.next_offset :], None)
    assert "cutting" not in broker.log
    require_untroubled(broker)
