"""`ottla …` as operators run it: each command a process of its own, at a cluster."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

OTTLA: Final = str(Path(sys.executable).with_name("ottla"))
WAIT_S: Final = 60

Result = subprocess.CompletedProcess[str]


class Commands:
    """`ottla …` in processes of their own, at a cluster."""

    def __init__(self, servers: str) -> None:
        self.servers = servers
        self._environment = os.environ | {"OTTLA_BOOTSTRAP_SERVERS": servers, "COLUMNS": "120", "NO_COLOR": "1"}

    def run(self, *arguments: str, exit_code: int = 0) -> Result:
        done = subprocess.run(
            [OTTLA, *arguments], env=self._environment, capture_output=True, text=True, timeout=WAIT_S, check=False
        )
        assert done.returncode == exit_code, f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr
        return done

    def json(self, *arguments: str, exit_code: int = 0) -> Any:
        return json.loads(self.run(*arguments, "--json", exit_code=exit_code).stdout)

    @contextmanager
    def begun(self, *arguments: str, exit_code: int = 0) -> Iterator[subprocess.Popen[str]]:
        """One that runs meanwhile, and must end when the block has."""
        with subprocess.Popen(
            [OTTLA, *arguments],
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            try:
                yield process
                output, _ = process.communicate(timeout=WAIT_S)
            except BaseException:
                process.kill()
                raise
        assert process.returncode == exit_code, output

    def replicas(self, topic: str) -> list[list[int]]:
        [described] = self.json("topic", "describe", topic)
        return [each["replicas"] for each in described["partitions"]]

    def leaders(self, *, of: str) -> list[int]:
        [described] = self.json("topic", "describe", of)
        return [each["leader"] for each in described["partitions"]]
