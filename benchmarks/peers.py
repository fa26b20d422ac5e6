"""The two brokers being compared, started the way a user starts them: one node, its defaults, a fresh directory.

Ottla is `ottla up`. Apache Kafka is a combined broker and controller from the jars in `.tools/kafka-libs`, which
`make bench` puts there. Either is ready when it answers ApiVersions on a raw socket.
"""

import os
import shutil
import socket
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Final, Self

from benchmarks.probe import answers_api_versions
from benchmarks.processes import BrokerProcess

KAFKA_LIBRARIES: Final = Path(__file__).resolve().parent.parent / ".tools" / "kafka-libs"
START_SECONDS_MAX: Final = 300.0
POLL_SECONDS: Final = 0.002

# Each port is tried once, so that two brokers of one run never get the same; several runs start far apart.
_ports: Final = iter(range(20_000 + os.getpid() % 100 * 100, 32_000))
_CLUSTER_ID: Final = "b3R0bGEtYmVuY2htYXJrcw"


class PeerError(Exception):
    """A broker that could not be found, started or reached."""


class Peer(ABC):
    """A broker, its directory and its port. `start` and `stop` may be repeated on the same data."""

    name: str
    replication_factor = 1

    def __init__(self, directory: Path, *, properties: Mapping[str, str] | None = None) -> None:
        """`properties` are broker configurations by Kafka's names."""
        self.directory = directory
        self.properties = dict(properties or {})
        self.port = free_port()
        self._process: BrokerProcess | None = None
        directory.mkdir(parents=True, exist_ok=True)

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def data_directory(self) -> Path:
        return self.directory / "data"

    @property
    def process(self) -> BrokerProcess:
        if self._process is None:
            raise PeerError(f"{self.name} is not running")
        return self._process

    @abstractmethod
    def version(self) -> str: ...

    @abstractmethod
    def command(self) -> list[str]: ...

    @abstractmethod
    def prepare(self) -> None:
        """What has to happen once to an empty directory before the first start."""

    def environment(self) -> dict[str, str]:
        return {}

    def fresh(self, label: str, *, properties: Mapping[str, str] | None = None) -> Self:
        """Another broker of the same kind with a directory of its own, prepared but not started."""
        peer = type(self)(self.directory.with_name(f"{self.directory.name}-{label}"), properties=properties)
        peer.prepare()
        return peer

    def start(self) -> float:
        """Starts the process; seconds until its first answer."""
        started = time.perf_counter()
        self.start_without_waiting()
        self.wait_started()
        return time.perf_counter() - started

    def start_without_waiting(self) -> None:
        output = self.directory / "output.log"
        self._process = BrokerProcess(self.command(), output=output, environment=self.environment())

    def wait_started(self) -> None:
        deadline = time.perf_counter() + START_SECONDS_MAX
        while not answers_api_versions(self.port):
            if not self.process.is_running():
                raise PeerError(f"{self.name} did not start:\n{self.process.output_tail()}")
            if time.perf_counter() > deadline:
                raise PeerError(f"{self.name} gave no answer in {START_SECONDS_MAX:.0f} s")
            time.sleep(POLL_SECONDS)

    def stop(self) -> None:
        if self._process is not None:
            self._process.stop()
            self._process = None

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process = None

    def discard(self) -> None:
        """Kills the broker and removes all it wrote."""
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)


class Ottla(Peer):
    name = "Ottla"

    def prepare(self) -> None:
        """Nothing: the first `ottla up` formats its directory itself."""

    def version(self) -> str:
        return installed_version("ottla")

    def command(self) -> list[str]:
        ottla = Path(sys.executable).with_name("ottla")
        listen = ["--host", "127.0.0.1", "--port", str(self.port)]
        command = [str(ottla), "up", "--data", str(self.data_directory), *listen]
        for name, value in self.properties.items():
            command += ["--config", f"{name}={value}"]
        return command


class ApacheKafka(Peer):
    name = "Apache Kafka"
    heap = "1g"

    def version(self) -> str:
        return _kafka_jar().stem.partition("-")[2]

    def command(self) -> list[str]:
        return [*self._java(), "kafka.Kafka", str(self._properties_path)]

    def prepare(self) -> None:
        controller_port = free_port()
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{controller_port}",
            "log.dirs": str(self.data_directory),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            **self.properties,
        }
        self._properties_path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        format_command = [*self._java(), "kafka.tools.StorageTool", "format", "-t", _CLUSTER_ID]
        result = subprocess.run(
            [*format_command, "-c", str(self._properties_path)], capture_output=True, text=True, check=False
        )
        if result.returncode != 0:
            raise PeerError(f"formatting Apache Kafka's directory failed:\n{result.stdout}{result.stderr}")

    @property
    def _properties_path(self) -> Path:
        return self.directory / "server.properties"

    def _java(self) -> list[str]:
        """The launcher, with the options Kafka's own start script gives."""
        _kafka_jar()
        home = os.environ.get("JAVA_HOME")
        java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
        if java is None:
            raise PeerError("Apache Kafka needs Java 17 or newer: no `java` on the path and no JAVA_HOME")
        memory = [f"-Xmx{self.heap}", f"-Xms{self.heap}", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"]
        return [java, *memory, "-cp", f"{KAFKA_LIBRARIES}/*"]


def _kafka_jar() -> Path:
    for jar in sorted(KAFKA_LIBRARIES.glob("kafka_2.13-*.jar")):
        return jar
    raise PeerError(f"no Apache Kafka in {KAFKA_LIBRARIES}: `make bench` installs it")


def free_port() -> int:
    """A port that nobody has and nobody is given by chance: below those the kernel takes for outgoing connections."""
    for port in _ports:
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise PeerError("no free port")
