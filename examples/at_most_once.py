"""At most once: commit first, process then. A crash in between loses records, and never repeats one.

For what is worth less than its repetition, such as a live counter.

python examples/at_most_once.py --bootstrap localhost:9092 --topic orders --output seen.txt --count 10
"""

import argparse
import os
from pathlib import Path

import ottla


def main(arguments: argparse.Namespace) -> None:
    options = {
        "bootstrap.servers": arguments.bootstrap,
        "group.id": arguments.group,
        "group.instance.id": arguments.instance,  # Comes back to its partitions at once, also after a crash.
        "auto.offset.reset": "earliest",
        "max.poll.records": arguments.batch,
    }
    done = 0
    with ottla.Consumer(options) as consumer, Path(arguments.output).open("a") as output:
        consumer.subscribe(arguments.topic)
        while done < arguments.count:
            records = consumer.poll(timeout_ms=1_000)
            if not records:
                continue
            consumer.commit()  # From here on the group will not read these again, whatever happens to us.
            if arguments.crash_after is not None and done >= arguments.crash_after:
                os._exit(1)
            for record in records:
                print(record.value.decode(), file=output, flush=True)
            done += len(records)
    print(f"processed {done} records")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bootstrap", default="localhost:9092")
    parser.add_argument("--topic", default="orders")
    parser.add_argument("--group", default="at-most-once")
    parser.add_argument("--instance", default="1", help="of its own for each that runs in the group")
    parser.add_argument("--output", default="seen.txt")
    parser.add_argument("--count", type=int, default=10, help="end after so many records")
    parser.add_argument("--batch", type=int, default=500, help="records a poll")
    parser.add_argument("--crash-after", type=int, help="end like a crash, between commit and processing")
    main(parser.parse_args())
