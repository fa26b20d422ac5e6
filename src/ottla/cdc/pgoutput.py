"""Messages of PostgreSQL's own output plugin `pgoutput`, protocol version 1: bytes to values, and nothing else.

A transaction arrives when it is committed, as a whole: Begin, its changes in order, Commit. A Relation comes before the
first change of a table and again after the table was altered; changes name it by its oid. Values are PostgreSQL's
texts (column_types.py makes JSON of them). Format: "Logical Replication Message Formats" in PostgreSQL's manual.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Final, TypeAlias

POSTGRES_EPOCH_US: Final = 946_684_800_000_000  # 2000-01-01, where PostgreSQL counts from.

_INT16: Final = struct.Struct("!h")
_INT32: Final = struct.Struct("!I")
_BEGIN: Final = struct.Struct("!QqI")
_COMMIT: Final = struct.Struct("!BQQq")
_COLUMN_TYPE: Final = struct.Struct("!Ii")
_NULL, _UNCHANGED, _TEXT = b"nut"
_KEY, _OLD, _NEW = b"KON"


class MalformedMessage(ValueError):
    """Not a message of pgoutput, version 1."""


class Unchanged(Enum):
    """A large value, stored apart (TOAST), that an update left as it was: PostgreSQL does not send it."""

    TOAST = "unchanged"


Cell: TypeAlias = str | Unchanged | None
Row: TypeAlias = tuple[Cell, ...]


class ReplicaIdentity(StrEnum):
    """What PostgreSQL logs of a row that is updated or deleted: its primary key, nothing, all, or another index."""

    DEFAULT = "d"
    NOTHING = "n"
    FULL = "f"
    INDEX = "i"


@dataclass(frozen=True, slots=True, kw_only=True)
class Begin:
    final_lsn: int
    committed_us: int
    transaction_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """`end_lsn` is the position behind the transaction: the one to acknowledge and to start again from."""

    commit_lsn: int
    end_lsn: int
    committed_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    name: str
    type_oid: int
    type_modifier: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    oid: int
    schema: str
    table: str
    identity: ReplicaIdentity
    columns: tuple[Column, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Insert:
    relation_oid: int
    after: Row


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """`key` has the old key where the key changed, `before` the whole old row under REPLICA IDENTITY FULL."""

    relation_oid: int
    key: Row | None
    before: Row | None
    after: Row


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    relation_oid: int
    key: Row | None
    before: Row | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncate:
    relation_oids: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Type:
    """A type that is not built in. Its name alone does not tell how to read it: the catalogue does."""

    oid: int
    schema: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The transaction came to this server by replication."""

    lsn: int
    name: str


Change: TypeAlias = Insert | Update | Delete
Message: TypeAlias = Begin | Commit | Relation | Change | Truncate | Type | Origin


def parse(payload: bytes) -> Message:
    reader = _READERS.get(payload[0]) if payload else None
    if reader is None:
        raise MalformedMessage(f"a message that begins with {payload[:1]!r}")
    try:
        message, end = reader(payload, 1)
    except (struct.error, IndexError, ValueError) as error:
        raise MalformedMessage(f"{payload[:1]!r} of {len(payload)} bytes: {error}") from error
    if end != len(payload):
        raise MalformedMessage(f"{payload[:1]!r} of {len(payload)} bytes ends at {end}")
    return message


def _begin(payload: bytes, at: int) -> tuple[Begin, int]:
    final_lsn, committed_us, transaction_id = _BEGIN.unpack_from(payload, at)
    begin = Begin(final_lsn=final_lsn, committed_us=committed_us + POSTGRES_EPOCH_US, transaction_id=transaction_id)
    return begin, at + _BEGIN.size


def _commit(payload: bytes, at: int) -> tuple[Commit, int]:
    _, commit_lsn, end_lsn, committed_us = _COMMIT.unpack_from(payload, at)
    commit = Commit(commit_lsn=commit_lsn, end_lsn=end_lsn, committed_us=committed_us + POSTGRES_EPOCH_US)
    return commit, at + _COMMIT.size


