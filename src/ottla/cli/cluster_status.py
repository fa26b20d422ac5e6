"""`ottla cluster status`, `brokers` and `quorum`: how the cluster is, from afar and from near."""

import time
from typing import Annotated, Final

import typer
from rich.live import Live

from ottla.cli.cluster_state import cluster_state, verdict
from ottla.cli.cluster_view import (
    brokers_document,
    brokers_view,
    quorum_document,
    quorum_view,
    status_document,
    status_view,
)
from ottla.cli.connection import connected
from ottla.cli.errors import OPERATION_FAILED
from ottla.cli.options import DEFAULT_SERVERS, AsJson, Properties, Servers, connection_of, examples
from ottla.cli.output import print_json, print_table, stdout

STATUS_EXAMPLES: Final = examples(
    ("is all well?", "ottla cluster status"),
    ("watch a failover or a repair", "ottla cluster status --watch 1"),
    ("stop a script unless all is well", "ottla cluster status --check"),
    ("partitions without a leader, one a line", "ottla cluster status --json | jq -r '.offline[]'"),
)
BROKERS_EXAMPLES: Final = examples(
    ("who leads how much, and how full the disks are", "ottla cluster brokers"),
    ("ids of brokers that are down", "ottla cluster brokers --json | jq '.[] | select(.fenced).id'"),
)
QUORUM_EXAMPLES: Final = examples(("who votes, and who is behind", "ottla cluster quorum"))


def status(
    watch_s: Annotated[
        float | None, typer.Option("--watch", "-w", min=0.1, metavar="SECONDS", help="Again and again, until Ctrl-C.")
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Exit with 1 unless all is well.")] = False,
    servers: Servers = DEFAULT_SERVERS,
    properties: Properties = None,
    as_json: AsJson = False,
) -> None:
    """Show the cluster at a glance: brokers, racks, controller, quorum, and partitions in trouble."""
    if watch_s is not None and (as_json or check):
        raise typer.BadParameter("shows a table, and never ends by itself", param_hint="--watch")
    with connected(connection_of(servers, properties)) as connection:
        admin = connection.admin()
        state = cluster_state(admin)
        if watch_s is not None:
            with Live(status_view(state), console=stdout(), auto_refresh=False) as live:
                while True:
                    time.sleep(watch_s)
                    live.update(status_view(cluster_state(admin)), refresh=True)
    if as_json:
        print_json(status_document(state))
    else:
        print_table(status_view(state))
    is_well, _ = verdict(state)
    if check and not is_well:
        raise typer.Exit(OPERATION_FAILED)


def brokers(servers: Servers = DEFAULT_SERVERS, properties: Properties = None, as_json: AsJson = False) -> None:
    """List brokers with rack, role in the quorum, leaders, replicas, data, and how full their disks are."""
    with connected(connection_of(servers, properties)) as connection:
        admin = connection.admin()
        state, directories = cluster_state(admin), admin.describe_log_directories()
    if as_json:
        print_json(brokers_document(state, directories))
    else:
        print_table(brokers_view(state, directories))


def quorum(servers: Servers = DEFAULT_SERVERS, properties: Properties = None, as_json: AsJson = False) -> None:
    """Show the metadata quorum: its leader (the active controller), its voters and observers, and their lag."""
    with connected(connection_of(servers, properties)) as connection:
        described = connection.admin().describe_quorum()
    if as_json:
        print_json(quorum_document(described))
    else:
        print_table(quorum_view(described))
