"""A capture of a real PostgreSQL into a real broker: snapshot, changes, restarts, refusals."""

import threading
from contextlib import closing

import psycopg2
import pytest

import ottla.testing
from ottla.cdc.capture import capture_status, drop_capture
from ottla.cdc.errors import CaptureError
from ottla.cdc.table import UNAVAILABLE
from ottla.cdc.topic_writer import create_topics
from ottla.client import Admin, Producer
from tests.postgres import Database
from tests.unit.cdc.captures import Source, TopicReader, captured_database, capturing, table_of

ALL_TYPES = """
    CREATE TYPE mood AS ENUM ('fine', 'tired');
    CREATE DOMAIN cents AS integer;
    CREATE TABLE everything (
        id bigint PRIMARY KEY, a boolean, b smallint, c real, d double precision, e numeric(20, 4), f text, g char(5),
        h bytea, i date, j time, k timestamp, l timestamp(3), m timestamptz, n interval, o uuid, p jsonb, q integer[],
        r text[][], s mood, t cents, u mood[], v inet, w money, x bit(1), y int4range, z text
    )
"""
ALL_VALUES = """
    INSERT INTO everything VALUES (
        {}, true, -7, 1.5, 0.1, 12345.6700, 'tea ☕', 'ab', '\\xdead', '2026-11-15', '09:30:00.25',
        '2026-11-15 09:30:00.123456', '2026-11-15 09:30:00.123', '2026-11-15 09:30:00+02', '1 year 2 days',
        gen_random_uuid(), '{{"a": [1, null]}}', '{{1,NULL}}', '{{{{a,b}},{{c,"d e"}}}}', 'tired', 250,
        '{{fine}}', '10.0.0.1', 1234.5, B'1', '[1,5)', NULL
    )
"""


def test_rows_are_read_once_and_changes_follow_without_a_gap(source: Source) -> None:
    """While the capture starts, somebody writes: each row is in the snapshot or in the stream, and never in both."""
    source.execute("INSERT INTO orders SELECT n, 'before', 1 FROM generate_series(1, 500) n")
    enough = threading.Event()

    def write() -> None:
        with closing(psycopg2.connect(source.settings.dsn)) as connection, connection.cursor() as cursor:
            row_id = 1000
            while not enough.is_set():
                cursor.execute("INSERT INTO orders VALUES (%s, 'meanwhile', 1)", [row_id])
                connection.commit()
                row_id += 1

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    with capturing(source), TopicReader(source) as reader:
        reader.until(lambda event: event.op == "c")
        enough.set()
        writer.join()
        source.execute("INSERT INTO orders VALUES (999999, 'last', 1)")
        events = reader.until_row(999999)
    captured = [event.key["id"] for event in events]
    assert captured.count(1) == 1
    assert sorted(captured) == [row_id for (row_id,) in source.execute("SELECT id FROM orders ORDER BY id")]
    ops = [event.op for event in events]
    assert ops == sorted(ops, reverse=True)  # all of r, then all of c
    assert set(ops) == {"r", "c"}


def test_a_snapshot_and_a_change_tell_a_value_alike(source: Source) -> None:
    source.execute(ALL_TYPES)
    source = source.with_tables("everything")
    source.execute(ALL_VALUES.format(1))
    with capturing(source), TopicReader(source) as reader:
        reader.until_row(1)
        source.execute(
            "CREATE TEMP TABLE copy AS TABLE everything; UPDATE copy SET id = 2; INSERT INTO everything TABLE copy"
        )
        read, created = reader.until_row(2)
    assert (read.op, created.op) == ("r", "c")
    assert {**read.after, "id": 2} == created.after
    uuid = read.after.pop("o")
    assert len(uuid) == 36
    assert read.after == {
        "id": 1,
        "a": True,
        "b": -7,
        "c": 1.5,
        "d": 0.1,
        "e": "12345.6700",
        "f": "tea ☕",
        "g": "ab   ",
        "h": "3q0=",
        "i": 20772,
        "j": 34_200_250_000,
        "k": 1_794_735_000_123_456,
        "l": 1_794_735_000_123,
        "m": "2026-11-15T07:30:00Z",
        "n": "P1Y2D",
        "p": '{"a": [1, null]}',
        "q": [1, None],
        "r": [["a", "b"], ["c", "d e"]],
        "s": "tired",
        "t": 250,
        "u": ["fine"],
        "v": "10.0.0.1",
        "w": "1234.50",
        "x": True,
        "y": "[1,5)",
        "z": None,
    }


def test_every_kind_of_change_leads_to_the_table_that_is_there(source: Source) -> None:
    with capturing(source), TopicReader(source) as reader:
        source.execute("INSERT INTO orders VALUES (1, 'tea', 1), (2, 'cake', 2), (3, 'soup', 3)")
        source.execute("UPDATE orders SET note = 'green tea' WHERE id = 1")
        source.execute("UPDATE orders SET id = 20 WHERE id = 2")
        source.execute("DELETE FROM orders WHERE id = 3")
        source.execute("INSERT INTO orders VALUES (100, 'last', 0)")
        events = reader.until_row(100)
        assert [event.op for event in events] == ["c", "c", "c", "u", "d", None, "c", "d", None, "c"]
        assert {row["id"]: row["note"] for row in table_of(events).values()} == {
            1: "green tea",
            20: "cake",
            100: "last",
        }
        source.execute("TRUNCATE orders")
        source.execute("INSERT INTO orders VALUES (101, 'after', 0)")
        assert list(table_of(reader.until_row(101))) == [101]


