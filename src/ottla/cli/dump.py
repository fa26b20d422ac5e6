"""What `ottla log dump` found in one file: columns, rows, a remark, and what is wrong with it.

Readers of each file format return a `Dump` of plain values; here they become a table for people or a document for
scripts, by the kind of their column.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from itertools import islice
from typing import Any, Final, NamedTuple, TypeAlias

from rich.table import Table
from rich.text import Text

from ottla.cli.output import bare_table, number, plain, size
from ottla.cli.record_format import moment

Row: TypeAlias = tuple[int | str | bool | None, ...]

COLUMN_GAP: Final = 3


class Kind(Enum):
    NUMBER = auto()
    SIZE = auto()
    TIME = auto()
    TEXT = auto()
    CLIPPED = auto()  # Text of any length: one line of a table, whole in JSON.
    CHECK = auto()


class Column(NamedTuple):
    name: str
    kind: Kind = Kind.NUMBER
    hidden: bool = False  # For scripts only: a table has no room for everything.

    @property
    def member(self) -> str:
        return self.name.replace(" ", "_")


@dataclass(frozen=True, slots=True, kw_only=True)
class Dump:
    kind: str
    columns: tuple[Column, ...] = ()
    rows: Sequence[Row] = ()
    rows_left_out: int = 0
    remark: str = ""
    trouble: str | None = None


def first_rows(rows: Iterator[Row], rows_max: int | None) -> tuple[list[Row], int]:
    """At most so many, and how many more there were: a segment may hold a million, and all are to be checked."""
    return list(islice(rows, rows_max)), sum(1 for _ in rows)


def dump_document(path: str, dump: Dump) -> dict[str, Any]:
    members = [column.member for column in dump.columns]
    return {
        "file": path,
        "kind": dump.kind,
        "remark": dump.remark,
        "trouble": dump.trouble,
        "entries_left_out": dump.rows_left_out,
        "entries": [dict(zip(members, row, strict=True)) for row in dump.rows],
    }


def dump_table(dump: Dump, *, width: int) -> Table:
    """Columns that hold nothing in these rows are left out; text yields to numbers where the width is short."""
    shown = [
        index
        for index, column in enumerate(dump.columns)
        if not column.hidden and any(row[index] is not None for row in dump.rows)
    ]
    cells = [[cell(dump.columns[index].kind, row[index]) for index in shown] for row in dump.rows]
    widths = [max(len(row[at]) for row in cells) for at in range(len(shown))]
    is_short = sum(widths) + COLUMN_GAP * len(widths) > width
    made = bare_table(expand=is_short)
    for index, natural_width in zip(shown, widths, strict=True):
        column = dump.columns[index]
        made.add_column(
            column.name,
            justify="right" if column.kind in (Kind.NUMBER, Kind.SIZE) else "left",
            no_wrap=column.kind is not Kind.TEXT,
            overflow="ellipsis" if column.kind is Kind.CLIPPED else "fold",
            ratio=natural_width if column.kind is Kind.CLIPPED and is_short else None,
        )
    for row in cells:
        made.add_row(*row)
    return made


def cell(kind: Kind, value: Any) -> Text:
    if value is None:
        return plain(None)
    match kind:
        case Kind.NUMBER:
            return number(value)
        case Kind.SIZE:
            return size(value)
        case Kind.TIME:
            return plain(moment(value)[:23])
        case Kind.CHECK:
            return Text("ok", style="green") if value else Text("WRONG", style="bold red")
        case Kind.TEXT | Kind.CLIPPED:
            return plain(value)
