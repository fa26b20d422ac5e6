"""`ottla up --nodes 3`: several nodes on this machine, each a process with a port and a directory of its own.

The first node founds the cluster; the others find it at its port and join the quorum by themselves. This process only
watches: it ends when the nodes have ended, and passes on the signals that it gets.
"""

import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from ottla.log import meta_properties
from ottla.server.settings import PORT_MAX

REPLICAS_MAX: Final = 3
METRICS_PORT: Final = "ottla.metrics.port"
WATCH_SECONDS: Final = 0.2
EXIT_FAILED: Final = 1


def settings_of_node(node_id: int, node_count: int, first: str | None) -> dict[str, str]:
    """What makes a node one of `node_count`; `first` is where the founder listens, None for itself."""
    replicas = min(node_count, REPLICAS_MAX)
    settings = {
        "node.id": str(node_id),
        "default.replication.factor": str(replicas),
        "offsets.topic.replication.factor": str(replicas),
        "transaction.state.log.replication.factor": str(replicas),
        "transaction.state.log.min.isr": str(replicas // 2 + 1),
        "controller.quorum.auto.join.enable": "true",
    }
    if first is not None:
        settings["controller.quorum.bootstrap.servers"] = first
    return settings


def run_local_cluster(
    node_count: int, *, data: str, host: str, port: int, config: Sequence[str], log_level: str
) -> int:
    """Blocks until all nodes have ended; 0 if they did so because they were told to."""
    if port == 0 or port + node_count - 1 > PORT_MAX:
        print(f"ottla: --nodes {node_count} needs as many ports, from --port on", file=sys.stderr)
        return 2
    commands = [
        _command(number, node_count, data=data, host=host, port=port, config=config, log_level=log_level)
        for number in range(node_count)
    ]
    processes = [subprocess.Popen(command) for command in commands]
    is_stopping = False

    def pass_on(number: int, _: object) -> None:
        nonlocal is_stopping
        is_stopping = True
        for process in processes:
            process.send_signal(number)

    signal.signal(signal.SIGTERM, pass_on)
    # A terminal's Ctrl-C reaches the nodes by itself; a second one, from us, would end them at once.
    signal.signal(signal.SIGINT, lambda *_: pass_on(0, None))
    addresses = ",".join(f"{host}:{port + number}" for number in range(node_count))
    print(f"{node_count} nodes: bootstrap.servers={addresses} (data in {data}/node-*)", flush=True)
    while any(process.poll() is None for process in processes):
        time.sleep(WATCH_SECONDS)
        for process in processes:
            if process.poll() is not None and not is_stopping:
                print(f"ottla: a node ended with {process.returncode}; the others go on", file=sys.stderr)
                processes.remove(process)
                break
    return 0 if is_stopping else EXIT_FAILED


def servers_to_join(number: int, node_count: int, data: str, host: str, port: int) -> str | None:
    """Those that are there already: a first node whose disk was lost must not found a second cluster."""
    others = [other for other in range(node_count) if other != number]
    joined = [other for other in others if Path(data, f"node-{other + 1}", meta_properties.FILE_NAME).exists()]
    servers = joined or ([0] if number > 0 else [])
    return ",".join(f"{host}:{port + other}" for other in servers) or None


def setting_for_node(setting: str, number: int) -> str:
    """Nodes of one machine cannot share a port: each takes the one behind that of the node before."""
    name, _, value = setting.partition("=")
    return f"{name}={int(value) + number}" if name == METRICS_PORT and value.isdecimal() and value != "0" else setting


def _command(
    number: int, node_count: int, *, data: str, host: str, port: int, config: Sequence[str], log_level: str
) -> list[str]:
    settings = settings_of_node(number + 1, node_count, servers_to_join(number, node_count, data, host, port))
    command = [sys.executable, "-m", "ottla.server", "up", "--data", f"{data}/node-{number + 1}", "--host", host]
    command += ["--port", str(port + number), "--log-level", log_level]
    for setting in (*(f"{name}={value}" for name, value in settings.items()), *config):
        command += ["--config", setting_for_node(setting, number)]
    return command
