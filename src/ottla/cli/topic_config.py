"""`ottla topic config`: what a topic is configured with and why, and changes to it while it serves."""

from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Final, Literal, NamedTuple

import typer
from rich.text import Text

from ottla.cli import configs
from ottla.cli.configs import ConfigSource
from ottla.cli.connection import Connection, connected
from ottla.cli.errors import Failure
from ottla.cli.options import DEFAULT_SERVERS, AsJson, Properties, Servers, Topic, connection_of, examples, key_values
from ottla.cli.output import done, facts, plain, print_json, print_table, say, stdout, table
from ottla.client.admin import Admin

EXAMPLES: Final = examples(
    ("everything, with its source", "ottla topic config orders"),
    ("one key with its documentation", "ottla topic config orders retention.ms"),
    ("keep records for an hour, from now on", "ottla topic config orders --set retention.ms=3600000"),
    ("back to the default", "ottla topic config orders --delete retention.ms"),
    ("compact as well as delete", "ottla topic config orders --append cleanup.policy=compact"),
)

EXPLAINED_WIDTH_MIN: Final = 130
KeyValues = list[str] | None


def config(
    topic: Topic,
    keys: Annotated[
        list[str] | None, typer.Argument(metavar="KEY", help="Only these, explained.", show_default=False)
    ] = None,
    set_: Annotated[KeyValues, typer.Option("--set", metavar="KEY=VALUE", help="Repeat for more.")] = None,
    delete: Annotated[KeyValues, typer.Option("--delete", metavar="KEY", help="Back to the default.")] = None,
    append: Annotated[KeyValues, typer.Option("--append", metavar="KEY=VALUE", help="Add to a list.")] = None,
    subtract: Annotated[KeyValues, typer.Option("--subtract", metavar="KEY=VALUE", help="Take out of a list.")] = None,
    servers: Servers = DEFAULT_SERVERS,
    properties: Properties = None,
    as_json: AsJson = False,
) -> None:
    """Show a topic's configuration, or change it on the live topic."""
    changes = [
        *(Change("set", key, value) for key, value in key_values(set_, "--set").items()),
        *(Change("delete", key, None) for key in delete or ()),
        *(Change("append", key, value) for key, value in key_values(append, "--append").items()),
        *(Change("subtract", key, value) for key, value in key_values(subtract, "--subtract").items()),
    ]
    for key, count in Counter(change.key for change in changes).items():
        if count > 1:
            raise typer.BadParameter(f"{key} is changed in two ways at once", param_hint="KEY=VALUE")
    if changes and keys:
        raise typer.BadParameter("show keys or change keys, one at a time", param_hint="KEY")
    with connected(connection_of(servers, properties)) as connection:
        if changes:
            apply(connection.admin(), topic, changes)
            show_changes(topic, changes, as_json=as_json)
        else:
            show(connection, topic, keys or [], as_json=as_json)


class Change(NamedTuple):
    operation: Literal["set", "delete", "append", "subtract"]
    key: str
    value: str | None


def apply(admin: Admin, topic: str, changes: Sequence[Change]) -> None:
    """All or nothing: one request carries them."""

    def of(*operations: str) -> dict[str, str | None]:
        return {change.key: change.value for change in changes if change.operation in operations}

    admin.alter_configs(topic, of("set", "delete"), append=of("append"), subtract=of("subtract"))


def show_changes(topic: str, changes: Sequence[Change], *, as_json: bool) -> None:
    """What was asked for and granted. Not read back: a broker may show the old value for a moment longer."""
    if as_json:
        print_json({"topic": topic, "changes": [change._asdict() for change in changes]})
        return
    for change in changes:
        value = "" if change.value is None else f"={change.value}"
        done(f"{topic}: {change.operation} {change.key}{value}")


def show(connection: Connection, topic: str, keys: Sequence[str], *, as_json: bool) -> None:
    shown = chosen(configs.of_topic(connection, topic), keys)
    if as_json:
        print_json([entry.document() for entry in shown])
    elif keys:
        explain(shown)
    else:
        show_all(topic, shown)


def chosen(entries: Sequence[configs.ConfigEntry], names: Sequence[str]) -> list[configs.ConfigEntry]:
    by_name = {entry.name: entry for entry in entries}
    unknown = [name for name in names if name not in by_name]
    if unknown:
        raise Failure(f"no such configuration: {', '.join(unknown)} (`ottla topic config TOPIC` shows all)")
    return [by_name[name] for name in names] or list(entries)


def show_all(topic: str, entries: Sequence[configs.ConfigEntry]) -> None:
    """A line each. What a key is for is told in a wide terminal only; a narrow one gets a hint instead."""
    has_room = stdout().width >= EXPLAINED_WIDTH_MIN
    made = table(["name", "value", "source"], clipped="what it is for" if has_room else None)
    for entry in entries:
        value = "(hidden)" if entry.is_sensitive else entry.value or None
        cells = [
            Text(entry.name, style="" if entry.is_default else "bold green"),
            plain(value),
            Text(entry.source_text, style="dim" if entry.source is ConfigSource.DEFAULT_CONFIG else ""),
        ]
        made.add_row(*cells, *([entry.first_sentence] if has_room else []))
    print_table(made)
    if not has_room:
        say(f"`ottla topic config {topic} KEY` says what a key is for")


def explain(entries: Sequence[configs.ConfigEntry]) -> None:
    for entry in entries:
        stdout().print(Text(entry.name, style="bold"))
        print_table(
            facts(
                [
                    ("value", plain(entry.value)),
                    ("source", plain(entry.source_text)),
                    ("", plain(entry.explanation)),
                ]
            )
        )
