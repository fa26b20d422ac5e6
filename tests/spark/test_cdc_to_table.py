"""Scene 64: changes of a PostgreSQL table, through a compacted topic, into another table. In the end the two are equal,
whatever was changed, deleted, stopped or killed on the way."""

from pathlib import Path
from typing import Any

from ottla.cdc.capture import capture_status
from ottla.cdc.lsn import parse_lsn
from ottla.spark.pipelines.status_files import State
from tests.postgres import Database
from tests.spark.brokers import AnyBroker
from tests.spark.pipeline_runs import pipelines, ran
from tests.spark.waiting import until
from tests.unit.cdc.captures import CaptureProcess, Source, captured_database

TO_TABLE = """
name: {name}
source:
  topic: {topic}
  valueFormat: json
  valueSchema: "op string, before struct<id: bigint>, after struct<id: bigint, note: string, amount: string>"
transform:
  - SELECT coalesce(value.after.id, value.before.id) AS id, value.after.note,
      cast(value.after.amount AS decimal(12, 2)) AS amount, value.op, offset AS change
      FROM input WHERE value IS NOT NULL
sink: {{type: jdbc, url: "{url}", table: copied, keys: [id], orderBy: change, deletes: true}}
"""
ROWS = "SELECT id, note, amount FROM {} ORDER BY id"


def wait_captured(source: Source) -> None:
    """Until everything that was committed before is in the topic."""
    [(before,)] = source.execute("SELECT pg_current_wal_insert_lsn()::text")
    source.execute("INSERT INTO orders VALUES (0, 'last', 0) ON CONFLICT (id) DO UPDATE SET amount = orders.amount + 1")
    until(lambda: (capture_status(source.settings).position or 0) > parse_lsn(before))


def test_a_table_made_from_a_compacted_topic_is_the_source_after_restarts_and_deletes(
    spark: Any, broker: AnyBroker, database: Database, tmp_path: Path
) -> None:
    with (
        captured_database(database, broker.bootstrap_servers, partitions=2) as source,
        CaptureProcess(source, tmp_path) as capture,
    ):
        source.execute("CREATE TABLE copied (LIKE orders INCLUDING ALL, change bigint)")
        text = TO_TABLE.format(name=source.settings.name, topic=source.settings.topics[0], url=database.url)

        def apply() -> None:
            [ended] = ran(spark, tmp_path, pipelines(tmp_path, broker, text))
            assert ended.state is State.FINISHED
            assert source.execute(ROWS.format("copied")) == source.execute(ROWS.format("orders"))

        source.execute("INSERT INTO orders SELECT n, 'note ' || n, n FROM generate_series(1, 20) n")
        capture.start()
        wait_captured(source)
        apply()

        source.execute("UPDATE orders SET note = 'changed' WHERE id % 3 = 0")
        source.execute("DELETE FROM orders WHERE id % 4 = 0 AND id > 0")
        capture.kill()
        source.execute("UPDATE orders SET id = id + 100 WHERE id BETWEEN 5 AND 7")
        source.execute("DELETE FROM orders WHERE id = 1")
        source.execute("INSERT INTO orders VALUES (4, 'again', 4.44)")
        capture.start()
        wait_captured(source)
        capture.stop()
        apply()
