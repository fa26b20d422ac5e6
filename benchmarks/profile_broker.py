"""Where an Ottla broker's time goes in one scenario: `python -m benchmarks.profile_broker produce-1k`.

py-spy samples the broker from outside while the scenario loads it, so that the broker runs as it is. What it prints:
the functions by the share of samples they were running in themselves, and by the share they were on the stack. Samples
of an idle loop do not count. `--native` adds C functions, `--lines` divides functions into lines, `--flame FILE` keeps
the stacks for a flame graph.
"""

import argparse
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from benchmarks.catalogue import SCENARIOS
from benchmarks.peers import Ottla
from benchmarks.rounds import Round, Scenario

SAMPLES_PER_SECOND: Final = 500
IDLE_WORKER: Final = "_worker (concurrent/futures/"  # A thread waiting for work, which py-spy takes for a busy one.


@dataclass(slots=True)
class Profile:
    """Samples by function: `own` at the top of the stack, `whole` anywhere on it."""

    samples: int = 0
    own: Counter[str] = field(default_factory=Counter)
    whole: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of_stacks(cls, lines: Iterator[str]) -> "Profile":
        """From one line per stack: its frames from the outermost in, divided by semicolons, then a count."""
        profile = cls()
        for line in lines:
            stack, _, count_text = line.rstrip().rpartition(" ")
            frames, count = stack.split(";"), int(count_text)
            if frames[-1].startswith(IDLE_WORKER):
                continue
            profile.samples += count
            profile.own[frames[-1]] += count
            for frame in set(frames):
                profile.whole[frame] += count
        return profile

    def table(self, *, rows: int) -> Table:
        table = Table(title=f"{self.samples} samples of a busy broker")
        for heading in ("own", "whole"):
            table.add_column(heading, justify="right")
        table.add_column("function")
        for function, count in self.own.most_common(rows):
            table.add_row(self._share(count), self._share(self.whole[function]), function)
        table.add_section()
        for function, count in self.whole.most_common(rows):
            table.add_row(self._share(self.own[function]), self._share(count), function)
        return table

    def _share(self, count: int) -> str:
        return f"{count / self.samples:.1%}"


def profile(scenario: Scenario, peer: Ottla, *, stacks: Path, rounds: int, options: list[str], quick: bool) -> None:
    """Warms the broker up with one unobserved round, then samples the rest."""
    peer.start()
    scenario.measure(Round(peer=peer, scenario=scenario.name, index=0, quick=quick))
    command = [_py_spy(), "record", "--pid", str(peer.process.pid), "--format", "raw", "--output", str(stacks)]
    command += ["--rate", str(SAMPLES_PER_SECOND), "--duration", "unlimited", *options]
    sampler = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        for index in range(1, 1 + rounds):
            scenario.measure(Round(peer=peer, scenario=scenario.name, index=index, quick=quick))
    finally:
        sampler.send_signal(signal.SIGINT)  # It writes what it has.
        sampler.wait()


def _py_spy() -> str:
    beside_python = Path(sys.executable).with_name("py-spy")
    found = str(beside_python) if beside_python.exists() else shutil.which("py-spy")
    if found is None:
        sys.exit("py-spy is missing: pip install py-spy")
    return found


def main() -> int:
    arguments = _arguments()
    scenario = next(each for each in SCENARIOS if each.name == arguments.scenario)
    with tempfile.TemporaryDirectory(prefix="ottla-profile-") as scratch:
        stacks = Path(arguments.flame or Path(scratch) / "stacks")
        peer = Ottla(Path(scratch) / "ottla")
        try:
            profile(
                scenario,
                peer,
                stacks=stacks,
                rounds=arguments.rounds,
                options=["--native"] * arguments.native + ["--function"] * (not arguments.lines),
                quick=arguments.quick,
            )
        finally:
            peer.discard()
        with stacks.open() as lines:
            Console().print(Profile.of_stacks(lines).table(rows=arguments.rows))
    return 0


def _arguments() -> argparse.Namespace:
    names = [scenario.name for scenario in SCENARIOS if not scenario.own_broker]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.profile_broker", description=__doc__)
    parser.add_argument("scenario", choices=names)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=25)
    parser.add_argument("--native", action="store_true", help="C functions, too")
    parser.add_argument("--lines", action="store_true", help="by line instead of by function")
    parser.add_argument("--quick", action="store_true", help="tiny counts")
    parser.add_argument("--flame", default=None, metavar="FILE", help="where the sampled stacks go")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
