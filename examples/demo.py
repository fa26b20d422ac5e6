"""`make demo`: a broker and a real client at full speed, then a stream of orders through Spark; tables prove both."""

import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

import demo_orders
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

import ottla
from ottla.client.load import LoadResult, consume_load, produce_load
from ottla.testing import broker

MESSAGES = int(os.environ.get("OTTLA_DEMO_MESSAGES", "2000000"))
MESSAGE_BYTES = 1000
TOPIC = "demo"


def main() -> int:
    console = Console()
    console.print(f"[bold]Ottla {ottla.__version__}[/]: a Kafka-compatible broker in Python\n")
    started = time.perf_counter()
    with broker() as running:
        console.print(
            f"A broker answers on [bold]{running.bootstrap_servers}[/] after {time.perf_counter() - started:.2f} s."
        )
        admin = AdminClient({"bootstrap.servers": running.bootstrap_servers, "log_level": 2})
        admin.create_topics([NewTopic(TOPIC, num_partitions=1)])[TOPIC].result()
        console.print(f"Topic [bold]{TOPIC}[/] is there. Now librdkafka, unmodified, writes and reads it:\n")
        produced, consumed = move_messages(running.bootstrap_servers)
        console.print(result_table(produced, consumed))
        stored = sum(path.stat().st_size for path in running.data_dir.rglob("*.log"))
        console.print(f"On disk: {stored / 1e6:,.0f} MB in Kafka's own format. ", end="")
        console.print(f"The broker holds {resident_megabytes(running.pid):,.0f} MB of memory.")
        complete = produced.messages == consumed.messages == MESSAGES
        console.print(
            "[bold green]Every message written was read.[/]" if complete else "[bold red]Messages are missing.[/]"
        )
        equal = stream_orders(console, running.bootstrap_servers)
    console.print("\nYour turn: [bold]ottla up[/], then point any Kafka client at localhost:9092.")
    console.print("Or a pipeline of your own: [bold]ottla pipeline run my.yaml[/] (docs/PIPELINES.md).")
    return 0 if complete and equal else 1


def stream_orders(console: Console, bootstrap_servers: str) -> bool:
    """False when what came out is not what went in."""
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        console.print(
            "\nThe second half, a stream of orders through Spark, needs Java 17, which is not here: left out."
        )
        return True
    with tempfile.TemporaryDirectory(prefix="ottla-demo-") as directory:
        equal = demo_orders.show(console, bootstrap_servers, Path(directory))
    console.print("[bold green]Every order came out once.[/]" if equal else "[bold red]Not every order came out.[/]")
    return equal


def move_messages(bootstrap_servers: str) -> tuple[LoadResult, LoadResult]:
    columns = (
        TextColumn("{task.description:>8}"),
        BarColumn(40),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeElapsedColumn(),
    )
    with Progress(*columns) as progress:
        writing = progress.add_task("produce", total=MESSAGES)
        reading = progress.add_task("consume", total=MESSAGES, start=False)
        produced = produce_load(
            bootstrap_servers, TOPIC, message_bytes=MESSAGE_BYTES, count=MESSAGES,
            on_progress=lambda count: progress.update(writing, completed=count),
        )  # fmt: skip
        progress.start_task(reading)
        consumed = consume_load(
            bootstrap_servers,
            TOPIC,
            count=MESSAGES,
            on_progress=lambda count: progress.update(reading, completed=count),
        )
    return produced, consumed


def result_table(produced: LoadResult, consumed: LoadResult) -> Table:
    table = Table(title="What happened", title_justify="left")
    for name, justify in (
        ("", "left"),
        ("messages", "right"),
        ("seconds", "right"),
        ("messages/s", "right"),
        ("MB/s", "right"),
    ):
        table.add_column(name, justify=justify)  # type: ignore[arg-type]
    for name, result in (("produced", produced), ("consumed", consumed)):
        table.add_row(
            name,
            f"{result.messages:,}",
            f"{result.seconds:.2f}",
            f"{result.messages / result.seconds:,.0f}",
            f"{result.bytes / result.seconds / 1e6:,.0f}",
        )
    return table


def resident_megabytes(pid: int) -> float:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError:
        return float("nan")
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


if __name__ == "__main__":
    sys.exit(main())
