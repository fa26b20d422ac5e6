"""Changes as records in Debezium's envelope, JSON without a schema inside.

A deletion is two records, the change and a tombstone, so that a compacted topic forgets the key. An update that changes
the key is the deletion of the old key and the creation of the new one, for they may lie in different partitions.
TRUNCATE has the empty key `{}`: a record without a key, as Debezium sends, is refused by a compacted topic.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple

import ottla
from ottla.cdc.pgoutput import Change, Delete, Insert, Row, Update
from ottla.cdc.table import Table, filled

CONNECTOR: Final = "postgresql"
OLD_KEY_HEADER: Final = "__debezium.oldkey"
NEW_KEY_HEADER: Final = "__debezium.newkey"
_ENCODER: Final = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False)


class Operation(StrEnum):
    CREATE = "c"
    UPDATE = "u"
    DELETE = "d"
    READ = "r"  # of a snapshot
    TRUNCATE = "t"


class Record(NamedTuple):
    topic: str
    key: bytes
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where in PostgreSQL's history a change stands."""

    lsn: int
    committed_ms: int
    transaction_id: int | None = None
    """None in a snapshot."""
    last_commit_lsn: int | None = None


class Envelopes:
    def __init__(self, *, name: str, database: str, clock_ms: Callable[[], int]) -> None:
        self._name = name
        self._database = database
        self._clock_ms = clock_ms

    def row(self, table: Table, row: Row, place: Place) -> Record:
        """A row that a snapshot found."""
        return self._record(table, Operation.READ, place, after=row)

    def truncation(self, table: Table, place: Place) -> Record:
        return Record(table.topic, b"{}", self._value(table, Operation.TRUNCATE, place, None, None))

    def changes(self, table: Table, change: Change, place: Place) -> Iterator[Record]:
        match change:
            case Insert():
                yield self._record(table, Operation.CREATE, place, after=change.after)
            case Update():
                yield from self._update(table, change, place)
            case Delete():
                yield from self._deletion(table, change.key, change.before, place)

    def _update(self, table: Table, change: Update, place: Place) -> Iterator[Record]:
        after = filled(change.after, change.before)
        old = change.before or change.key
        if old is None or table.key(old) == table.key(after):
            yield self._record(table, Operation.UPDATE, place, before=change.before, after=after)
            return
        deletion, tombstone = self._deletion(table, change.key, change.before, place)
        creation = self._record(table, Operation.CREATE, place, after=after)
        yield deletion._replace(headers=((NEW_KEY_HEADER, creation.key),))
        yield tombstone
        yield creation._replace(headers=((OLD_KEY_HEADER, deletion.key),))

    def _deletion(self, table: Table, key: Row | None, before: Row | None, place: Place) -> tuple[Record, Record]:
        old = before or key
        assert old is not None, "PostgreSQL tells the key or the row of every deletion"
        key_document = table.key(old)
        told = key_document if before is None else table.document(before)
        encoded_key = encoded(key_document)
        value = self._value(table, Operation.DELETE, place, told, None)
        return Record(table.topic, encoded_key, value), Record(table.topic, encoded_key, None)

    def _record(
        self, table: Table, operation: Operation, place: Place, *, before: Row | None = None, after: Row
    ) -> Record:
        old = None if before is None else table.document(before)
        value = self._value(table, operation, place, old, table.document(after))
        return Record(table.topic, encoded(table.key(after)), value)

    def _value(
        self,
        table: Table,
        operation: Operation,
        place: Place,
        before: dict[str, Any] | None,
        after: dict[str, Any] | None,
    ) -> bytes:
        is_snapshot = operation is Operation.READ
        last_commit = "null" if place.last_commit_lsn is None else f'"{place.last_commit_lsn}"'
        return encoded(
            {
                "before": before,
                "after": after,
                "source": {
                    "version": ottla.__version__,
                    "connector": CONNECTOR,
                    "name": self._name,
                    "ts_ms": place.committed_ms,
                    "snapshot": "true" if is_snapshot else "false",
                    "db": self._database,
                    "sequence": f'[{last_commit},"{place.lsn}"]',
                    "schema": table.schema,
                    "table": table.name,
                    "txId": place.transaction_id,
                    "lsn": place.lsn,
                    "xmin": None,
                },
                "op": operation.value,
                "ts_ms": self._clock_ms(),
                "transaction": None,
            }
        )


def encoded(document: Any) -> bytes:
    return _ENCODER.encode(document).encode()
