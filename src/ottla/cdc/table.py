"""A captured table: its topic, and rows of PostgreSQL's texts as keys and documents."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

from ottla.cdc.column_types import Converter, DerivedType, converter
from ottla.cdc.pgoutput import Cell, Relation, Row, Unchanged

UNAVAILABLE: Final = "__debezium_unavailable_value"
_NOT_IN_TOPICS: Final = re.compile(r"[^a-zA-Z0-9._-]")


def topic_name(*parts: str) -> str:
    return _NOT_IN_TOPICS.sub("_", ".".join(parts))


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    topic: str
    schema: str
    name: str
    columns: tuple[tuple[str, Converter], ...]
    key_positions: tuple[int, ...]

    @classmethod
    def of(
        cls, relation: Relation, *, prefix: str, primary_key: Sequence[str], derived: Mapping[int, DerivedType]
    ) -> Self:
        names = [column.name for column in relation.columns]
        return cls(
            topic=topic_name(prefix, relation.schema, relation.table),
            schema=relation.schema,
            name=relation.table,
            columns=tuple(
                (column.name, converter(column.type_oid, column.type_modifier, derived)) for column in relation.columns
            ),
            key_positions=tuple(names.index(name) for name in primary_key),
        )

    def key(self, row: Row) -> dict[str, Any]:
        document = {}
        for position in self.key_positions:
            name, convert = self.columns[position]
            document[name] = _value(row[position], convert)
        return document

    def document(self, row: Row) -> dict[str, Any]:
        return {name: _value(cell, convert) for (name, convert), cell in zip(self.columns, row, strict=True)}


def _value(cell: Cell, convert: Converter) -> Any:
    if cell is None:
        return None
    return UNAVAILABLE if cell is Unchanged.TOAST else convert(cell)


def filled(row: Row, before: Row | None) -> Row:
    """A large value that an update left alone, taken from the old row where PostgreSQL sent that."""
    if before is None or Unchanged.TOAST not in row:
        return row
    return tuple(old if cell is Unchanged.TOAST else cell for cell, old in zip(row, before, strict=True))
