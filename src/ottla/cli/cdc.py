"""`ottla cdc`: changes of PostgreSQL tables into topics (docs/CDC.md).

`ottla.cdc` needs psycopg2, which a user of the other commands need not have: it is imported when a command runs.
"""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import typer
from rich.console import Console
from rich.text import Text

from ottla.cli.connection import Connection, connected
from ottla.cli.errors import Failure
from ottla.cli.options import DEFAULT_SERVERS, AsJson, Properties, Servers, examples, key_values
from ottla.cli.output import done, facts, plain, print_json, print_table, rate_text, say, size, size_text, stderr

if TYPE_CHECKING:
    from ottla.cdc.capture import CaptureStatus, Progress
    from ottla.cdc.settings import CaptureSettings

app = typer.Typer(help="Changes of PostgreSQL tables as records: run, status, drop.", no_args_is_help=True)

PLAIN_INTERVAL_S: Final = 10.0  # Between lines of progress where there is no terminal to rewrite one.

File: TypeAlias = Annotated[
    Path | None,
    typer.Argument(metavar="FILE", exists=True, dir_okay=False, help="YAML, or the options below.", show_default=False),
]
Name: TypeAlias = Annotated[str | None, typer.Option("--name", help="Its position is kept under it.")]
Dsn: TypeAlias = Annotated[str | None, typer.Option("--dsn", metavar="DSN", help="PostgreSQL's, as psql takes it.")]
Tables: TypeAlias = Annotated[
    list[str] | None, typer.Option("--table", "-t", metavar="SCHEMA.TABLE", help="Repeat for more.")
]
Prefix: TypeAlias = Annotated[
    str | None, typer.Option("--prefix", help="Topics are PREFIX.SCHEMA.TABLE. Default: the name.")
]


@app.command(
    epilog=examples(
        ("from a file", "ottla cdc run shop.yaml"),
        (
            "two tables into compacted topics",
            "ottla cdc run --name shop --dsn 'host=db dbname=shop' -t public.orders -t public.customers --compacted",
        ),
    )
)
def run(
    file: File = None,
    name: Name = None,
    dsn: Dsn = None,
    tables: Tables = None,
    prefix: Prefix = None,
    compacted: Annotated[bool, typer.Option("--compacted", help="Make missing topics compacted.")] = False,
    partitions: Annotated[int | None, typer.Option("--partitions", min=1, help="Of topics that are missing.")] = None,
    servers: Servers = DEFAULT_SERVERS,
    properties: Properties = None,
) -> None:
    """Capture a snapshot, then every change, exactly once, until stopped."""
    given = Options(name=name, dsn=dsn, tables=tables, prefix=prefix, compacted=compacted, partitions=partitions)
    with capturing(file, given, servers, properties) as settings:
        from ottla.cdc.capture import Capture

        stopping = stop_signals()
        with Screen(stderr()) as screen:
            Capture(settings, observer=screen, stopping=stopping).run()
    say(
        f"stopped. The slot {settings.slot} makes PostgreSQL keep its log for the next run: without one its disk fills. "
        "`ottla cdc drop` removes the slot"
    )


@app.command(epilog=examples(("how far behind", "ottla cdc status shop.yaml")))
def status(
    file: File = None,
    name: Name = None,
    dsn: Dsn = None,
    tables: Tables = None,
    prefix: Prefix = None,
    servers: Servers = DEFAULT_SERVERS,
    properties: Properties = None,
    as_json: AsJson = False,
) -> None:
    """Show the position, whether a capture runs, and how much log PostgreSQL keeps for it."""
    with capturing(file, Options(name=name, dsn=dsn, tables=tables, prefix=prefix), servers, properties) as settings:
        from ottla.cdc.capture import capture_status

        found = capture_status(settings)
    if as_json:
        print_json(status_document(settings, found))
        return
    slot = found.slot
    state = "missing" if slot is None else "lost" if slot.is_lost else "running" if slot.is_active else "not running"
    document = status_document(settings, found)
    print_table(
        facts(
            [
                ("name", plain(settings.name)),
                ("slot", plain(f"{settings.slot}, {state}")),
                ("position", plain(document["position"])),
                ("acknowledged", plain(document["confirmed"])),
                ("behind", size(document["lag_bytes"])),
                ("log kept", size(document["retained_bytes"])),
                ("topics", plain(", ".join(settings.topics))),
            ]
        )
    )


