"""Poll 500, insert them in bulk, commit: a database filled at the rate of one insert a batch, not one a record.

The rows carry their offsets, and where a batch ends is stored in the same database transaction. So a restart goes
on exactly after the last row, even after a crash between the insert and the commit to the group.

python examples/bulk_insert.py --bootstrap localhost:9092 --topic orders --database orders.db --count 10000
"""

import argparse
import os
import sqlite3

import ottla

SCHEMA = """
CREATE TABLE IF NOT EXISTS orders (partition, offset, value);
CREATE TABLE IF NOT EXISTS positions (partition PRIMARY KEY, next_offset);
"""


def main(arguments: argparse.Namespace) -> None:
    database = sqlite3.connect(arguments.database)
    database.executescript(SCHEMA)
    options = {
        "bootstrap.servers": arguments.bootstrap,
        "group.id": arguments.group,
        "group.instance.id": arguments.instance,  # Comes back to its partitions at once, also after a crash.
        "auto.offset.reset": "earliest",
    }
    done = batches = 0
    with ottla.Consumer(options) as consumer:
        consumer.subscribe(arguments.topic)
        while done < arguments.count:
            records = consumer.poll(timeout_ms=1_000, max_records=500)
            stored = dict(database.execute("SELECT * FROM positions"))
            new = [record for record in records if record.offset >= stored.get(record.partition, 0)]
            ends = [(where.partition, position.offset) for where, position in records.next_offsets().items()]
            with database:
                database.executemany(
                    "INSERT INTO orders VALUES (?, ?, ?)", [(r.partition, r.offset, r.value) for r in new]
                )
                database.executemany("INSERT OR REPLACE INTO positions VALUES (?, ?)", ends)
            if records and arguments.crash_after is not None and done >= arguments.crash_after:
                os._exit(1)
            consumer.commit()
            done += len(records)
            batches += bool(records)
    print(f"inserted {done} records in {batches} batches")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap", default="localhost:9092")
    parser.add_argument("--topic", default="orders")
    parser.add_argument("--group", default="bulk-insert")
    parser.add_argument("--instance", default="1", help="of its own for each that runs in the group")
    parser.add_argument("--database", default="orders.db")
    parser.add_argument("--count", type=int, default=10_000, help="end after so many records")
    parser.add_argument("--crash-after", type=int, help="end like a crash, between insert and commit")
    main(parser.parse_args())
