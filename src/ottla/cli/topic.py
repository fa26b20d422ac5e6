"""`ottla topic`: create, list, describe, alter, delete. Configuration of a topic is in `topic_config`."""

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from ottla.base.errors import ErrorCode
from ottla.cli import configs, topic_config, topic_state
from ottla.cli.connection import connected
from ottla.cli.limits import PARTITION_COUNT_MAX, REPLICATION_FACTOR_MAX
from ottla.cli.log_directories import partition_sizes
from ottla.cli.options import (
    DEFAULT_SERVERS,
    AsJson,
    Properties,
    Servers,
    Topic,
    Topics,
    connection_of,
    examples,
    key_values,
)
from ottla.cli.output import counted, done, print_json, print_table, say, warn
from ottla.cli.topic_view import show_topic, summary_document, topic_document, topics_table
from ottla.client.admin import Admin
from ottla.client.errors import ClientError
from ottla.client.topics import BROKER_DEFAULT, NewTopic

app = typer.Typer(help="Create, list, describe, change and delete topics.", no_args_is_help=True)


@app.command(
    epilog=examples(
        (
            "twelve partitions, kept for a day",
            "ottla topic create orders --partitions 12 --config retention.ms=86400000",
        ),
        ("messages kept for a day", "ottla topic create clicks --config retention.ms=86400000"),
    )
)
def create(
    topics: Topics,
    partitions: Annotated[
        int | None,
        typer.Option(
            "--partitions", "-p", min=1, max=PARTITION_COUNT_MAX, help="Default: the broker's num.partitions."
        ),
    ] = None,
    replication_factor: Annotated[
        int | None,
        typer.Option(
            "--replication-factor",
            "-r",
            min=1,
            max=REPLICATION_FACTOR_MAX,
            help="Default: the broker's default.replication.factor.",
        ),
    ] = None,
    config: Annotated[
        list[str] | None, typer.Option("--config", "-c", metavar="KEY=VALUE", help="Repeat for more.")
    ] = None,
    if_not_exists: Annotated[bool, typer.Option("--if-not-exists", help="A topic that exists is fine.")] = False,
    servers: Servers = DEFAULT_SERVERS,
    properties: Properties = None,
    as_json: AsJson = False,
) -> None:
    """Create one or more topics."""
    settings = key_values(config, "--config")
    wanted = [
        NewTopic(name, partitions or BROKER_DEFAULT, replication_factor or BROKER_DEFAULT, settings) for name in topics
    ]
    existing: set[str] = set()
    with connected(connection_of(servers, properties)) as connection:
        admin = connection.admin()
        if if_not_exists:
            existing = create_missing(admin, wanted)
        else:
            admin.create_topics(wanted)
        states = topic_state.describe_created(admin, topics)
    if as_json:
        print_json([topic_document(state) | {"created": state.name not in existing} for state in states])
        return
    for state in states:
        count = counted(len(state.partitions), "partition")
        verb = "exists already" if state.name in existing else "created"
        done(f"{state.name} {verb}: {count}, replication factor {state.replication_factor}")


@app.command(
    "list",
    epilog=examples(
        ("what there is", "ottla topic list"),
        ("names only, for a script", "ottla topic list --json | jq -r '.[].name'"),
    ),
)
def list_topics(
    internal: Annotated[bool, typer.Option("--internal", help="Also topics such as __consumer_offsets.")] = False,
    servers: Servers = DEFAULT_SERVERS,
    properties: Properties = None,
    as_json: AsJson = False,
) -> None:
    """List topics with their partitions, records and size on disk (one copy)."""
    with connected(connection_of(servers, properties)) as connection:
        admin = connection.admin()
        states = topic_state.describe(admin, admin.list_topics(include_internal=internal))
        measured = topic_state.with_sizes(topic_state.with_offsets(admin, states), partition_sizes(connection, admin))
    if as_json:
        print_json([summary_document(state) for state in measured])
    elif not measured:
        say("no topics yet: create one with `ottla topic create NAME`")
    else:
        print_table(topics_table(measured))


@app.command(epilog=examples(("leaders, replicas and offsets of every partition", "ottla topic describe orders")))
def describe(
    topics: Topics,
    servers: Servers = DEFAULT_SERVERS,
    properties: Properties = None,
    as_json: AsJson = False,
) -> None:
    """Show partitions with leader, replicas and offsets, and the configuration that differs from the defaults."""
    with connected(connection_of(servers, properties)) as connection:
        admin = connection.admin()
        described = topic_state.with_offsets(admin, topic_state.describe(admin, topics))
        states = topic_state.with_sizes(described, partition_sizes(connection, admin))
        changed = {
            state.name: [entry for entry in configs.of_topic(connection, state.name) if not entry.is_default]
            for state in states
        }
    if as_json:
        print_json(
            [
                topic_document(state) | {"configs": {entry.name: entry.value for entry in changed[state.name]}}
                for state in states
            ]
        )
        return
    for state in states:
        show_topic(state, changed[state.name])


@app.command(epilog=examples(("without being asked", "ottla topic delete orders --yes")))
def delete(
    topics: Topics,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    servers: Servers = DEFAULT_SERVERS,
    properties: Properties = None,
    as_json: AsJson = False,
) -> None:
    """Delete topics and every record in them. Asks first where somebody can answer."""
    with connected(connection_of(servers, properties)) as connection:
        admin = connection.admin()
        topic_state.describe(admin, topics)
        if not yes and not as_json and sys.stdin.isatty():
            typer.confirm(f"Delete {', '.join(topics)} with all records?", abort=True)
        admin.delete_topics(topics)
    if as_json:
        print_json([{"name": name, "deleted": True} for name in topics])
        return
    for name in topics:
        done(f"{name} deleted")


@app.command(epilog=examples(("grow to 24 partitions", "ottla topic alter orders --partitions 24")))
def alter(
    topic: Topic,
    partitions: Annotated[
        int, typer.Option("--partitions", "-p", min=1, max=PARTITION_COUNT_MAX, help="The new, greater count.")
    ],
    servers: Servers = DEFAULT_SERVERS,
    properties: Properties = None,
    as_json: AsJson = False,
) -> None:
    """Add partitions to a topic. Their number can only grow."""
    with connected(connection_of(servers, properties)) as connection:
        admin = connection.admin()
        [before] = topic_state.describe(admin, [topic])
        admin.create_partitions({topic: partitions}, keys_may_move=True)  # Said below, in our own words.
    warn(
        f"keys of {topic} are spread over {partitions} partitions from now on, not {len(before.partitions)}: "
        "new records of a key may land in another partition than its old ones"
    )
    if as_json:
        print_json({"name": topic, "partitions_before": len(before.partitions), "partitions": partitions})
    else:
        done(f"{topic} has {partitions} partitions")


app.command("config", epilog=topic_config.EXAMPLES)(topic_config.config)


def create_missing(admin: Admin, topics: Sequence[NewTopic]) -> set[str]:
    """Creates each topic that is not there yet, and returns the names of those that were."""
    existing = set()
    for topic in topics:
        try:
            admin.create_topics([topic])
        except ClientError as error:
            if error.code != ErrorCode.TOPIC_ALREADY_EXISTS.name:
                raise
            existing.add(topic.name)
    return existing
