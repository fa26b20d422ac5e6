"""Messages of pgoutput, byte by byte."""

import struct

import pytest

from ottla.cdc.pgoutput import (
    Begin,
    Column,
    Commit,
    Delete,
    Insert,
    MalformedMessage,
    Origin,
    Relation,
    ReplicaIdentity,
    Truncate,
    Type,
    Unchanged,
    Update,
    parse,
)
from tests.unit.cdc import messages
from tests.unit.cdc.messages import NULL, UNCHANGED, row, text

COMMITTED_US = 1_700_000_000_123_456


def test_a_transaction_begins_and_ends() -> None:
    assert parse(messages.begin(500, COMMITTED_US, 77)) == Begin(
        final_lsn=500, committed_us=COMMITTED_US, transaction_id=77
    )
    assert parse(messages.commit(500, 540, COMMITTED_US)) == Commit(
        commit_lsn=500, end_lsn=540, committed_us=COMMITTED_US
    )


def test_a_relation_names_its_columns_and_their_types() -> None:
    payload = messages.relation(16384, "public", "orders", "f", ("id", 20, -1), ("größe", 1700, 655366))
    assert parse(payload) == Relation(
        oid=16384,
        schema="public",
        table="orders",
        identity=ReplicaIdentity.FULL,
        columns=(
            Column(name="id", type_oid=20, type_modifier=-1),
            Column(name="größe", type_oid=1700, type_modifier=655366),
        ),
    )


def test_an_empty_schema_is_that_of_the_catalogue() -> None:
    relation = parse(messages.relation(1, "", "t", "d"))
    assert isinstance(relation, Relation)
    assert relation.schema == "pg_catalog"


def test_an_insert_has_texts_and_nulls() -> None:
    assert parse(messages.insert(7, row(text("1"), NULL, text("")))) == Insert(relation_oid=7, after=("1", None, ""))


@pytest.mark.parametrize(
    ("old", "key", "before"),
    [
        (b"", None, None),
        (b"K" + row(text("1"), NULL), ("1", None), None),
        (b"O" + row(text("1"), text("a")), None, ("1", "a")),
    ],
    ids=["nothing old", "the old key", "the old row"],
)
def test_an_update_may_tell_what_was(old: bytes, key: object, before: object) -> None:
    update = parse(messages.update(7, row(text("2"), UNCHANGED), old=old))
    assert update == Update(relation_oid=7, key=key, before=before, after=("2", Unchanged.TOAST))  # type: ignore[arg-type]


def test_a_delete_tells_the_key_or_the_row() -> None:
    assert parse(messages.delete(7, b"K" + row(text("1"), NULL))) == Delete(
        relation_oid=7, key=("1", None), before=None
    )
    assert parse(messages.delete(7, b"O" + row(text("1"), text("x")))) == Delete(
        relation_oid=7, key=None, before=("1", "x")
    )


def test_a_truncate_is_of_one_or_many_tables() -> None:
    assert parse(messages.truncate(7, 8)) == Truncate(relation_oids=(7, 8))


def test_types_and_origins_are_told() -> None:
    assert parse(b"Y" + struct.pack("!I", 90) + b"public\0mood\0") == Type(oid=90, schema="public", name="mood")
    assert parse(b"O" + struct.pack("!Q", 12) + b"standby\0") == Origin(lsn=12, name="standby")


@pytest.mark.parametrize(
    "payload",
    [
        messages.begin(1, COMMITTED_US, 2),
        messages.commit(1, 2, COMMITTED_US),
        messages.relation(1, "public", "t", "d", ("id", 23, -1)),
        messages.insert(7, row(text("value"), NULL)),
        messages.update(7, row(text("1")), old=b"K" + row(text("0"))),
        messages.delete(7, b"O" + row(text("1"))),
        messages.truncate(7, 8),
    ],
    ids=lambda payload: chr(payload[0]),
)
def test_a_message_cut_off_anywhere_is_refused_and_so_is_one_too_long(payload: bytes) -> None:
    for length in range(len(payload)):
        with pytest.raises(MalformedMessage):
            parse(payload[:length])
    with pytest.raises(MalformedMessage):
        parse(payload + b"\0")


def test_what_is_not_of_version_1_is_refused() -> None:
    with pytest.raises(MalformedMessage, match="begins with b'S'"):
        parse(b"S\0\0\0\1")
    with pytest.raises(MalformedMessage, match="of the kind 'b'"):
        parse(messages.insert(7, row(b"b" + struct.pack("!i", 1) + b"x")))
