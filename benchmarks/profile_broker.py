"""Where an Ottla broker's time goes in one scenario: `python -m benchmarks.profile_broker produce-1k`.

py-spy samples the broker from outside while the scenario loads it, so that the broker runs as it is. What it prints:
the functions by the share of samples they were running in themselves, and by the share they were on the stack. Samples
of an idle loop do not count, unless `--idle` asks what a stalled one waits for. `--native` adds C functions, `--lines`
divides functions into lines, `--flame FILE` keeps the stacks for a flame graph.
"""

import argparse
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Final

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
    def of_stacks(cls, lines: Iterable[str]) -> "Profile":
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


class ProfiledOttla(Ottla):
    """Ottla with a sampler beside it from its first answer on, through every restart a scenario asks for."""

    stacks: ClassVar[Path]
    options: ClassVar[list[str]]
    _sampler: subprocess.Popen[bytes] | None = None

    def start(self) -> float:
        seconds = super().start()
        output = self.stacks / f"{self.process.pid}.stacks"
        command = [_py_spy(), "record", "--pid", str(self.process.pid), "--format", "raw", "--output", str(output)]
        command += ["--rate", str(SAMPLES_PER_SECOND), "--duration", "unlimited", *self.options]
        self._sampler = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return seconds

    def stop(self) -> None:
        self._end_sampling()
        super().stop()

    def kill(self) -> None:
        self._end_sampling()
        super().kill()

    def _end_sampling(self) -> None:
        if self._sampler is not None:
            self._sampler.send_signal(signal.SIGINT)  # It writes what it has.
            self._sampler.wait()
            self._sampler = None


def run(scenario: Scenario, peer: ProfiledOttla, *, rounds: int, quick: bool) -> None:
    try:
        if not scenario.own_broker:
            peer.start()
        for index in range(rounds):
            scenario.measure(Round(peer=peer, scenario=scenario.name, index=index, quick=quick))
    finally:
        peer.discard()


def _py_spy() -> str:
    beside_python = Path(sys.executable).with_name("py-spy")
    found = str(beside_python) if beside_python.exists() else shutil.which("py-spy")
    if found is None:
        sys.exit("py-spy is missing: pip install py-spy")
    return found


def main() -> int:
    arguments = _arguments()
    scenario = next(each for each in SCENARIOS if each.name == arguments.scenario)
    flags = {"--native": arguments.native, "--idle": arguments.idle, "--function": not arguments.lines}
    ProfiledOttla.options = [flag for flag, wanted in flags.items() if wanted]
    with tempfile.TemporaryDirectory(prefix="ottla-profile-") as scratch:
        ProfiledOttla.stacks = Path(scratch)
        run(scenario, ProfiledOttla(Path(scratch) / "ottla"), rounds=arguments.rounds, quick=arguments.quick)
        lines = [line for path in Path(scratch).glob("*.stacks") for line in path.read_text().splitlines()]
    if arguments.flame:
        Path(arguments.flame).write_text("\n".join(lines))
    Console().print(Profile.of_stacks(lines).table(rows=arguments.rows))
    return 0


def _arguments() -> argparse.Namespace:
    names = [scenario.name for scenario in SCENARIOS]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.profile_broker", description=__doc__)
    parser.add_argument("scenario", choices=names)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=25)
    parser.add_argument("--native", action="store_true", help="C functions, too")
    parser.add_argument("--idle", action="store_true", help="waiting threads, too: what a stalled loop waits for")
    parser.add_argument("--lines", action="store_true", help="by line instead of by function")
    parser.add_argument("--quick", action="store_true", help="tiny counts")
    parser.add_argument("--flame", default=None, metavar="FILE", help="where the sampled stacks go")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
