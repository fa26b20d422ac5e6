"""`ottla produce`: records from standard input or files into a topic, and at the end what became of them."""

import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

from ottla.cli.connection import connected
from ottla.cli.limits import INT32_MAX, INT64_MAX
from ottla.cli.line_source import LineSource
from ottla.cli.options import (
    DEFAULT_SERVERS,
    Properties,
    Servers,
    Topic,
    connection_of,
    examples,
    key_value_pairs,
    unescaped,
)
from ottla.cli.output import file_progress
from ottla.cli.pace import Pace, parse_rate
from ottla.cli.record_input import LineParser, key_value_parser, parse_json_line, parse_value_line
from ottla.cli.sending import Extras, Sending, producer_options, require_topic, show_outcome

EXAMPLES: Final = examples(
    ("a record a line", "printf 'one\\ntwo\\n' | ottla produce orders"),
    ("keys before a tab, compressed", "ottla produce orders orders.tsv --key-separator '\\t' --compression zstd"),
    (
        "everything a record can carry",
        """echo '{"key":"a","value":{"n":1},"headers":{"h":"x"}}' | ottla produce orders --json""",
    ),
    ("copy a topic with as many partitions", "ottla consume orders --json | ottla produce copy --json"),
    ("a steady trickle", "yes | ottla produce orders --rate 100/s --count 1000"),
)


class Compression(StrEnum):
    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


class Acks(StrEnum):
    NONE = "0"
    LEADER = "1"
    ALL = "all"


def checked_rate(text: str | None) -> str | None:
    try:
        parse_rate(text or "1")
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    return text


def line_parser(*, key_separator: str | None, as_json: bool) -> LineParser:
    if as_json and key_separator is not None:
        raise typer.BadParameter("a JSON object names its key: leave out --key-separator", param_hint="--json")
    if as_json:
        return parse_json_line
    return parse_value_line if key_separator is None else key_value_parser(unescaped(key_separator))


def produce(
    topic: Topic,
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FILE", exists=True, dir_okay=False, help="Standard input if none.", show_default=False),
    ] = None,
    key_separator: Annotated[
        str | None, typer.Option("--key-separator", "-k", metavar="TEXT", help="Key, separator, value on each line.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="A line is {key, value, headers, partition, timestamp}; the summary is JSON.")
    ] = False,
    header: Annotated[
        list[str] | None,
        typer.Option("--header", "-H", metavar="KEY=VALUE", help="On every record. Repeat for more, also of one name."),
    ] = None,
    partition: Annotated[
        int | None,
        typer.Option("--partition", "-p", min=0, max=INT32_MAX, help="Instead of choosing by key.", show_default=False),
    ] = None,
    count: Annotated[
        int | None, typer.Option("--count", "-n", min=1, max=INT64_MAX, help="Stop after so many records.")
    ] = None,
    rate: Annotated[
        str | None, typer.Option("--rate", callback=checked_rate, metavar="N/s", help="Hold this rate.")
    ] = None,
    compression: Annotated[Compression, typer.Option("--compression", "-z", help="Of each batch.")] = Compression.NONE,
    acks: Annotated[Acks, typer.Option("--acks", help="Who must have a record before it counts.")] = Acks.ALL,
    servers: Servers = DEFAULT_SERVERS,
    properties: Properties = None,
) -> None:
    """Send records to a topic: one a line, from files or standard input."""
    extras = Extras(headers=tuple(key_value_pairs(header, "--header")), partition=partition)
    source = LineSource(files or [], line_parser(key_separator=key_separator, as_json=as_json))
    options = producer_options(compression=compression, acks=acks)
    with connected(connection_of(servers, properties)) as connection:
        producer = connection.producer(options)
        require_topic(producer, topic)
        sending = Sending(producer, topic, extras=extras, pace=Pace(parse_rate(rate)) if rate else None)
        started = time.perf_counter()
        try:
            with file_progress(source.size_bytes) as advance:
                sending.send_all(source.records(on_bytes=advance), count_max=count)
        finally:
            # Also after Ctrl-C or a broken line: what was read before it is sent and told.
            sending.wait_delivered()
            show_outcome(sending, seconds=time.perf_counter() - started, as_json=as_json)
