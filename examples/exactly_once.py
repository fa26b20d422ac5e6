"""Exactly once: consume, transform, produce in one transaction. A crash anywhere neither loses nor repeats.

What is produced and what is consumed are committed together or not at all. Whoever reads the result does so with
isolation.level=read_committed. Each instance has a transactional.id of its own, and keeps it over restarts.

python examples/exactly_once.py --bootstrap localhost:9092 --topic orders --to invoices --count 10
"""

import argparse
import os

import ottla


def main(arguments: argparse.Namespace) -> None:
    reading = {
        "bootstrap.servers": arguments.bootstrap,
        "group.id": arguments.group,
        "group.instance.id": arguments.instance,  # Comes back to its partitions at once, also after a crash.
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",
        "max.poll.records": arguments.batch,
    }
    writing = {"bootstrap.servers": arguments.bootstrap, "transactional.id": arguments.transactional_id}
    done = 0
    with ottla.Consumer(reading) as consumer, ottla.Producer(writing) as producer:
        producer.init_transactions()  # Ends what an instance before us left open.
        consumer.subscribe(arguments.topic)
        while done < arguments.count:
            records = consumer.poll(timeout_ms=1_000)
            if not records:
                continue
            with producer.transaction():  # Commits at the end of the block, aborts when it raises.
                for record in records:
                    producer.send(arguments.to, record.value.upper(), record.key)
                producer.send_offsets_to_transaction(records.next_offsets())
                if arguments.crash_after is not None and done >= arguments.crash_after:
                    producer.flush()
                    os._exit(1)
            done += len(records)
    print(f"processed {done} records")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap", default="localhost:9092")
    parser.add_argument("--topic", default="orders")
    parser.add_argument("--to", default="invoices")
    parser.add_argument("--group", default="exactly-once")
    parser.add_argument("--instance", default="1", help="of its own for each that runs in the group")
    parser.add_argument("--transactional-id", default="exactly-once-1")
    parser.add_argument("--count", type=int, default=10, help="end after so many records")
    parser.add_argument("--batch", type=int, default=500, help="records a poll")
    parser.add_argument("--crash-after", type=int, help="end like a crash, before the transaction is committed")
    main(parser.parse_args())
