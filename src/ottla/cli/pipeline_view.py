"""Pipelines on a terminal: a table that is drawn again while they run, or a line now and then where there is none."""

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Final, Protocol

from rich.console import RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from ottla.cli.output import counted, facts, number, plain, say, stderr, table
from ottla.spark.pipelines.status_files import State, Status

LINE_INTERVAL_S: Final = 10.0
STATE_STYLES: Final = {
    State.RUNNING: "green",
    State.FAILED: "bold red",
    State.RESTARTING: "yellow",
    State.STOPPED: "dim",
    State.FINISHED: "dim",
}


class View(Protocol):
    def observe(self, statuses: Sequence[Status]) -> None: ...
    def tell(self, line: str) -> None: ...


@contextmanager
def watching() -> Iterator[View]:
    """On stderr: a console sink has stdout."""
    console = stderr()
    if not console.is_terminal:
        yield Lines()
        return
    with Live(console=console, auto_refresh=False) as live:
        yield LiveTable(live)


class LiveTable:
    def __init__(self, live: Live) -> None:
        self._live = live

    def observe(self, statuses: Sequence[Status]) -> None:
        self._live.update(statuses_table(statuses), refresh=True)

    def tell(self, line: str) -> None:
        self._live.console.print(Text(line, style="yellow"), soft_wrap=True)


class Lines:
    """A line when a pipeline's state changes, and every ten seconds when it has got on."""

    def __init__(self) -> None:
        self._told: dict[str, Status] = {}

    def observe(self, statuses: Sequence[Status]) -> None:
        for status in statuses:
            told = self._told.get(status.name)
            is_new_state = told is None or told.state is not status.state
            if is_new_state or (
                told is not None and told.batch != status.batch and time.time() - told.updated_s >= LINE_INTERVAL_S
            ):
                say(status_line(status))
                self._told[status.name] = status

    def tell(self, line: str) -> None:
        say(line)


def status_line(status: Status) -> str:
    if status.batch is None:
        return f"{status.name}: {status.state}"
    lag = "" if status.lag is None else f", lag {status.lag:,}"
    rows = f"{counted(status.rows_total, 'row')} in all, {status.rows_per_second:,.0f}/s{lag}"
    return f"{status.name}: {status.state}, batch {status.batch} in {seconds_text(status.batch_ms)}, {rows}"


def statuses_table(statuses: Iterable[Status]) -> Table:
    rows = [
        (
            Text(status.name, style="bold"),
            state_text(status),
            number(status.batch),
            plain(f"{status.rows_per_second:,.0f}"),
            number(status.rows_total),
            number(status.lag),
            plain(seconds_text(status.batch_ms)),
        )
        for status in statuses
    ]
    return table(["pipeline", "state", ">batch", ">rows/s", ">rows", ">lag", ">batch time"], rows)


def listing_table(statuses: Iterable[Status]) -> Table:
    rows = [
        (
            Text(status.name, style="bold"),
            state_text(status),
            plain(None if status.state.is_over else status.pid),
            plain(status.guarantee),
            plain(status.file),
        )
        for status in statuses
    ]
    return table(["pipeline", "state", ">process", "guarantee", "file"], rows)


def status_view(status: Status) -> RenderableType:
    return facts(
        [
            ("pipeline", Text(status.name, style="bold")),
            ("state", state_text(status)),
            ("process", plain(status.pid)),
            ("file", plain(status.file)),
            ("guarantee", plain(status.guarantee)),
            ("checkpoint", plain(status.checkpoint)),
            ("started", plain(moment_text(status.started_s))),
            ("last news", plain(moment_text(status.updated_s))),
            ("batch", number(status.batch)),
            ("batch time", plain(seconds_text(status.batch_ms))),
            ("rows", plain(f"{status.rows_total:,}, now {status.rows_per_second:,.0f}/s")),
            ("lag", number(status.lag)),
            ("restarts", number(status.restarts)),
            ("last failure", plain(status.reason)),
        ]
    )


def state_text(status: Status) -> Text:
    if status.is_gone:
        return Text(f"gone (process {status.pid} has ended)", style="bold red")
    return Text(status.state, style=STATE_STYLES.get(status.state, ""))


def seconds_text(duration_ms: int | None) -> str | None:
    return None if duration_ms is None else f"{duration_ms / 1000:.1f} s"


def moment_text(moment_s: float) -> str:
    return datetime.fromtimestamp(moment_s).astimezone().isoformat(sep=" ", timespec="seconds")
