"""kill -9 of the driver (with its JVM and workers) and of the broker, at five places each: every row there once.

Long: `make chaos-spark`.
"""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import ottla.testing
from ottla.base.types import TopicPartition
from ottla.client import Admin, Producer
from ottla.client.raw.cluster import Cluster
from ottla.client.raw.fetching import PartitionReader, committed_only
from ottla.client.raw.offsets import LATEST, list_offsets
from ottla.testing import Broker
from ottla.wire.records import records_of

ROWS = 6_000
PARTITIONS = 3
KILLS = 2
RUN_SECONDS_MAX = 240.0


class Copy:
    """A topic full of rows, and the driver that copies it."""

    def __init__(self, broker: Broker, checkpoint: Path) -> None:
        self.broker = broker
        self._checkpoint = checkpoint
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topic("source", PARTITIONS)
            admin.create_topic("target", PARTITIONS)
        with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for number in range(ROWS):
                producer.send("source", key=b"%d" % number, value=b"%d" % number)

    @contextmanager
    def driver(self) -> Iterator[subprocess.Popen[bytes]]:
        command = [sys.executable, "-m", "tests.spark_slow.exactly_once_driver", self.broker.bootstrap_servers]
        process = subprocess.Popen([*command, "source", "target", str(self._checkpoint)], start_new_session=True)
        try:
            yield process
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def written(self) -> int:
        """Offsets of the target, whatever became of what is there."""
        with Cluster(self.broker.bootstrap_servers, client_id="test", timeout_s=10) as cluster:
            wanted = {TopicPartition("target", index): LATEST for index in range(PARTITIONS)}
            return sum(offset or 0 for offset in list_offsets(cluster, wanted, read_committed=False).values())

    def wait_written(self, more: int, process: subprocess.Popen[bytes]) -> None:
        goal, deadline = self.written() + more, time.monotonic() + RUN_SECONDS_MAX
        while self.written() < goal and process.poll() is None:
            assert time.monotonic() < deadline, "the driver does not get on"
            time.sleep(0.01)

    def finish(self) -> None:
        for _ in range(3):  # A broker that is away for too long fails the query; its next run goes on.
            with self.driver() as process:
                if process.wait(RUN_SECONDS_MAX) == 0:
                    return
        raise AssertionError("the driver fails again and again")

    def committed(self) -> Counter[bytes | None]:
        found: Counter[bytes | None] = Counter()
        with Cluster(self.broker.bootstrap_servers, client_id="test", timeout_s=10) as cluster:
            for index in range(PARTITIONS):
                partition = TopicPartition("target", index)
                reader = PartitionReader(cluster, partition, read_committed=True, fetch_bytes=1 << 20)
                offset, end = 0, 1
                while offset < end:
                    fetched = reader.fetch(offset)
                    for batch in committed_only(fetched.batches, fetched.aborted):
                        found.update(record.value for record in records_of(batch.view))
                    offset, end = fetched.next_offset, fetched.end_offset
        return found


@pytest.fixture
def copy(tmp_path: Path) -> Iterator[Copy]:
    with ottla.testing.broker() as broker:
        yield Copy(broker, tmp_path / "checkpoint")


ALL_ONCE = Counter(b"%d" % number for number in range(ROWS))


@pytest.mark.parametrize("seed", range(5))
def test_a_driver_that_is_killed_again_and_again(copy: Copy, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(KILLS):
        with copy.driver() as process:
            copy.wait_written(chance.randrange(1, 1_500), process)
    copy.finish()
    assert copy.committed() == ALL_ONCE


@pytest.mark.parametrize("seed", range(5))
def test_a_broker_that_is_killed_again_and_again(copy: Copy, seed: int) -> None:
    chance = random.Random(seed)
    with copy.driver() as process:
        for _ in range(KILLS):
            copy.wait_written(chance.randrange(1, 1_500), process)
            copy.broker.kill()
            copy.broker.start()
        process.wait(RUN_SECONDS_MAX)
    copy.finish()
    assert copy.committed() == ALL_ONCE
