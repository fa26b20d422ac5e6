"""A full disk: producers are told KAFKA_STORAGE_ERROR, consumers go on, and room heals it without a restart.

The data directory is a small file system of its own. It is filled by producing, healed in one of three ways, filled
again. Meanwhile a patient idempotent producer keeps trying: in the end it has lost nothing and repeated nothing.
"""

import errno
import random
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

import ottla.testing
from ottla.testing import Broker
from tests.chaos.brokers import require_untroubled, wait_until
from tests.chaos.checker import judge
from tests.chaos.conftest import CreateTopic
from tests.chaos.files import require_sound_files
from tests.chaos.filler import Filler
from tests.chaos.readers import read_all
from tests.chaos.small_disk import BLOCK_BYTES, free_bytes
from tests.chaos.writers import EXACTLY_ONCE, QUIET, Writer

OLD, KEPT, DOOMED, PATIENT = "old", "kept", "doomed", "patient"
TOPICS: Final = (OLD, KEPT, DOOMED, PATIENT)
SHARE_BYTES: Final = 12 << 20  # Of each of what will be given up: old segments, a topic, a ballast file.
SEGMENT_BYTES: Final = 2 << 20
HEAL_SECONDS_MAX: Final = 20.0
RETRIABLE_WHEN_FULL: Final = KafkaError.KAFKA_STORAGE_ERROR


@pytest.fixture
def broker(small_disk: Path, port: int) -> Iterator[Broker]:
    with ottla.testing.broker(data_dir=small_disk / "data", port=port) as running:
        yield running


@pytest.fixture
def ballast(small_disk: Path) -> Path:
    path = small_disk / "ballast"
    path.write_bytes(bytes(SHARE_BYTES))
    return path


@pytest.mark.timeout(600)
def test_a_full_disk_heals_without_a_restart(
    broker: Broker, ballast: Path, small_disk: Path, create_topic: CreateTopic, report: Callable[[str], None]
) -> None:
    for topic in TOPICS:
        create_topic(broker.bootstrap_servers, topic, config={"segment.bytes": SEGMENT_BYTES})
    fillers = {topic: Filler(broker, topic, writer=number) for number, topic in enumerate((OLD, KEPT, DOOMED))}
    kept = fillers[KEPT]
    patient = Writer(
        bootstrap=broker.bootstrap_servers,
        topic=PATIENT,
        partitions=[0],
        guarantee=EXACTLY_ONCE,
        records_per_second=200,
    )
    fillers[OLD].write_bytes(SHARE_BYTES)
    fillers[DOOMED].write_bytes(SHARE_BYTES)
    patient.start()
    pid = broker.pid

    heals = {
        "retention.ms lowered": lambda: set_topic_config(broker, OLD, "retention.ms", "1"),
        "space freed": ballast.unlink,
        "topic deleted": lambda: delete_topic(broker, DOOMED),
    }
    for what, heal in heals.items():
        error = kept.write_until_refused()
        assert error.code() == RETRIABLE_WHEN_FULL, error.str()
        require_readable(broker, kept)
        heal()
        wait_until(partial(takes_writes, kept), f"writes again after: {what}", seconds=HEAL_SECONDS_MAX)
        assert free_bytes(small_disk) > 0
        report(f"{what}: healed; {kept.history.acknowledged_count} records acknowledged so far")

    history = patient.stop()
    verdict = judge([history], read_all(broker.bootstrap_servers, PATIENT, [0]))
    verdict.require_clean()
    require_readable(broker, kept)
    assert broker.pid == pid
    require_untroubled(broker)
    broker.stop()
    for topic in (KEPT, PATIENT):
        require_sound_files(broker.data_dir, topic, 0)
    report(f"patient writer: {verdict.summary}")


