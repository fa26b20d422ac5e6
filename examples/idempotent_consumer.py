"""An idempotent consumer: at least once, and a repetition changes nothing.

Every record is stored under where it came from: topic, partition, offset. A record that comes again after a crash
finds its own row. Works with any store that has an upsert; here SQLite.

python examples/idempotent_consumer.py --bootstrap localhost:9092 --topic orders --database orders.db --count 10
"""

import argparse
import os
import sqlite3

import ottla

TABLE = "CREATE TABLE IF NOT EXISTS seen (topic, partition, offset, value, PRIMARY KEY (topic, partition, offset))"
UPSERT = "INSERT INTO seen VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"


def main(arguments: argparse.Namespace) -> None:
    options = {
        "bootstrap.servers": arguments.bootstrap,
        "group.id": arguments.group,
        "group.instance.id": arguments.instance,  # Comes back to its partitions at once, also after a crash.
        "auto.offset.reset": "earliest",
        "max.poll.records": arguments.batch,
    }
    database = sqlite3.connect(arguments.database)
    database.execute(TABLE)
    done = repeated = 0
    with ottla.Consumer(options) as consumer:
        consumer.subscribe(arguments.topic)
        while done < arguments.count:
            records = consumer.poll(timeout_ms=1_000)
            rows = [(record.topic, record.partition, record.offset, record.value.decode()) for record in records]
            with database:  # One transaction of the database: committed at the end of the block.
                repeated += len(rows) - max(0, database.executemany(UPSERT, rows).rowcount)
            if records and arguments.crash_after is not None and done >= arguments.crash_after:
                os._exit(1)
            consumer.commit()
            done += len(records)
    print(f"processed {done} records, {repeated} of them not for the first time")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap", default="localhost:9092")
    parser.add_argument("--topic", default="orders")
    parser.add_argument("--group", default="idempotent")
    parser.add_argument("--instance", default="1", help="of its own for each that runs in the group")
    parser.add_argument("--database", default="orders.db")
    parser.add_argument("--count", type=int, default=10, help="end after so many records")
    parser.add_argument("--batch", type=int, default=500, help="records a poll")
    parser.add_argument("--crash-after", type=int, help="end like a crash, between storing and commit")
    main(parser.parse_args())