@app.command(epilog=examples(("before the capture is given up", "ottla cdc drop shop.yaml")))
def drop(
    file: File = None,
    name: Name = None,
    dsn: Dsn = None,
    tables: Tables = None,
    prefix: Prefix = None,
    servers: Servers = DEFAULT_SERVERS,
    properties: Properties = None,
    as_json: AsJson = False,
) -> None:
    """Drop the slot and the publication, and forget the position. Topics stay."""
    with capturing(file, Options(name=name, dsn=dsn, tables=tables, prefix=prefix), servers, properties) as settings:
        from ottla.cdc.capture import drop_capture

        drop_capture(settings)
    if as_json:
        print_json({"name": settings.name, "slot": settings.slot, "dropped": True})
    else:
        done(f"{settings.name}: the slot {settings.slot}, its publication and the position are gone; the topics stay")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What stands in for a file."""

    name: str | None
    dsn: str | None
    tables: list[str] | None
    prefix: str | None
    compacted: bool = False
    partitions: int | None = None

    @property
    def are_any(self) -> bool:
        return any((self.name, self.dsn, self.tables, self.prefix, self.compacted, self.partitions))

    def document(self, servers: str, properties: list[str] | None) -> dict[str, Any]:
        """As a file would have it."""
        return {
            "name": self.name,
            "bootstrapServers": servers,
            "postgres": {"dsn": self.dsn, "tables": self.tables},
            "topics": {"compacted": self.compacted, "partitions": self.partitions},
            "kafka": key_values(properties, "--property"),
            **({"prefix": self.prefix} if self.prefix else {}),
        }


@contextmanager
def capturing(
    file: Path | None, given: Options, servers: str, properties: list[str] | None
) -> Iterator["CaptureSettings"]:
    """Checked settings, and somebody at the other end; what goes wrong inside is one line."""
    if file is not None and given.are_any:
        raise typer.BadParameter("give FILE, or options in its place", param_hint="FILE")
    try:
        import psycopg2

        from ottla.cdc.errors import CaptureError
        from ottla.cdc.settings import read_settings, settings_of
    except ImportError as error:
        raise Failure(f"{error.name} is not installed: pip install 'ottla[cdc]'") from error
    try:
        settings = settings_of(given.document(servers, properties)) if file is None else read_settings(file)
        with connected(Connection(servers=settings.bootstrap_servers, properties=settings.client_options)):
            yield settings
    except CaptureError as error:
        raise Failure(str(error)) from error
    except psycopg2.Error as error:
        raise Failure(f"PostgreSQL: {' '.join(str(error).split())}") from error


def stop_signals() -> threading.Event:
    """Set by SIGTERM or Ctrl-C; the same signal again ends the process at once."""
    stopping = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        stopping.set()
        signal.signal(number, signal.SIG_DFL)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    return stopping


def status_document(settings: "CaptureSettings", found: "CaptureStatus") -> dict[str, Any]:
    from ottla.cdc.lsn import lsn_text

    slot = found.slot
    return {
        "name": settings.name,
        "slot": settings.slot,
        "exists": slot is not None,
        "active": slot is not None and slot.is_active,
        "position": None if found.position is None else lsn_text(found.position),
        "confirmed": None if slot is None else lsn_text(slot.confirmed_lsn),
        "lag_bytes": None if slot is None else slot.lag_bytes,
        "retained_bytes": None if slot is None else slot.retained_bytes,
    }


class Screen:
    """One line that is rewritten, or a line now and then where there is no terminal."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._line = console.status("starting") if console.is_terminal else None
        self._plain_due = 0.0
        self._since = time.monotonic()
        self.change_count = 0

    def __enter__(self) -> "Screen":
        if self._line is not None:
            self._line.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._line is not None:
            self._line.stop()

    def on_event(self, text: str) -> None:
        self._console.print(Text(text, style="dim"), soft_wrap=True)

    def on_progress(self, progress: "Progress") -> None:
        from ottla.cdc.lsn import lsn_text

        now = time.monotonic()
        if self._line is None and now < self._plain_due:
            return
        rate = rate_text(progress.change_count - self.change_count, now - self._since)
        text = (
            f"{progress.change_count:,} changes ({rate}), at {lsn_text(progress.lsn)}, "
            f"{size_text(progress.lag_bytes)} behind"
        )
        self.change_count, self._since, self._plain_due = progress.change_count, now, now + PLAIN_INTERVAL_S
        if self._line is None:
            self.on_event(text)
        else:
            self._line.update(text)
