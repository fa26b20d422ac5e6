"""The capture as a process: killed at any moment, stopped at a commit, asked from the command line."""

import json
import threading
from contextlib import closing
from pathlib import Path

import psycopg2

from tests.unit.cdc.captures import CaptureProcess, Source, TopicReader
from tests.unit.cli.conftest import Run

KILLS = 3
KEYS = 7


def test_every_change_is_captured_once_and_in_order_however_often_the_process_is_killed(
    source: Source, tmp_path: Path
) -> None:
    enough = threading.Event()
    written = 0

    def write() -> None:
        """Versions 1, 2, … of seven rows, some transactions with many changes."""
        nonlocal written
        with closing(psycopg2.connect(source.settings.dsn)) as connection, connection.cursor() as cursor:
            while not enough.is_set():
                for _ in range(1 + written % 5):
                    written += 1
                    cursor.execute(
                        "INSERT INTO orders VALUES (%s, '', %s) ON CONFLICT (id) DO UPDATE SET amount = excluded.amount",
                        [written % KEYS, written],
                    )
                connection.commit()
                enough.wait(0.002)  # Enough of a load to be killed in the middle of.

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    with CaptureProcess(source, tmp_path) as process, TopicReader(source) as reader:
        for _ in range(KILLS):
            process.start()
            seen = written
            reader.until(lambda event, seen=seen: event.after is not None and float(event.after["amount"]) > seen)
            process.kill()
        enough.set()
        writer.join()
        process.start()
        source.execute("INSERT INTO orders VALUES (1000, 'last', 0)")
        events = reader.until_row(1000)
        code, told = process.stop()
    assert code == 0
    assert "keep its log for the next run" in told
    versions = [int(float(event.after["amount"])) for event in events[:-1] if event.op != "r"]
    assert versions == list(range(versions[0], written + 1))
    snapshot = {event.key["id"]: float(event.after["amount"]) for event in events if event.op == "r"}
    assert max(snapshot.values(), default=0) == versions[0] - 1
    table = {row_id: float(amount) for row_id, amount in source.execute("SELECT id, amount FROM orders")}
    assert {event.key["id"]: float(event.after["amount"]) for event in events} == table


def test_status_and_drop_from_the_command_line(source: Source, tmp_path: Path, run: Run) -> None:
    with CaptureProcess(source, tmp_path) as process, TopicReader(source) as reader:
        file = str(process.file)
        process.start()
        source.execute("INSERT INTO orders VALUES (1, 'tea', 1)")
        reader.until_row(1)
        running = json.loads(run("cdc", "status", file, "--json").stdout)
        assert (running["exists"], running["active"]) == (True, True)
        refused = run("cdc", "drop", file)
        assert refused.exit_code == 1
        assert "is active" in refused.stderr
        process.stop()
    assert "not running" in run("cdc", "status", file).stdout
    assert run("cdc", "drop", file).exit_code == 0
    assert "missing" in run("cdc", "status", file).stdout


def test_what_is_typed_wrong_is_one_line(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "shop.yaml"
    file.write_text("name: shop")
    both = run("cdc", "run", str(file), "--name", "shop")
    assert both.exit_code == 2
    assert "FILE, or options" in both.stderr
    incomplete = run("cdc", "run", str(file))
    assert incomplete.exit_code == 1
    assert "postgres.dsn is missing" in incomplete.stderr
