"""What every command prints with: tables for people on stdout, JSON for scripts, everything else on stderr."""

import json
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from rich import box
from rich.console import Console, RenderableType
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn
from rich.table import Table
from rich.text import Text

# A pipe has no width: wide enough that nothing a script greps for is folded.
PIPE_WIDTH: Final = 240
SIZE_UNITS: Final = ("KiB", "MiB", "GiB", "TiB")


def stdout() -> Console:
    piped = not sys.stdout.isatty() and "COLUMNS" not in os.environ
    return Console(width=PIPE_WIDTH if piped else None, highlight=False)


def stderr() -> Console:
    return Console(stderr=True, highlight=False)


def say(message: str) -> None:
    """A remark beside the result: on stderr, so that a pipe carries data alone."""
    stderr().print(Text(message, style="dim"), soft_wrap=True)


def warn(message: str) -> None:
    stderr().print(Text.assemble(("warning: ", "bold yellow"), message), soft_wrap=True)


def complain(message: str) -> None:
    stderr().print(Text.assemble(("error: ", "bold red"), message), soft_wrap=True)


def done(message: str) -> None:
    stdout().print(Text.assemble(("✓ ", "bold green"), message), soft_wrap=True)


def print_json(document: Any) -> None:
    sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")


def print_table(table: RenderableType) -> None:
    stdout().print(table)


def bare_table(*, expand: bool = False) -> Table:
    return Table(box=box.SIMPLE_HEAD, header_style="bold", expand=expand, collapse_padding=True)


def table(
    columns: Sequence[str], rows: Iterable[Sequence[RenderableType]] = (), *, clipped: str | None = None
) -> Table:
    """Columns by name; `>` before it aligns to the right (numbers). `clipped` comes last and gets what room is left."""
    made = bare_table(expand=clipped is not None)
    for name in columns:
        made.add_column(name.removeprefix(">"), justify="right" if name.startswith(">") else "left", overflow="fold")
    if clipped is not None:
        made.add_column(clipped, no_wrap=True, overflow="ellipsis", ratio=1, style="dim")
    for row in rows:
        made.add_row(*row)
    return made


def facts(pairs: Iterable[tuple[str, RenderableType]]) -> Table:
    """Names and values, one pair a line, without a header."""
    made = Table(box=None, show_header=False, padding=(0, 2, 0, 1))
    made.add_column(style="dim", no_wrap=True)
    made.add_column(overflow="fold")
    for name, value in pairs:
        made.add_row(name, value)
    return made


def plain(value: object) -> Text:
    """Text that came from a cluster: never read as markup."""
    return Text("–" if value is None else str(value), style="dim" if value is None else "")


def number(value: int | None) -> Text:
    return plain(None if value is None else f"{value:,}")


def size(value_bytes: float | None) -> Text:
    return plain(None if value_bytes is None else size_text(value_bytes))


def size_text(value_bytes: float) -> str:
    if value_bytes < 1024:
        return f"{value_bytes:.0f} B"
    power = min(int(math.log(value_bytes, 1024)), len(SIZE_UNITS))
    return f"{value_bytes / 1024**power:.1f} {SIZE_UNITS[power - 1]}"


def counted(count: int, noun: str, plural: str | None = None) -> str:
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def rate_text(count: float, seconds: float) -> str:
    return f"{count / seconds:,.0f}/s" if seconds > 0 else "–"


@contextmanager
def file_progress(total_bytes: int | None) -> Iterator[Callable[[int], None]]:
    """A bar over what is read of files; nothing where there is no total or no terminal. Gives "so many bytes more"."""
    console = stderr()
    if total_bytes is None or not console.is_terminal:
        yield lambda _: None
        return
    columns = (TextColumn("reading"), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=total_bytes)
        yield lambda more_bytes: bar.advance(task, more_bytes)
