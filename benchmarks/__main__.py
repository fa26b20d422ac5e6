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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from confluent_kafka import KafkaException
from rich.console import Console

from benchmarks.catalogue import SCENARIOS
from benchmarks.page_cache import DiskTooSmall, PageCacheFill
from benchmarks.peers import ApacheKafka, Ottla, Peer, PeerError
from benchmarks.report import append_results, is_met, line_of, machine_facts, table_of
from benchmarks.requests import ONE_MESSAGE_A_REQUEST
from benchmarks.rounds import Outcome, Round, Scenario, run_scenario
from benchmarks.topics import create_topics
from ottla.client.librdkafka import ClientError
from ottla.client.load import LoadError, consume_load, produce_load

PLAIN_WIDTH: Final = 140  # Of a table that goes to a file.
WARM_UP_COUNT: Final = 500_000
PEERS: Final[dict[str, type[Peer]]] = {"kafka": ApacheKafka, "ottla": Ottla}
BROKEN: Final = (LoadError, ClientError, KafkaException, PeerError, OSError)  # What a broker can do to a scenario.


def main() -> int:
    arguments = _arguments()
    console = Console(log_path=False, width=None if sys.stdout.isatty() else PLAIN_WIDTH)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # So that the `finally` blocks below run.
    scratch = Path(tempfile.mkdtemp(prefix="ottla-bench-", dir=arguments.scratch))
    try:
        ApacheKafka.heap = arguments.kafka_heap
        outcomes, failed = _run(arguments, scratch, console)
    except (PeerError, DiskTooSmall) as error:
        console.print(f"[red]{error}[/]")
        return 2
    except KeyboardInterrupt:
        console.print("interrupted")
        return 130
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return 1 if failed or any(is_met(outcome) is False for outcome in outcomes) else 0


def _run(arguments: argparse.Namespace, scratch: Path, console: Console) -> tuple[list[Outcome], list[str]]:
    """What was measured, and the names of the scenarios that broke."""
    fill = None if arguments.quick else PageCacheFill(scratch)
    if fill is not None:
        with console.status("filling the page cache") as status:
            fill.create(lambda share: status.update(f"filling the page cache: {share:.0%}"))

    def before_each(turn: Round) -> None:
        if fill is not None:
            fill.top_up()
        console.log(f"{turn.scenario}: round {turn.index + 1}, {turn.peer.name}")

    peers = [PEERS[name](scratch / name) for name in arguments.peers]
    facts = machine_facts(peers, quick=arguments.quick)
    outcomes: list[Outcome] = []
    failed: list[str] = []
    for scenarios in _sessions(arguments.only):
        with _running(peers, needed=not scenarios[0].own_broker, quick=arguments.quick):
            for scenario in scenarios:
                try:
                    measured = run_scenario(
                        scenario, peers, rounds=arguments.rounds, quick=arguments.quick, before_each=before_each
                    )
                except BROKEN as error:  # The others still have something to say.
                    console.log(f"[red]{scenario.name} failed: {error}[/]")
                    failed.append(scenario.name)
                    continue
                outcomes += measured
                for outcome in measured:
                    console.log(line_of(outcome))
                if not arguments.quick:
                    append_results(measured, facts)
    console.print(table_of(outcomes, facts))
    if failed:
        console.print(f"[red]failed: {', '.join(failed)}[/]")
    return outcomes, failed


def _sessions(names: Sequence[str]) -> Iterator[list[Scenario]]:
    """Those that share two running brokers first, then those that start their own."""
    chosen = [scenario for scenario in SCENARIOS if not names or scenario.name in names]
    for own_broker in (False, True):
        scenarios = [scenario for scenario in chosen if scenario.own_broker is own_broker]
        if scenarios:
            yield scenarios


@contextmanager
def _running(peers: Sequence[Peer], *, needed: bool, quick: bool) -> Iterator[None]:
    if not needed:
        yield
        return
    try:
        for peer in peers:
            peer.prepare()
            peer.start()
            _warm_up(peer, count=WARM_UP_COUNT // 50 if quick else WARM_UP_COUNT)
        yield
    finally:
        for peer in peers:
            peer.discard()


def _warm_up(peer: Peer, *, count: int) -> None:
    """A virtual machine compiles what it has run often: its first thousands of requests are not what a user sees."""
    create_topics(peer, {"warm-up": 1})
    produce_load(peer.bootstrap, "warm-up", message_bytes=1024, count=count)
    consume_load(peer.bootstrap, "warm-up", count=count)
    produce_load(peer.bootstrap, "warm-up", message_bytes=100, count=count // 10, config=ONE_MESSAGE_A_REQUEST)


def _arguments() -> argparse.Namespace:
    names = [scenario.name for scenario in SCENARIOS]
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__, epilog=" ".join(names))
    parser.add_argument("--only", type=_list_of(names), default=[], metavar="NAME,…", help="scenarios to run (all)")
    parser.add_argument("--peers", type=_list_of(list(PEERS)), default=list(PEERS), metavar="NAME,…")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="tiny counts, no page-cache fill: no figure to quote")
    parser.add_argument("--kafka-heap", default="1g", help="Apache Kafka's heap (1g)")
    parser.add_argument("--scratch", default=None, help="where data goes: a directory on a real disk, not in memory")
    return parser.parse_args()


def _list_of(known: Sequence[str]) -> Callable[[str], list[str]]:
    def parse(text: str) -> list[str]:
        names = text.split(",")
        for name in names:
            if name not in known:
                raise argparse.ArgumentTypeError(f"no {name!r}; known are {', '.join(known)}")
        return names

    return parse


if __name__ == "__main__":
    sys.exit(main())
