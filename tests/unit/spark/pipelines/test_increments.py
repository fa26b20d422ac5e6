"""Which rows a micro-batch of the JDBC source has, on a real PostgreSQL: none lost, none twice, whatever is equal."""

from collections.abc import Iterator
from contextlib import closing
from itertools import chain
from typing import Any

import psycopg2
import pytest

from ottla.spark.pipelines.sources.increments import Cut, IncrementTable, Position
from tests.postgres import Database

EVENTS = IncrementTable(name="events", column="at")
BEGIN = Position(value=None)


@pytest.fixture
def cursor(database: Database) -> Iterator[Any]:
    database.execute("CREATE TABLE events (id serial, at timestamptz)")
    with closing(psycopg2.connect(database.url, options="-c timezone=UTC")) as connection:
        connection.autocommit = True
        with connection.cursor() as cursor:
            yield cursor


def insert(cursor: Any, *seconds: int | None) -> None:
    """Rows of one transaction, so many seconds after midnight."""
    values = ", ".join(
        "(NULL)" if one is None else f"('2026-01-01T00:00:00Z'::timestamptz + '{one} s')" for one in seconds
    )
    cursor.execute(f"INSERT INTO events (at) VALUES {values}")


def rows(cursor: Any, start: Position, end: Position, cut: Cut | None = None) -> list[int]:
    from psycopg2.sql import SQL

    cursor.execute(SQL("SELECT id FROM events WHERE ") + EVENTS.between(start, end, cut) + SQL(" ORDER BY id"))
    return [row[0] for row in cursor.fetchall()]


def step(cursor: Any, start: Position, **limits: Any) -> tuple[list[int], Position]:
    end = EVENTS.next_position(cursor, start, **({"to": None} | limits))
    return rows(cursor, start, end), Position.from_json(end.to_json())


def test_each_row_is_read_once_in_the_order_of_its_column(cursor: Any) -> None:
    insert(cursor, 3, 1, None, 2)
    read, position = step(cursor, BEGIN)
    assert read == [1, 2, 4]
    assert step(cursor, position) == ([], position)
    insert(cursor, 4)
    assert step(cursor, position)[0] == [5]


def test_rows_equal_to_the_last_that_was_read_are_read_when_they_come(cursor: Any) -> None:
    insert(cursor, 1, 2, 2)
    read, position = step(cursor, BEGIN)
    insert(cursor, 2)
    again, position = step(cursor, position)
    insert(cursor, 2, 3)
    assert (read, again, step(cursor, position)[0]) == ([1, 2, 3], [4], [5, 6])


def test_what_comes_later_is_not_in_a_micro_batch_that_is_read_again(cursor: Any) -> None:
    insert(cursor, 1, 2)
    end = EVENTS.next_position(cursor, BEGIN, to=None)
    insert(cursor, 2)
    assert rows(cursor, BEGIN, end) == [1, 2]
    assert step(cursor, end)[0] == [3]


def test_a_row_that_changed_is_read_again(cursor: Any) -> None:
    insert(cursor, 1, 2)
    _, position = step(cursor, BEGIN)
    cursor.execute("UPDATE events SET at = at WHERE id = 2")
    assert step(cursor, position)[0] == [2]


def test_a_limit_never_divides_equal_rows(cursor: Any) -> None:
    insert(cursor, 1, 2, 2, 2, 3)
    sizes, position = [], BEGIN
    for _ in range(3):
        read, position = step(cursor, position, rows_max=2)
        sizes.append(len(read))
    assert sizes == [4, 1, 0]


def test_a_limit_counts_numbers_in_their_order_not_in_that_of_texts(cursor: Any) -> None:
    numbers = IncrementTable(name="events", column="id")
    insert(cursor, *[0] * 20)
    assert numbers.next_position(cursor, BEGIN, to=None, rows_max=12).value == "12"


def test_with_a_bound_later_values_are_left(cursor: Any) -> None:
    insert(cursor, 1, 2)
    newest = EVENTS.newest(cursor)
    insert(cursor, 3)
    read, position = step(cursor, BEGIN, to=newest)
    assert read == [1, 2]
    assert step(cursor, position, to=newest) == ([], position)


def test_an_empty_table_has_no_newest_and_no_next(cursor: Any) -> None:
    assert EVENTS.newest(cursor) is None
    assert step(cursor, BEGIN) == ([], BEGIN)


def test_a_start_beyond_all_rows_does_not_go_back(cursor: Any) -> None:
    insert(cursor, 1)
    start = Position(value="2026-01-01T00:00:05Z")
    assert step(cursor, start) == ([], start)
    insert(cursor, 4, 5, 6)
    assert step(cursor, start)[0] == [3, 4]


@pytest.mark.parametrize("count", [1, 2, 3, 10])
def test_parts_have_every_row_once(cursor: Any, count: int) -> None:
    insert(cursor, *range(20), *[7] * 10)
    end = EVENTS.next_position(cursor, BEGIN, to=None)
    cuts = EVENTS.cuts(cursor, BEGIN, end, count)
    parts = [rows(cursor, BEGIN, end, cut) for cut in cuts]
    assert sorted(chain.from_iterable(parts)) == list(range(1, 31))
    assert len(cuts) <= count and (count == 1 or len(cuts) > 1)


def test_a_position_of_a_later_version_is_refused() -> None:
    with pytest.raises(ValueError, match="a newer Ottla wrote it"):
        Position.from_json({"version": 2, "value": "1", "transactions": []})
