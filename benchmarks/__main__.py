"""`python -m benchmarks`: both brokers, every scenario, one table.

`--only produce-1k,startup` picks scenarios, `--quick` proves that they work (tiny counts, no page-cache fill) and
gives no figure to quote, `--peers ottla` leaves Apache Kafka out. Exit code 1 when a goal was missed or a scenario
failed.
"""

import argparse
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from rich.console import Console

from benchmarks.catalogue import SCENARIOS
from benchmarks.page_cache import DiskTooSmall, PageCacheFill
from benchmarks.peers import ApacheKafka, Ottla, Peer, PeerError
from benchmarks.rounds import Scenario
from benchmarks.run import Run, scratch_peers

PLAIN_WIDTH: Final = 140  # Of a table that goes to a file.
PEERS: Final[dict[str, type[Peer]]] = {"kafka": ApacheKafka, "ottla": Ottla}


def run_benchmarks(
    program: str, description: str, scenarios: Sequence[Scenario], kinds: Mapping[str, type[Peer]], *, rounds: int
) -> int:
    arguments = _arguments(program, description, scenarios, kinds, rounds)
    console = Console(log_path=False, width=None if sys.stdout.isatty() else PLAIN_WIDTH)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # So that the `finally` blocks run.
    ApacheKafka.heap = arguments.kafka_heap
    scratch = Path(tempfile.mkdtemp(prefix="ottla-bench-", dir=arguments.scratch))
    run = Run(
        peers=scratch_peers([kinds[name] for name in arguments.peers], scratch),
        rounds=arguments.rounds,
        quick=arguments.quick,
        fill=None if arguments.quick or arguments.no_fill else PageCacheFill(scratch),
        console=console,
    )
    try:
        run.execute([scenario for scenario in scenarios if not arguments.only or scenario.name in arguments.only])
    except (PeerError, DiskTooSmall) as error:
        console.print(f"[red]{error}[/]")
        return 2
    except KeyboardInterrupt:
        console.print("interrupted")
        return 130
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return 0 if run.is_success() else 1


def _arguments(
    program: str, description: str, scenarios: Sequence[Scenario], kinds: Mapping[str, type[Peer]], rounds: int
) -> argparse.Namespace:
    names = [scenario.name for scenario in scenarios]
    parser = argparse.ArgumentParser(prog=program, description=description, epilog=f"scenarios: {' '.join(names)}")
    parser.add_argument("--only", type=list_of(names), default=[], metavar="NAME,…", help="scenarios to run (all)")
    parser.add_argument("--peers", type=list_of(list(kinds)), default=list(kinds), metavar="NAME,…")
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--quick", action="store_true", help="tiny counts, no page-cache fill: no figure to quote")
    parser.add_argument("--no-fill", action="store_true", help="full counts without filling the page cache")
    parser.add_argument("--kafka-heap", default="1g", help="Apache Kafka's heap (1g)")
    parser.add_argument("--scratch", default=None, help="where data goes: a directory on a real disk, not in memory")
    return parser.parse_args()


def list_of(known: Sequence[str]) -> Callable[[str], list[str]]:
    def parse(text: str) -> list[str]:
        names = text.split(",")
        for name in names:
            if name not in known:
                raise argparse.ArgumentTypeError(f"no {name!r}; known are {', '.join(known)}")
        return names

    return parse


if __name__ == "__main__":
    sys.exit(run_benchmarks("python -m benchmarks", __doc__ or "", SCENARIOS, PEERS, rounds=5))
