"""Options that every command shares, and how a help text ends with examples."""

import re
from typing import Annotated, Final, TypeAlias

import typer
from rich.markup import escape

from ottla.cli.connection import Connection, connected
from ottla.cli.errors import Failure
from ottla.client.raw.address import parse_address

DEFAULT_SERVERS: Final = "localhost:9092"


def checked_servers(servers: str) -> str:
    try:
        for server in servers.split(","):
            parse_address(server)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    return servers


Servers: TypeAlias = Annotated[
    str,
    typer.Option(
        "--bootstrap-server",
        "-b",
        envvar="OTTLA_BOOTSTRAP_SERVERS",
        metavar="HOST:PORT,…",
        callback=checked_servers,
        help="One or more brokers to find the cluster by.",
        rich_help_panel="Connection",
    ),
]

Properties: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--property",
        "-X",
        metavar="KEY=VALUE",
        help="A client setting by Kafka's or librdkafka's name. Repeat for more.",
        rich_help_panel="Connection",
    ),
]


def complete_topic(ctx: typer.Context, incomplete: str) -> list[str]:
    """Topics of the cluster for a shell's Tab key; none where there is no broker, as a prompt must stay quiet."""
    servers = ctx.params.get("servers") or DEFAULT_SERVERS
    try:
        with connected(Connection(servers=servers)) as connection:
            names = connection.admin().list_topics()
    except (Failure, ValueError):
        return []
    return [name for name in names if name.startswith(incomplete)]


Topic: TypeAlias = Annotated[str, typer.Argument(metavar="TOPIC", autocompletion=complete_topic, show_default=False)]
Topics: TypeAlias = Annotated[
    list[str], typer.Argument(metavar="TOPIC", autocompletion=complete_topic, show_default=False)
]


def complete_group(ctx: typer.Context, incomplete: str) -> list[str]:
    servers = ctx.params.get("servers") or DEFAULT_SERVERS
    try:
        with connected(Connection(servers=servers)) as connection:
            names = [listing.group for listing in connection.admin().list_groups()]
    except (Failure, ValueError):
        return []
    return [name for name in names if name.startswith(incomplete)]


Group: TypeAlias = Annotated[str, typer.Argument(metavar="GROUP", autocompletion=complete_group, show_default=False)]
Groups: TypeAlias = Annotated[
    list[str], typer.Argument(metavar="GROUP", autocompletion=complete_group, show_default=False)
]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON for scripts instead of a table.")]


def connection_of(servers: str, properties: list[str] | None) -> Connection:
    return Connection(servers=servers, properties=key_values(properties, "--property"))


def key_values(pairs: list[str] | None, option: str) -> dict[str, str]:
    """`["a=1", "b="]` as {"a": "1", "b": ""}. No key, no equals sign, or a key twice is a usage error."""
    parsed: dict[str, str] = {}
    for key, value in key_value_pairs(pairs, option):
        if key in parsed:
            raise typer.BadParameter(f"{key} is given twice; a list is {key}=a,b", param_hint=option)
        parsed[key] = value
    return parsed


def key_value_pairs(pairs: list[str] | None, option: str) -> list[tuple[str, str]]:
    """The same where a key may repeat, as a record's headers may."""
    parsed = []
    for pair in pairs or ():
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise typer.BadParameter(f"{pair!r} is not KEY=VALUE", param_hint=option)
        parsed.append((key.strip(), value))
    return parsed


def unescaped(text: str) -> str:
    """`\\t`, `\\n`, `\\r`, `\\0` and `\\\\` as a shell's single quotes leave them."""
    named = {"t": "\t", "n": "\n", "r": "\r", "0": "\0", "\\": "\\"}
    return re.sub(r"\\([tnr0\\])", lambda match: named[match[1]], text)


def examples(*groups: tuple[str, ...]) -> str:
    """An epilog: of each group what it does, then one or more commands that do it."""
    told = []
    for what, *commands in groups:
        lines = [f"[dim]# {escape(what)}[/dim]", *(f"[cyan]{escape(command)}[/cyan]" for command in commands)]
        told.append("\n".join(lines))
    return "[bold]Examples[/bold]\n\n" + "\n\n".join(told)
