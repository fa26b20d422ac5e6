"""Which rows of a table a micro-batch has: those after one position in a growing column, up to another.

A position is a value of the column and the transactions whose rows with that very value were read. Rows of equal value
may still be added when some have been read: these have another transaction (`xmin`, which PostgreSQL keeps in every row),
and all rows of a transaction become visible at once. So none is lost and none is read twice, however many are equal.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, Self

from ottla.spark.pipelines.postgres import identifier

if TYPE_CHECKING:
    from psycopg2.extensions import cursor as Cursor
    from psycopg2.sql import Composable, Composed

LAYOUT_VERSION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    value: str | None
    """As text. None is before all rows."""
    transactions: tuple[int, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As it stands in checkpoints, for ever."""
        return {"version": LAYOUT_VERSION, "value": self.value, "transactions": list(self.transactions)}

    @classmethod
    def from_json(cls, offset: Mapping[str, Any]) -> Self:
        if offset["version"] != LAYOUT_VERSION:
            raise ValueError(f"the checkpoint has a position of version {offset['version']}: a newer Ottla wrote it")
        return cls(value=offset["value"], transactions=tuple(offset["transactions"]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """A task's part of the rows: after one value, up to and with another. None is no bound."""

    after: str | None = None
    to: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IncrementTable:
    name: str
    column: str

    def newest(self, cursor: "Cursor") -> str | None:
        """The greatest value there is, None in a table without rows."""
        return _first(cursor, self._sql("SELECT max({column})::text FROM {table}"))

    def next_position(
        self, cursor: "Cursor", start: Position, *, to: str | None, rows_max: int | None = None
    ) -> Position:
        """After all rows there are, or about as many; with `to`, rows beyond that value are left for later."""
        unread = (
            self._after(start) + self._sql(" AND {column} <= {to}", to=to) if to is not None else self._after(start)
        )
        value = None
        if rows_max is not None:
            # Qualified: the name alone would be that of the text, and 10 come before 9.
            ordered = self._sql(" ORDER BY source.{column} OFFSET {skipped} LIMIT 1", skipped=rows_max - 1)
            value = _first(cursor, self._sql("SELECT {column}::text FROM {table} AS source WHERE ") + unread + ordered)
        if value is None:
            value = _first(cursor, self._sql("SELECT max({column})::text FROM {table} WHERE ") + unread)
        return start if value is None else self._position(cursor, start, value)

    def _position(self, cursor: "Cursor", start: Position, value: str) -> Position:
        """After the rows there are by now with this value."""
        cursor.execute(
            self._sql("SELECT DISTINCT xmin::text::bigint FROM {table} WHERE {column} = {value}", value=value)
        )
        transactions = {row[0] for row in cursor.fetchall()}
        if value == start.value:
            transactions |= set(start.transactions)  # Also those whose rows are gone: a position never goes back.
        return Position(value=value, transactions=tuple(sorted(transactions)))

    def cuts(self, cursor: "Cursor", start: Position, end: Position, count: int) -> list[Cut]:
        """Parts of the rows between, as many and about equal."""
        fractions = [number / count for number in range(1, count)]
        if not fractions:
            return [Cut()]
        edges = self._sql(
            "SELECT DISTINCT unnest(percentile_disc({fractions}::float8[]) WITHIN GROUP (ORDER BY {column})) AS edge"
            " FROM {table} WHERE ",
            fractions=fractions,
        )
        cursor.execute(
            self._sql("SELECT edge::text FROM (")
            + edges
            + self.between(start, end)
            + self._sql(") AS found ORDER BY found.edge")
        )
        texts = [None, *(row[0] for row in cursor.fetchall() if row[0] is not None), None]
        return [Cut(after=after, to=to) for after, to in pairwise(texts)]

    def between(self, start: Position, end: Position, cut: Cut | None = None) -> "Composed":
        """The condition that rows after `start` and up to `end` meet, or those of a part of them."""
        condition = self._after(start) + self._sql(
            " AND ({column} < {value} OR ({column} = {value} AND xmin::text::bigint = ANY ({read})))",
            value=end.value,
            read=list(end.transactions),
        )
        if cut is not None and cut.after is not None:
            condition += self._sql(" AND {column} > {after}", after=cut.after)
        if cut is not None and cut.to is not None:
            condition += self._sql(" AND {column} <= {to}", to=cut.to)
        return condition

    def _after(self, start: Position) -> "Composed":
        if start.value is None:
            return self._sql("{column} IS NOT NULL")
        return self._sql(
            "({column} > {value} OR ({column} = {value} AND NOT xmin::text::bigint = ANY ({read})))",
            value=start.value,
            read=list(start.transactions),
        )

    def _sql(self, text: str, **values: Any) -> "Composed":
        """`text` with the table, the column and values in the places of these names."""
        from psycopg2.sql import SQL, Identifier, Literal

        literals = {name: Literal(value) for name, value in values.items()}
        return SQL(text).format(table=identifier(self.name), column=Identifier(self.column), **literals)


def _first(cursor: "Cursor", query: "Composable") -> str | None:
    cursor.execute(query)
    row = cursor.fetchone()
    return None if row is None else row[0]