@pytest.mark.timeout(600)
def test_metadata_changes_on_a_full_disk(
    broker: Broker, ballast: Path, create_topic: CreateTopic, report: Callable[[str], None]
) -> None:
    """They are refused in so many words, and all is well once there is room; what was answered is kept over a crash."""
    create_topic(broker.bootstrap_servers, KEPT, config={"segment.bytes": SEGMENT_BYTES})
    kept = Filler(broker, KEPT, writer=1)
    kept.write_until_refused()
    made, refusal = create_topics_until_refused(broker, create_topic)
    assert refusal.code() == RETRIABLE_WHEN_FULL, refusal.str()
    require_readable(broker, kept)

    ballast.unlink()
    wait_until(partial(takes_writes, kept), "writes again", seconds=HEAL_SECONDS_MAX)
    create_topic(broker.bootstrap_servers, "after-healing")
    after = Filler(broker, "after-healing", writer=2)
    assert after.write() is None
    for number, topic in enumerate(made, start=10):
        late = Filler(broker, topic, writer=number)
        wait_until(partial(takes_writes, late), f"{topic} takes writes", seconds=HEAL_SECONDS_MAX)
    broker.kill()
    broker.start()
    assert set(topics_of(broker)) >= {KEPT, "after-healing", *made}
    require_readable(broker, kept)
    require_readable(broker, after)
    require_untroubled(broker)
    report(f"{len(made)} topics made on a full disk, then: {refusal.str()}")


@pytest.mark.timeout(600)
def test_retention_heals_a_disk_that_is_full_to_the_last_byte(
    broker: Broker, small_disk: Path, create_topic: CreateTopic
) -> None:
    """Also the active segment is past retention then, but there is no room to begin another."""
    create_topic(broker.bootstrap_servers, OLD, config={"segment.bytes": SEGMENT_BYTES})
    old = Filler(broker, OLD, writer=1)
    leave_room_in_the_last_block_of_metadata(broker)
    old.write_until_refused()
    fill_to_the_last_byte(small_disk / "rest")
    set_topic_config(broker, OLD, "retention.ms", "1")
    wait_until(partial(takes_writes, old), "writes again", seconds=HEAL_SECONDS_MAX)
    require_untroubled(broker)


@pytest.mark.timeout(600)
def test_a_crash_on_a_full_disk_loses_nothing(
    broker: Broker, ballast: Path, create_topic: CreateTopic, chance: random.Random
) -> None:
    create_topic(broker.bootstrap_servers, KEPT, config={"segment.bytes": SEGMENT_BYTES})
    kept = Filler(broker, KEPT, writer=1)
    kept.write_until_refused()
    broker.kill()
    ballast.unlink()
    broker.start()
    wait_until(partial(takes_writes, kept), "writes again", seconds=HEAL_SECONDS_MAX)
    require_readable(broker, kept)
    require_untroubled(broker)


def takes_writes(filler: Filler) -> bool:
    return filler.write() is None


def require_readable(broker: Broker, filler: Filler) -> None:
    """A consumer gets everything that was acknowledged."""
    judge([filler.history], read_all(broker.bootstrap_servers, filler.topic, [0])).require_clean()


def fill_to_the_last_byte(path: Path) -> None:
    with path.open("wb", buffering=0) as file:
        try:
            while file.write(bytes(4096)):
                pass
        except OSError as error:
            assert error.errno == errno.ENOSPC


def leave_room_in_the_last_block_of_metadata(broker: Broker) -> None:
    """A change of a configuration must be recorded, and there may be no further block for it."""
    log = broker.data_dir / "__cluster_metadata-0" / "00000000000000000000.log"
    while log.stat().st_size % BLOCK_BYTES > BLOCK_BYTES // 2:
        set_topic_config(broker, OLD, "max.message.bytes", "1000000")


def create_topics_until_refused(broker: Broker, create_topic: CreateTopic) -> tuple[list[str], KafkaError]:
    made: list[str] = []
    for number in range(1_000):
        try:
            create_topic(broker.bootstrap_servers, f"made-when-full-{number}", partitions=10)
            made.append(f"made-when-full-{number}")
        except KafkaException as error:
            refusal = error.args[0]
            assert isinstance(refusal, KafkaError)
            return made, refusal
    raise AssertionError("a thousand topics were made on a full disk")


def set_topic_config(broker: Broker, topic: str, name: str, value: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, **QUIET})
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(20)


def delete_topic(broker: Broker, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, **QUIET})
    admin.delete_topics([topic])[topic].result(20)


def topics_of(broker: Broker) -> list[str]:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, **QUIET})
    return list(admin.list_topics(timeout=20).topics)
