"""`ottla group`: list, describe, reset, delete. Reset is in `group_reset`."""

import sys
import time
from typing import Annotated

import typer
from rich.live import Live

from ottla.cli import group_reset
from ottla.cli.connection import connected
from ottla.cli.errors import Failure
from ottla.cli.group_state import group_state
from ottla.cli.group_view import group_document, group_view, groups_table, listing_document
from ottla.cli.options import (
    DEFAULT_SERVERS,
    AsJson,
    Groups,
    Properties,
    Servers,
    complete_topic,
    connection_of,
    examples,
)
from ottla.cli.output import done, print_json, print_table, say, stdout

app = typer.Typer(help="Consumer groups: who reads, how far behind, from where next.", no_args_is_help=True)


@app.command(
    "list",
    epilog=examples(
        ("what there is", "ottla group list"),
        ("names of those without members", """ottla group list --json | jq -r '.[] | select(.members == 0).group'"""),
    ),
)
def list_groups(servers: Servers = DEFAULT_SERVERS, properties: Properties = None, as_json: AsJson = False) -> None:
    """List groups with their state and how many members they have."""
    with connected(connection_of(servers, properties)) as connection:
        admin = connection.admin()
        listings = admin.list_groups()
        # One may be gone by now, and librdkafka knows half the name of one with a NUL in it: such have no members to show.
        described = admin.describe_groups([listing.group for listing in listings], missing_ok=True) if listings else {}
    if as_json:
        print_json([listing_document(listing, described.get(listing.group)) for listing in listings])
    elif not listings:
        say("no groups yet: a consumer with a group.id makes one, such as `ottla consume TOPIC --group NAME`")
    else:
        print_table(groups_table(listings, described))


@app.command(
    epilog=examples(
        ("members, offsets and lag", "ottla group describe payments"),
        ("again every two seconds, until Ctrl-C", "ottla group describe payments --watch 2"),
        ("for an alert", "ottla group describe payments --json | jq '.[0].lag_seconds'"),
    )
)
def describe(
    groups: Groups,
    watch_s: Annotated[
        float | None, typer.Option("--watch", "-w", min=0.1, metavar="SECONDS", help="Again and again, until Ctrl-C.")
    ] = None,
    servers: Servers = DEFAULT_SERVERS,
    properties: Properties = None,
    as_json: AsJson = False,
) -> None:
    """Show members, what is assigned to them, and the lag: in records, and how long the first unread one has waited."""
    if watch_s is not None and (as_json or len(groups) != 1):
        raise typer.BadParameter("shows one group, and not as JSON", param_hint="--watch")
    with connected(connection_of(servers, properties)) as connection:
        admin = connection.admin()
        states = [group_state(connection, admin, group) for group in groups]
        if as_json:
            print_json([group_document(state) for state in states])
        elif watch_s is None:
            for state in states:
                print_table(group_view(state))
        else:
            with Live(group_view(states[0]), console=stdout(), auto_refresh=False) as live:
                while True:
                    time.sleep(watch_s)
                    live.update(group_view(group_state(connection, admin, groups[0])), refresh=True)


app.command("reset", epilog=group_reset.EXAMPLES)(group_reset.reset)


@app.command(
    epilog=examples(
        ("a group and all it has committed", "ottla group delete payments"),
        ("only what it has committed for one topic", "ottla group delete payments --topic orders"),
    )
)
def delete(
    groups: Groups,
    topic: Annotated[
        str | None,
        typer.Option("--topic", "-t", autocompletion=complete_topic, help="Only its offsets of this topic."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    servers: Servers = DEFAULT_SERVERS,
    properties: Properties = None,
    as_json: AsJson = False,
) -> None:
    """Delete groups with their offsets: their consumers start anew. Asks first where somebody can answer."""
    what = f"the offsets of {topic} in {', '.join(groups)}" if topic else f"{', '.join(groups)} with all offsets"
    with connected(connection_of(servers, properties)) as connection:
        admin = connection.admin()
        if not yes and not as_json and sys.stdin.isatty():
            typer.confirm(f"Delete {what}?", abort=True)
        for group in groups if topic is None else ():  # One at a time: of several, those before a failure are told.
            admin.delete_groups([group])
            if not as_json:
                done(f"{group} deleted")
        for group in groups if topic else ():
            partitions = [each for each in admin.list_group_offsets(group) if each.topic == topic]
            if not partitions:
                raise Failure(f"{group} has committed nothing for {topic}")
            admin.delete_group_offsets(group, partitions)
    if as_json:
        print_json([{"group": group, "topic": topic, "deleted": True} for group in groups])
        return
    for group in groups if topic else ():
        done(f"{group}: offsets of {topic} deleted")
