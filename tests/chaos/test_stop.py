"""SIGTERM: everything acknowledged is there, the exit is clean, and the next start has nothing to recover."""

import random
import socket
import subprocess
import time
from collections.abc import Callable
from typing import Final

import pytest

import ottla.testing
from ottla.testing import Broker
from tests.chaos.attackers import attacking
from tests.chaos.brokers import connection_count, require_untroubled, wait_until
from tests.chaos.checker import judge
from tests.chaos.conftest import CreateTopic
from tests.chaos.files import batches_on_disk, require_sound_files, segments_of
from tests.chaos.filler import Filler
from tests.chaos.raw_client import LOOPBACK, fetch_frame, read_frame
from tests.chaos.readers import Tail, read_all
from tests.chaos.writers import EXACTLY_ONCE, LEADER, NO_ANSWER, Guarantee, Writer, wait_for_progress

PARTITIONS: Final = range(2)
GUARANTEES: Final[tuple[Guarantee, ...]] = (EXACTLY_ONCE, EXACTLY_ONCE, LEADER, NO_ANSWER)
CLEAN_SHUTDOWN_MARKER: Final = ".kafka_cleanshutdown"
LONG_POLL_MS: Final = 60_000
RECOVERY_WORDS: Final = ("cutting", "removing segment", "rotten")


def stop(broker: Broker) -> int:
    """SIGTERM; the exit code."""
    process = broker._process  # The embedded broker forgets its process once it has ended.
    assert isinstance(process, subprocess.Popen)
    broker.stop()
    return int(process.returncode)


@pytest.mark.timeout(900)
def test_stop_under_load(
    rounds: int, chance: random.Random, port: int, create_topic: CreateTopic, report: Callable[[str], None]
) -> None:
    with ottla.testing.broker(port=port) as broker:
        config = {"segment.bytes": 1 << 20, "flush.messages": 10}
        create_topic(broker.bootstrap_servers, "load", partitions=len(PARTITIONS), config=config)
        tail = Tail(bootstrap=broker.bootstrap_servers, topic="load", partitions=PARTITIONS)
        writers = [
            Writer(
                bootstrap=broker.bootstrap_servers,
                topic="load",
                partitions=PARTITIONS,
                guarantee=guarantee,
                records_per_second=1_500,
            )
            for guarantee in GUARANTEES
        ]
        for thread in (tail, *writers):
            thread.start()
        for _ in range(rounds):
            wait_for_progress(writers)
            time.sleep(chance.uniform(0.0, 0.5))
            assert stop(broker) == 0
            assert (broker.data_dir / CLEAN_SHUTDOWN_MARKER).exists()
            broker.start()
            assert not (broker.data_dir / CLEAN_SHUTDOWN_MARKER).exists()

        histories = [writer.stop() for writer in writers]
        verdict = judge(histories, read_all(broker.bootstrap_servers, "load", PARTITIONS), reads=tail.stop())
        verdict.require_clean()
        tail.require_steady()
        require_untroubled(broker)
        assert not [word for word in RECOVERY_WORDS if word in broker.log]
        assert stop(broker) == 0
        for partition in PARTITIONS:
            require_sound_files(broker.data_dir, "load", partition)
        report(f"{rounds} stops: {verdict.summary}")


def test_nothing_is_recovered_after_a_clean_stop(port: int, create_topic: CreateTopic) -> None:
    """Shown by damage in the middle of the active segment: a recovery would find it."""
    with ottla.testing.broker(port=port) as broker:
        create_topic(broker.bootstrap_servers, "kept")
        filler = Filler(broker, "kept", writer=1)
        for _ in range(20):
            assert filler.write() is None
        assert stop(broker) == 0
        damaged = list(batches_on_disk(broker.data_dir, "kept", 0))[5]
        with segments_of(broker.data_dir, "kept", 0)[-1].open("r+b") as file:
            file.seek(damaged.position + 100)
            file.write(b"damage")
        broker.start()
        assert not [word for word in RECOVERY_WORDS if word in broker.log]
        assert filler.write() is None
        require_untroubled(broker)


def test_long_polls_are_answered_at_a_stop(port: int, create_topic: CreateTopic, report: Callable[[str], None]) -> None:
    with ottla.testing.broker(port=port) as broker:
        create_topic(broker.bootstrap_servers, "empty")
        socks = [socket.create_connection((LOOPBACK, broker.port), timeout=30) for _ in range(50)]
        for sock in socks:
            sock.sendall(fetch_frame("empty", max_wait_ms=LONG_POLL_MS, min_bytes=1))
        time.sleep(0.5)  # So that they wait in the broker, not in a buffer.
        began = time.monotonic()
        assert stop(broker) == 0
        seconds = time.monotonic() - began
        answered = sum(read_frame(sock) is not None for sock in socks)
        for sock in socks:
            sock.close()
        report(f"{answered} of {len(socks)} long polls answered, stopped after {seconds:.2f} s")
        assert answered == len(socks)
        assert seconds * 1000 < LONG_POLL_MS / 6
        require_untroubled(broker)


def test_nobody_can_hold_up_a_stop(port: int, chance: random.Random, create_topic: CreateTopic) -> None:
    """Clients that do not read their answers or do not finish their requests are left behind after a while."""
    with ottla.testing.broker(port=port) as broker:
        create_topic(broker.bootstrap_servers, "bulk")
        Filler(broker, "bulk", writer=1).write_bytes(16 << 20)
        with (
            attacking("never_reads", broker.port, chance.getrandbits(32)),
            attacking("slow_loris", broker.port, chance.getrandbits(32)),
        ):
            wait_until(lambda: connection_count(broker) > 200, "both attackers are connected")
            assert stop(broker) == 0
            assert (broker.data_dir / CLEAN_SHUTDOWN_MARKER).exists()
        require_untroubled(broker)
