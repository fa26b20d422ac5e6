"""`ottla bench`: how fast a cluster takes and gives records, through librdkafka at full speed.

The figures are those of client and broker together, on whatever machines they run. A topic that this command made is
deleted again; one that was there is only added to.
"""

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Annotated, Any, Final

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from ottla.base.types import TopicPartition
from ottla.cli.connection import Connection, connected
from ottla.cli.errors import Failure
from ottla.cli.options import DEFAULT_SERVERS, AsJson, Properties, Servers, complete_topic, connection_of, examples
from ottla.cli.output import number, plain, print_json, print_table, rate_text, stderr, table
from ottla.cli.produce import Acks, Compression
from ottla.cli.topic_state import offsets_at
from ottla.client.admin import Admin
from ottla.client.librdkafka import ClientConfig
from ottla.client.librdkafka import ClientError as LibraryError
from ottla.client.load import LoadError, LoadResult, consume_load, produce_load
from ottla.client.topics import OffsetSpec

EXAMPLES: Final = examples(
    ("a million records of 1 KB, written and read back", "ottla bench"),
    ("small ones, compressed, into a topic of your own", "ottla bench --topic load --size 100 --compression lz4"),
    ("a Kafka cluster instead", "ottla bench -b kafka:9092 --acks all"),
)
PARTITION: Final = 0


class Direction(StrEnum):
    PRODUCE = "produce"
    CONSUME = "consume"


def bench(
    topic: Annotated[
        str | None,
        typer.Option(
            "--topic",
            "-t",
            autocompletion=complete_topic,
            help="An existing one. Default: one of its own, deleted after.",
        ),
    ] = None,
    only: Annotated[
        Direction | None, typer.Option("--only", help="One direction; to consume, name a --topic that has records.")
    ] = None,
    count: Annotated[int, typer.Option("--count", "-n", min=1, help="Records.")] = 1_000_000,
    size_bytes: Annotated[int, typer.Option("--size", "-s", min=1, help="Bytes of each record's value.")] = 1024,
    acks: Annotated[Acks, typer.Option("--acks", help="Who must have a record before it counts.")] = Acks.LEADER,
    compression: Annotated[Compression, typer.Option("--compression", "-z", help="Of each batch.")] = Compression.NONE,
    servers: Servers = DEFAULT_SERVERS,
    properties: Properties = None,
    as_json: AsJson = False,
) -> None:
    """Write and read records as fast as the client can, over one partition, and print the rates."""
    if only is Direction.CONSUME and topic is None:
        raise typer.BadParameter("name a --topic that has records", param_hint="--only")
    connection = connection_of(servers, properties)
    results: dict[str, LoadResult] = {}
    with connected(connection), load_errors(), bench_topic(connection.admin(), topic) as name:
        end = offset_of(connection.admin(), name, OffsetSpec.LATEST)
        if only is not Direction.CONSUME:
            results["produce"] = measure_produce(connection, name, count, size_bytes, acks, compression)
        if only is Direction.CONSUME:
            start = offset_of(connection.admin(), name, OffsetSpec.EARLIEST)
            results["consume"] = measure_consume(connection, name, start, min(count, end - start))
        elif only is None:
            results["consume"] = measure_consume(connection, name, end, count)
    if as_json:
        print_json([result_document(direction, result) for direction, result in results.items()])
    else:
        print_table(results_table(results))


@contextmanager
def bench_topic(admin: Admin, given: str | None) -> Iterator[str]:
    if given is not None:
        admin.describe_topic(given)
        yield given
        return
    name = f"ottla-bench-{uuid.uuid4().hex[:8]}"
    admin.create_topic(name, num_partitions=1)
    try:
        yield name
    finally:
        admin.delete_topic(name)


@contextmanager
def load_errors() -> Iterator[None]:
    try:
        yield
    except (LoadError, LibraryError) as error:
        raise Failure(f"no figure: {error}") from error


def offset_of(admin: Admin, topic: str, spec: OffsetSpec) -> int:
    [offset] = offsets_at(admin, [TopicPartition(topic, PARTITION)], spec).values()
    return offset


def measure_produce(
    connection: Connection, topic: str, count: int, size_bytes: int, acks: Acks, compression: Compression
) -> LoadResult:
    options: ClientConfig = {
        "acks": acks.value,
        "compression.type": compression.value,
        "log_level": 0,
        **connection.properties,
    }
    with load_progress("produce", count) as on_progress:
        return produce_load(
            connection.servers, topic, message_bytes=size_bytes, count=count, config=options, on_progress=on_progress
        )


def measure_consume(connection: Connection, topic: str, offset: int, count: int) -> LoadResult:
    if count <= 0:
        raise Failure(f"{topic} has no records in partition {PARTITION}: `ottla bench --topic {topic} --only produce`")
    options: ClientConfig = {"log_level": 0, **connection.properties}
    with load_progress("consume", count) as on_progress:
        return consume_load(
            connection.servers, topic, count=count, offset=offset, config=options, on_progress=on_progress
        )


@contextmanager
def load_progress(what: str, total: int) -> Iterator[Callable[[int], None]]:
    console = stderr()
    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(what, total=total)
        yield lambda completed: bar.update(task, completed=completed)


def result_document(direction: str, result: LoadResult) -> dict[str, Any]:
    return {
        "direction": direction,
        "records": result.messages,
        "bytes": result.bytes,
        "seconds": round(result.seconds, 6),
        "records_per_second": round(result.messages_per_second),
        "megabytes_per_second": round(result.megabytes_per_second, 3),
    }


def results_table(results: dict[str, LoadResult]) -> Any:
    rows = [
        (
            plain(direction),
            number(result.messages),
            number(result.bytes // result.messages),
            plain(f"{result.seconds:.2f}"),
            plain(rate_text(result.messages, result.seconds)),
            plain(f"{result.megabytes_per_second:,.1f}"),
        )
        for direction, result in results.items()
    ]
    return table(["", ">records", ">bytes each", ">seconds", ">records/s", ">MB/s"], rows)
