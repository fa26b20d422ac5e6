"""A broker with nothing but what every system's standard library has: Linux's own calls are taken away before it starts.

That is as near to macOS as a Linux machine comes.
"""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import ottla

LINUX_ALONE = """
import os, select, socket, sys
for module, names in {
    os: ("RWF_NOWAIT", "RWF_DSYNC", "fdatasync", "posix_fadvise", "posix_fallocate", "sched_getaffinity", "memfd_create",
         "eventfd", "pidfd_open", "copy_file_range", "splice"),
    select: ("POLLRDHUP",),
    socket: ("MSG_MORE", "SO_INCOMING_CPU", "TCP_USER_TIMEOUT"),
}.items():
    for name in names:
        if hasattr(module, name):
            delattr(module, name)
sys.modules["uvloop"] = None
from ottla.server.main import main
sys.exit(main(["up", "--port=0", "--data", sys.argv[1]]))
"""


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    command = [sys.executable, "-c", LINUX_ALONE, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as broker:
        assert broker.stdout is not None
        ready = broker.stdout.readline()
        try:
            yield ready.partition("bootstrap.servers=")[2].split()[0]
        finally:
            broker.terminate()
            assert broker.wait(timeout=60) == 0


def test_records_are_written_and_read_without_calls_of_linux_alone(address: str) -> None:
    values = [b"%d" % number * 1000 for number in range(200)]
    with ottla.Producer(bootstrap_servers=address) as producer:
        for value in values:
            producer.send("t", value=value)
    with ottla.Consumer(bootstrap_servers=address, auto_offset_reset="earliest") as consumer:
        consumer.assign(consumer.partitions_for("t"))
        read: list[bytes] = []
        while len(read) < len(values):
            read += [record.value for record in consumer.poll(timeout_ms=1_000)]
    assert read == values
