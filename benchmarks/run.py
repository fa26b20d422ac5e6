"""One run: brokers up, scenarios in turn, brokers down; what was measured and what broke.

Scenarios that share two running brokers come first, then those that start their own. A scenario that breaks is named
and left; the others still have something to say.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from confluent_kafka import KafkaException
from rich.console import Console

from benchmarks.page_cache import PageCacheFill
from benchmarks.peers import Peer, PeerError
from benchmarks.report import append_results, is_met, line_of, machine_facts, table_of
from benchmarks.requests import ONE_MESSAGE_A_REQUEST
from benchmarks.rounds import Outcome, Round, Scenario, run_scenario
from benchmarks.topics import create_topics
from ottla.client.librdkafka import ClientError
from ottla.client.load import LoadError, consume_load, produce_load

WARM_UP_COUNT: Final = 500_000
WARM_UP_COUNT_QUICK: Final = 10_000
BROKEN: Final = (LoadError, ClientError, KafkaException, PeerError, OSError)  # What a broker can do to a scenario.


@dataclass(slots=True, kw_only=True)
class Run:
    peers: Sequence[Peer]
    rounds: int
    quick: bool
    fill: PageCacheFill | None
    console: Console
    outcomes: list[Outcome] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    def execute(self, scenarios: Sequence[Scenario]) -> None:
        if self.fill is not None:
            self._create_fill(self.fill)
        facts = machine_facts(self.peers, quick=self.quick)
        sharing = [scenario for scenario in scenarios if not scenario.own_broker]
        if sharing:
            with self._brokers():
                self._measure(sharing, facts)
        self._measure([scenario for scenario in scenarios if scenario.own_broker], facts)
        self.console.print(table_of(self.outcomes, facts))
        if self.failed:
            self.console.print(f"[red]failed: {', '.join(self.failed)}[/]")

    def is_success(self) -> bool:
        """Nothing broke and, where the counts were worth it, no goal was missed."""
        return not self.failed and (self.quick or all(is_met(outcome) is not False for outcome in self.outcomes))

    def _create_fill(self, fill: PageCacheFill) -> None:
        with self.console.status("filling the page cache") as status:
            fill.create(lambda share: status.update(f"filling the page cache: {share:.0%}"))

    @contextmanager
    def _brokers(self) -> Iterator[None]:
        try:
            for peer in self.peers:
                peer.prepare()
                peer.start()
                _warm_up(peer, count=WARM_UP_COUNT_QUICK if self.quick else WARM_UP_COUNT)
            yield
        finally:
            for peer in self.peers:
                peer.discard()

    def _measure(self, scenarios: Sequence[Scenario], facts: dict[str, Any]) -> None:
        for scenario in scenarios:
            try:
                measured = run_scenario(
                    scenario, self.peers, rounds=self.rounds, quick=self.quick, before_each=self._before_each
                )
            except BROKEN as error:
                self.console.log(f"[red]{scenario.name} failed: {error}[/]")
                self.failed.append(scenario.name)
                continue
            self.outcomes += measured
            for outcome in measured:
                self.console.log(line_of(outcome))
            if not self.quick:
                append_results(measured, facts)

    def _before_each(self, turn: Round) -> None:
        if self.fill is not None:
            self.fill.top_up()
        self.console.log(f"{turn.scenario}: round {turn.index + 1}, {turn.peer.name}")


def _warm_up(peer: Peer, *, count: int) -> None:
    """A virtual machine compiles what it has run often: its first thousands of requests are not what a user sees."""
    create_topics(peer, {"warm-up": 1})
    produce_load(peer.bootstrap, "warm-up", message_bytes=1024, count=count)
    consume_load(peer.bootstrap, "warm-up", count=count)
    produce_load(peer.bootstrap, "warm-up", message_bytes=100, count=count // 10, config=ONE_MESSAGE_A_REQUEST)


def scratch_peers(kinds: Sequence[type[Peer]], scratch: Path) -> list[Peer]:
    return [kind(scratch / kind.name.replace(" ", "-").lower()) for kind in kinds]
