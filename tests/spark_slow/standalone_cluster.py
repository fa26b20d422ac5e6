"""A Spark standalone cluster on this machine: a master and workers, each a process of its own, from the pip package."""

import os
import re
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pyspark

from tests.spark.waiting import until

SPARK_HOME = Path(pyspark.__file__).parent
START_SECONDS_MAX = 120
ENVIRONMENT = {"SPARK_HOME": str(SPARK_HOME), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_MEMORY": "256m"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    process: "subprocess.Popen[bytes]"
    directory: Path

    def has_executor(self) -> bool:
        """Whether an application has begun to run here."""
        return any(self.directory.glob("app-*/*"))

    def kill(self) -> None:
        """As if its machine were gone: with its executors and their Python workers."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@dataclass(frozen=True, slots=True, kw_only=True)
class StandaloneCluster:
    master: str
    """Its URL, `spark://host:port`."""
    workers: Sequence[Worker]


@contextmanager
def standalone_cluster(directory: Path, *, workers: int = 2) -> Iterator[StandaloneCluster]:
    """Each worker has one core."""
    with ExitStack() as running:
        master_log = directory / "master.log"
        arguments = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        running.enter_context(_daemon("org.apache.spark.deploy.master.Master", arguments, master_log))
        master = _found(r"Starting Spark master at (spark://\S+)", master_log)
        started = []
        for number in range(workers):
            place, log = directory / f"worker-{number}", directory / f"worker-{number}.log"
            arguments = ["--host", "127.0.0.1", "--webui-port", "0", "--cores", "1", "--memory", "1g"]
            process = running.enter_context(
                _daemon("org.apache.spark.deploy.worker.Worker", [*arguments, "--work-dir", str(place), master], log)
            )
            _found("(Successfully registered with master)", log)
            started.append(Worker(process=process, directory=place))
        yield StandaloneCluster(master=master, workers=started)


@contextmanager
def _daemon(name: str, arguments: Sequence[str], log: Path) -> "Iterator[subprocess.Popen[bytes]]":
    environment: Mapping[str, str] = {**os.environ, **ENVIRONMENT}
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(SPARK_HOME / "bin" / "spark-class"), name, *arguments],
            stdout=output,
            stderr=output,
            env=environment,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _found(pattern: str, log: Path) -> str:
    """What a daemon says of itself once it is ready."""
    until(lambda: re.search(pattern, log.read_text()) is not None, seconds_max=START_SECONDS_MAX)
    found = re.search(pattern, log.read_text())
    assert found is not None
    return found[1]