def test_large_values_that_did_not_change_are_told_apart_from_null(source: Source) -> None:
    source.execute("ALTER TABLE orders ALTER COLUMN note SET STORAGE EXTERNAL")
    long = "x" * 10_000
    with capturing(source), TopicReader(source) as reader:
        source.execute("INSERT INTO orders VALUES (1, %s, 1)", long)
        source.execute("UPDATE orders SET amount = 2")
        source.execute("ALTER TABLE orders REPLICA IDENTITY FULL")
        source.execute("UPDATE orders SET amount = 3")
        source.execute("INSERT INTO orders VALUES (2, NULL, 1)")
        _, toasted, full, _ = reader.until_row(2)
    assert toasted.after == {"id": 1, "note": UNAVAILABLE, "amount": "2.00"}
    assert full.after == {"id": 1, "note": long, "amount": "3.00"}
    assert full.value["before"] == {"id": 1, "note": long, "amount": "2.00"}


def test_a_column_that_is_added_while_it_runs_is_in_the_next_change(source: Source) -> None:
    with capturing(source), TopicReader(source) as reader:
        source.execute("INSERT INTO orders VALUES (1, 'tea', 1)")
        source.execute("ALTER TABLE orders ADD COLUMN tags text[]")
        source.execute("INSERT INTO orders VALUES (2, 'cake', 1, '{sweet}')")
        assert reader.until_row(2)[-1].after == {"id": 2, "note": "cake", "amount": "1.00", "tags": ["sweet"]}


def test_a_capture_goes_on_where_it_was_stopped(source: Source) -> None:
    source.execute("INSERT INTO orders VALUES (1, 'tea', 1)")
    for row_id in (2, 4, 6):
        with capturing(source), TopicReader(source) as reader:
            source.execute("INSERT INTO orders VALUES (%s, 'running', 1)", row_id)
            events = reader.until_row(row_id)
        source.execute("INSERT INTO orders VALUES (%s, 'stopped', 1)", row_id + 1)
    assert [event.key["id"] for event in events] == [1, 2, 3, 4, 5, 6]
    assert [event.op for event in events] == ["r", "c", "c", "c", "c", "c"]


def test_a_transaction_that_was_begun_long_ago_is_captured_when_it_commits(source: Source) -> None:
    """Its first message lies before what PostgreSQL was told already."""
    with closing(psycopg2.connect(source.settings.dsn)) as connection, capturing(source), TopicReader(source) as reader:
        source.execute("INSERT INTO orders VALUES (1, 'first', 1)")
        reader.until_row(1)
        with connection.cursor() as cursor:
            cursor.execute("INSERT INTO orders VALUES (2, 'long', 1)")
            for row_id in range(10, 20):
                source.execute("INSERT INTO orders VALUES (%s, 'short', 1)", row_id)
            reader.until_row(19)
            connection.commit()
        source.execute("INSERT INTO orders VALUES (3, 'last', 1)")
        events = reader.until_row(3)
    assert [event.key["id"] for event in events] == [1, *range(10, 20), 2, 3]


def test_a_transaction_of_the_source_is_one_of_the_topic(source: Source) -> None:
    with capturing(source), TopicReader(source) as reader:
        source.execute("INSERT INTO orders SELECT n, 'many', 1 FROM generate_series(1, 3000) n")
        source.execute("INSERT INTO orders VALUES (9999, 'last', 1)")
        events = reader.until_row(9999)
    assert len({event.value["source"]["txId"] for event in events}) == 2
    assert [event.key["id"] for event in events] == [*range(1, 3001), 9999]


def test_a_lost_connection_is_opened_again_and_nothing_is_captured_twice(source: Source) -> None:
    with capturing(source) as running, TopicReader(source) as reader:
        for row_id in range(1, 4):
            source.execute("INSERT INTO orders VALUES (%s, 'tea', 1)", row_id)
            reader.until_row(row_id)
            source.execute(
                "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = %s",
                source.settings.slot,
            )
        source.execute("INSERT INTO orders VALUES (4, 'last', 1)")
        events = reader.until_row(4)
        assert any("trying again" in text for text in running.events)
    assert [event.key["id"] for event in events] == [1, 2, 3, 4]


def test_a_broker_that_was_killed_has_every_change_once_when_it_is_back(database: Database) -> None:
    with (
        ottla.testing.broker() as broker,
        captured_database(database, broker.bootstrap_servers) as source,
        capturing(source),
        TopicReader(source) as reader,
    ):
        source.execute("INSERT INTO orders VALUES (1, 'before', 1)")
        reader.until_row(1)
        broker.kill()
        source.execute("INSERT INTO orders VALUES (2, 'meanwhile', 1)")
        broker.start()
        assert [event.key["id"] for event in reader.until_row(2)] == [1, 2]