def _relation(payload: bytes, at: int) -> tuple[Relation, int]:
    (oid,) = _INT32.unpack_from(payload, at)
    schema, at = _string(payload, at + 4)
    table, at = _string(payload, at)
    identity = ReplicaIdentity(chr(payload[at]))
    (count,) = _INT16.unpack_from(payload, at + 1)
    at += 3
    columns = []
    for _ in range(count):
        name, at = _string(payload, at + 1)  # Behind a flag for columns of the identity.
        type_oid, type_modifier = _COLUMN_TYPE.unpack_from(payload, at)
        at += _COLUMN_TYPE.size
        columns.append(Column(name=name, type_oid=type_oid, type_modifier=type_modifier))
    # pg_catalog is sent as an empty name.
    relation = Relation(oid=oid, schema=schema or "pg_catalog", table=table, identity=identity, columns=tuple(columns))
    return relation, at


def _insert(payload: bytes, at: int) -> tuple[Insert, int]:
    (oid,) = _INT32.unpack_from(payload, at)
    after, at = _new_row(payload, at + 4)
    return Insert(relation_oid=oid, after=after), at


def _update(payload: bytes, at: int) -> tuple[Update, int]:
    (oid,) = _INT32.unpack_from(payload, at)
    key, before, at = _old_row(payload, at + 4)
    after, at = _new_row(payload, at)
    return Update(relation_oid=oid, key=key, before=before, after=after), at


def _delete(payload: bytes, at: int) -> tuple[Delete, int]:
    (oid,) = _INT32.unpack_from(payload, at)
    key, before, at = _old_row(payload, at + 4)
    return Delete(relation_oid=oid, key=key, before=before), at


def _truncate(payload: bytes, at: int) -> tuple[Truncate, int]:
    (count,) = _INT32.unpack_from(payload, at)
    oids = struct.unpack_from(f"!{count}I", payload, at + 5)  # Behind the options CASCADE and RESTART IDENTITY.
    return Truncate(relation_oids=oids), at + 5 + 4 * count


def _type(payload: bytes, at: int) -> tuple[Type, int]:
    (oid,) = _INT32.unpack_from(payload, at)
    schema, at = _string(payload, at + 4)
    name, at = _string(payload, at)
    return Type(oid=oid, schema=schema or "pg_catalog", name=name), at


def _origin(payload: bytes, at: int) -> tuple[Origin, int]:
    (lsn,) = struct.unpack_from("!Q", payload, at)
    name, at = _string(payload, at + 8)
    return Origin(lsn=lsn, name=name), at


def _old_row(payload: bytes, at: int) -> tuple[Row | None, Row | None, int]:
    """The key, or the row, or neither."""
    kind = payload[at]
    if kind not in (_KEY, _OLD):
        return None, None, at
    row, at = _row(payload, at + 1)
    return (row, None, at) if kind == _KEY else (None, row, at)


def _new_row(payload: bytes, at: int) -> tuple[Row, int]:
    if payload[at] != _NEW:
        raise ValueError(f"no new row at {at}")
    return _row(payload, at + 1)


def _row(payload: bytes, at: int) -> tuple[Row, int]:
    (count,) = _INT16.unpack_from(payload, at)
    at += 2
    cells: list[Cell] = []
    for _ in range(count):
        kind = payload[at]
        at += 1
        if kind == _TEXT:
            start = at + 4
            at = start + _INT32.unpack_from(payload, at)[0]
            cells.append(payload[start:at].decode())
        elif kind == _NULL:
            cells.append(None)
        elif kind == _UNCHANGED:
            cells.append(Unchanged.TOAST)
        else:
            raise ValueError(f"a value of the kind {chr(kind)!r}")
    return tuple(cells), at


def _string(payload: bytes, at: int) -> tuple[str, int]:
    end = payload.index(0, at)
    return payload[at:end].decode(), end + 1


_READERS: Final[dict[int, Callable[[bytes, int], tuple[Message, int]]]] = {
    ord("B"): _begin,
    ord("C"): _commit,
    ord("R"): _relation,
    ord("I"): _insert,
    ord("U"): _update,
    ord("D"): _delete,
    ord("T"): _truncate,
    ord("Y"): _type,
    ord("O"): _origin,
}
