"""Changes as records: keys, envelopes, tombstones."""

import json
from typing import Any

from ottla.cdc.envelope import NEW_KEY_HEADER, OLD_KEY_HEADER, Envelopes, Place, Record
from ottla.cdc.pgoutput import Column, Delete, Insert, Relation, ReplicaIdentity, Unchanged, Update
from ottla.cdc.table import UNAVAILABLE, Table

RELATION = Relation(
    oid=7,
    schema="public",
    table="orders",
    identity=ReplicaIdentity.DEFAULT,
    columns=(
        Column(name="id", type_oid=20, type_modifier=-1),
        Column(name="note", type_oid=25, type_modifier=-1),
        Column(name="paid", type_oid=16, type_modifier=-1),
    ),
)
ORDERS = Table.of(RELATION, prefix="shop", primary_key=["id"], derived={})
ENVELOPES = Envelopes(name="shop", database="sales", clock_ms=lambda: 1_700_000_000_999)
PLACE = Place(lsn=900, committed_ms=1_700_000_000_123, transaction_id=77, last_commit_lsn=880)


def decoded(record: Record) -> tuple[Any, Any]:
    return json.loads(record.key), None if record.value is None else json.loads(record.value)


def changes(change: Insert | Update | Delete) -> list[Record]:
    return list(ENVELOPES.changes(ORDERS, change, PLACE))


def test_an_insert_is_a_creation_with_its_whole_source() -> None:
    [record] = changes(Insert(relation_oid=7, after=("1", "tea", "t")))
    assert record.topic == "shop.public.orders"
    key, value = decoded(record)
    assert key == {"id": 1}
    assert (value["op"], value["before"], value["ts_ms"], value["transaction"]) == ("c", None, 1_700_000_000_999, None)
    assert value["after"] == {"id": 1, "note": "tea", "paid": True}
    source = value["source"]
    assert isinstance(source.pop("version"), str)
    assert source == {
        "connector": "postgresql",
        "name": "shop",
        "ts_ms": 1_700_000_000_123,
        "snapshot": "false",
        "db": "sales",
        "sequence": '["880","900"]',
        "schema": "public",
        "table": "orders",
        "txId": 77,
        "lsn": 900,
        "xmin": None,
    }


def test_a_row_of_a_snapshot_is_a_read() -> None:
    record = ENVELOPES.row(ORDERS, ("1", None, "f"), Place(lsn=900, committed_ms=1))
    _, value = decoded(record)
    assert (value["op"], value["after"]) == ("r", {"id": 1, "note": None, "paid": False})
    assert (value["source"]["snapshot"], value["source"]["txId"]) == ("true", None)
    assert value["source"]["sequence"] == '[null,"900"]'


def test_an_update_tells_what_was_where_postgresql_does() -> None:
    [without] = changes(Update(relation_oid=7, key=None, before=None, after=("1", "cake", "t")))
    [with_before] = changes(Update(relation_oid=7, key=None, before=("1", "tea", "t"), after=("1", "cake", "t")))
    assert decoded(without)[1]["before"] is None
    assert decoded(with_before)[1]["before"] == {"id": 1, "note": "tea", "paid": True}
    assert decoded(with_before)[1]["op"] == "u"


def test_a_large_value_that_did_not_change_is_unavailable_or_taken_from_the_old_row() -> None:
    [record] = changes(Update(relation_oid=7, key=None, before=None, after=("1", Unchanged.TOAST, "t")))
    assert decoded(record)[1]["after"]["note"] == UNAVAILABLE
    full = Update(relation_oid=7, key=None, before=("1", "long", "f"), after=("1", Unchanged.TOAST, "t"))
    [record] = changes(full)
    assert decoded(record)[1]["after"] == {"id": 1, "note": "long", "paid": True}


def test_a_delete_is_followed_by_a_tombstone() -> None:
    deletion, tombstone = changes(Delete(relation_oid=7, key=("1", None, None), before=None))
    assert decoded(deletion)[0] == decoded(tombstone)[0] == {"id": 1}
    assert (decoded(deletion)[1]["op"], decoded(deletion)[1]["before"]) == ("d", {"id": 1})
    assert decoded(deletion)[1]["after"] is None
    assert tombstone.value is None


def test_another_key_is_a_deletion_and_a_creation_that_name_each_other() -> None:
    moved = Update(relation_oid=7, key=("1", None, None), before=None, after=("2", "tea", "t"))
    deletion, tombstone, creation = changes(moved)
    assert [record.key for record in (deletion, tombstone, creation)] == [b'{"id":1}', b'{"id":1}', b'{"id":2}']
    assert [decoded(deletion)[1]["op"], tombstone.value, decoded(creation)[1]["op"]] == ["d", None, "c"]
    assert deletion.headers == ((NEW_KEY_HEADER, b'{"id":2}'),)
    assert creation.headers == ((OLD_KEY_HEADER, b'{"id":1}'),)


def test_a_truncation_has_a_key_that_a_compacted_topic_takes() -> None:
    key, value = decoded(ENVELOPES.truncation(ORDERS, PLACE))
    assert (key, value["op"], value["before"], value["after"]) == ({}, "t", None, None)


def test_a_key_of_many_columns_is_in_the_order_of_the_key() -> None:
    table = Table.of(RELATION, prefix="shop", primary_key=["paid", "id"], derived={})
    assert list(table.key(("1", "tea", "t"))) == ["paid", "id"]


def test_a_topic_has_no_character_that_kafka_refuses() -> None:
    odd = Relation(oid=1, schema="Größe", table="my table", identity=ReplicaIdentity.FULL, columns=RELATION.columns)
    assert Table.of(odd, prefix="shop", primary_key=["id"], derived={}).topic == "shop.Gr__e.my_table"