def test_a_snapshot_that_was_cut_off_is_begun_again_and_nobody_saw_it(source: Source) -> None:
    source.execute("INSERT INTO orders VALUES (1, 'tea', 1)")
    source.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", source.settings.slot)
    servers, topic = source.settings.bootstrap_servers, source.settings.topics[0]
    create_topics(source.settings)
    with closing(Producer(bootstrap_servers=servers, transactional_id=source.settings.transactional_id)) as cut_off:
        cut_off.begin_transaction()
        cut_off.send(topic, b'{"op":"r"}', b'{"id":5}').get(30)
        with capturing(source) as running, TopicReader(source) as reader:
            source.execute("INSERT INTO orders VALUES (2, 'cake', 1)")
            assert [event.key["id"] for event in reader.until_row(2)] == [1, 2]
            assert any("cut off" in text for text in running.events)


def test_a_second_capture_of_the_name_takes_over(source: Source) -> None:
    """With the first change after it has come, which the first one cannot commit any more."""
    last_id = 1
    with pytest.raises(CaptureError, match="has taken over"), capturing(source) as first, TopicReader(source) as reader:
        with capturing(source, wait_streaming=False) as second:
            while not first.has_ended(within_s=0.1):
                last_id += 1
                source.execute("INSERT INTO orders VALUES (%s, 'tea', 1)", last_id)
            assert [event.key["id"] for event in reader.until_row(last_id)] == list(range(2, last_id + 1))
        assert second.failure is None


def test_dropping_leaves_nothing_in_postgresql_and_the_next_run_begins_anew(source: Source) -> None:
    source.execute("INSERT INTO orders VALUES (1, 'tea', 1)")
    with capturing(source), TopicReader(source) as reader:
        reader.until_row(1)
    status = capture_status(source.settings)
    assert status.slot is not None
    assert status.position is not None
    assert not status.slot.is_active
    drop_capture(source.settings)
    assert source.execute("SELECT 1 FROM pg_replication_slots WHERE database = current_database()") == []
    assert source.execute("SELECT 1 FROM pg_publication") == []
    status = capture_status(source.settings)
    assert (status.position, status.slot) == (None, None)
    source.execute("INSERT INTO orders VALUES (2, 'cake', 1)")
    with capturing(source), TopicReader(source) as reader:
        assert [(event.op, event.key["id"]) for event in reader.until_row(2)] == [("r", 1), ("r", 1), ("r", 2)]


def test_topics_are_made_as_asked_for_and_then_left_alone(source: Source) -> None:
    create_topics(source.settings)
    with Admin(bootstrap_servers=source.settings.bootstrap_servers) as admin:
        for topic in (*source.settings.topics, source.settings.positions_topic):
            assert admin.describe_configs(topic)["cleanup.policy"].value == "compact"
            admin.alter_configs(topic, {"cleanup.policy": "delete"})
        create_topics(source.settings)
        assert admin.describe_configs(source.settings.topics[0])["cleanup.policy"].value == "delete"


def refusal(source: Source) -> str:
    with pytest.raises(CaptureError) as refused, capturing(source) as running:
        assert running.has_ended()
    return str(refused.value)


def test_tables_that_cannot_be_captured_are_refused_before_anything_is_made(source: Source) -> None:
    source.execute("CREATE TABLE bare (a integer); CREATE TABLE silent (id integer PRIMARY KEY)")
    source.execute("ALTER TABLE silent REPLICA IDENTITY NOTHING")
    assert "there is no table public.missing" in refusal(source.with_tables("missing"))
    assert "public.bare has no primary key" in refusal(source.with_tables("orders", "bare"))
    assert "REPLICA IDENTITY DEFAULT" in refusal(source.with_tables("silent"))
    assert source.execute("SELECT 1 FROM pg_publication") == []


def test_a_slot_that_is_gone_is_a_gap_and_not_passed_over(source: Source) -> None:
    with capturing(source), TopicReader(source) as reader:
        source.execute("INSERT INTO orders VALUES (1, 'tea', 1)")
        reader.until_row(1)
    source.execute("SELECT pg_drop_replication_slot(%s)", source.settings.slot)
    assert "is gone, and with it the changes" in refusal(source)


def test_a_table_that_the_publication_lacks_is_told(source: Source) -> None:
    source.execute("CREATE TABLE more (id integer PRIMARY KEY)")
    with capturing(source), TopicReader(source) as reader:
        source.execute("INSERT INTO orders VALUES (1, 'tea', 1)")
        reader.until_row(1)
    assert "lacks public.more" in refusal(source.with_tables("orders", "more"))


def test_a_role_that_may_not_replicate_is_told_what_it_lacks(source: Source) -> None:
    role = f"{source.settings.slot}_reader"
    source.execute(f"CREATE ROLE {role} LOGIN; GRANT SELECT ON orders TO {role}")
    denied = source.as_role(role)
    assert "ALTER ROLE … REPLICATION" in refusal(denied)
    source.execute(f"ALTER ROLE {role} REPLICATION")
    assert "creating the publication" in refusal(denied)
