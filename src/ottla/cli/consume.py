"""`ottla consume`: records of a topic, from anywhere in it, in any form.

By itself it assigns partitions and commits nothing; with --group it is a member and commits what it has shown.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import islice
from typing import Annotated, Final

import typer

from ottla.cli.connection import Connection, connected
from ottla.cli.group_reading import GroupReading, consumed
from ottla.cli.limits import INT32_MAX, INT64_MAX
from ottla.cli.options import DEFAULT_SERVERS, Properties, Servers, Topic, complete_group, connection_of, examples
from ottla.cli.output import counted, say, stdout
from ottla.cli.reading import OffsetRange, last_records, plan_ranges, read, tail_ranges
from ottla.cli.record_format import ConsumedRecord, formatter_of, line_for_people
from ottla.cli.start_position import FORMS, Beginning, End, StartPosition, parse_start

EXAMPLES: Final = examples(
    ("everything there is", "ottla consume orders"),
    ("the last ten, then whatever comes", "ottla consume orders --tail 10 --follow"),
    ("each record once for a group of readers", "ottla consume orders --group printers --follow"),
    (
        "since a moment, a while ago, or an offset",
        "ottla consume orders --from 2026-11-15T09:30",
        "ottla consume orders --from '5m ago'",
        "ottla consume orders --partition 0 --from 42 --count 1 --format hex",
    ),
    (
        "your own line, of %k key, %v value, %h headers, %o offset, %p partition, %n topic,\n"
        "# %t timestamp, %T time, %s value's size in bytes and %% percent",
        "ottla consume orders --format '%T %p:%o %k=%v'",
    ),
)


def output_of(format_name: str | None, *, as_json: bool, follow: bool) -> Callable[[ConsumedRecord], None]:
    """Where records go: a line for people on a terminal, plain values into a pipe, unless a format is asked for."""
    if as_json and format_name not in (None, "json"):
        raise typer.BadParameter("--json is --format json", param_hint="--format")
    if format_name is None and not as_json and sys.stdout.isatty():
        console = stdout()
        return lambda record: console.print(line_for_people(record), soft_wrap=True)
    try:
        formatter = formatter_of("json" if as_json else format_name or "text")
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--format") from error
    return lambda record: write(formatter(record), flush=follow)


def write(data: bytes, *, flush: bool) -> None:
    sys.stdout.buffer.write(data)
    if flush:
        sys.stdout.buffer.flush()


def start_of(text: str | None, *, follow: bool) -> StartPosition:
    if text is None:
        return End() if follow else Beginning()
    try:
        return parse_start(text, now=datetime.now().astimezone())
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--from") from error


def consume(
    topic: Topic,
    start: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="WHERE", help=f"Where to start: {FORMS}. Default: beginning, with --follow end."
        ),
    ] = None,
    tail: Annotated[int | None, typer.Option("--tail", "-t", min=1, help="The last N records of the topic.")] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with new records until Ctrl-C.")] = False,
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", min=0, max=INT32_MAX, help="Only this one.")
    ] = None,
    count: Annotated[
        int | None, typer.Option("--count", "-n", min=1, max=INT64_MAX, help="Stop after so many records.")
    ] = None,
    format_name: Annotated[
        str | None,
        typer.Option(
            "--format",
            "-o",
            metavar="text|json|hex|TEMPLATE",
            help="Values alone, JSON, a hex dump, or fields as below. Default: readable lines; text in a pipe.",
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="A JSON object a line, as `ottla produce --json` reads.")
    ] = False,
    group: Annotated[
        str | None,
        typer.Option(
            "--group",
            "-g",
            autocompletion=complete_group,
            help="Read as a member, commit what is shown. --from beginning or end counts where nothing is committed.",
        ),
    ] = None,
    servers: Servers = DEFAULT_SERVERS,
    properties: Properties = None,
) -> None:
    """Read records of a topic, up to its end or onwards."""
    output = output_of(format_name, as_json=as_json, follow=follow)
    where = start_of(start, follow=follow and tail is None)
    if group is not None and (tail is not None or partition is not None or not isinstance(where, Beginning | End)):
        raise typer.BadParameter(
            "a group decides itself where and what to read: leave out the others", param_hint="--group"
        )
    with connected(connection_of(servers, properties)) as connection:
        if group is not None:
            shown = show_group(connection, topic, group, where, output, count=count, follow=follow)
        else:
            ranges = plan_ranges(connection.admin(), topic, partition=partition, start=where)
            records = (
                read_tail(connection, topic, ranges, tail, follow)
                if tail
                else read(connection, topic, ranges, follow=follow)
            )
            shown = 0
            for record in islice(records, count):
                output(record)
                shown += 1
    sys.stdout.flush()
    if sys.stderr.isatty():
        say(
            counted(shown, "record") if shown else f"no records there; `ottla topic describe {topic}` shows the offsets"
        )


def show_group(
    connection: Connection,
    topic: str,
    group: str,
    start: StartPosition,
    output: Callable[[ConsumedRecord], None],
    *,
    count: int | None,
    follow: bool,
) -> int:
    connection.admin().describe_topic(topic)  # Or a typing mistake would wait for ever.
    reset = "latest" if isinstance(start, End) else "earliest"
    shown = 0
    with GroupReading(connection, topic, group, reset=reset, follow=follow) as reading:
        for record in islice(reading.records(), count):
            output(consumed(record))
            reading.shown(record)
            shown += 1
    return shown


def read_tail(
    connection: Connection, topic: str, ranges: Sequence[OffsetRange], tail: int, follow: bool
) -> Iterator[ConsumedRecord]:
    yield from last_records(read(connection, topic, tail_ranges(ranges, tail), follow=False), tail)
    if follow:
        yield from read(connection, topic, [replace(each, start=each.end) for each in ranges], follow=True)
