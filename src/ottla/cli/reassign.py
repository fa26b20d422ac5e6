"""`ottla cluster reassign`: plan, execute, verify, cancel, throttle and list moves of replicas.

Plans are files in the format of Kafka's kafka-reassign-partitions: either tool takes the other's.
"""

from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from ottla.base.types import TopicPartition
from ottla.cli.balancing.placing import NoPlace, emptied, resized
from ottla.cli.balancing.plan import Plan, plan_of
from ottla.cli.byte_sizes import rate_option
from ottla.cli.cluster_model import cluster_model, largest_copies
from ottla.cli.cluster_state import ClusterState, cluster_state
from ottla.cli.connection import connected
from ottla.cli.errors import OPERATION_FAILED, Failure
from ottla.cli.moving import (
    carry_out,
    copying_now,
    finish,
    headway_of,
    outcome_of,
    wait_moved,
)
from ottla.cli.options import (
    DEFAULT_SERVERS,
    AsJson,
    Properties,
    Servers,
    complete_topic,
    connection_of,
    examples,
)
from ottla.cli.output import counted, done, number, plain, print_json, print_table, say, size, size_text, table
from ottla.cli.plan_view import show_plan
from ottla.cli.reassignment_file import read_reassignment, reassignment_document, write_reassignment
from ottla.cli.throttle import remove_throttles, set_throttles
from ottla.client.admin import Admin
from ottla.client.cluster_states import Reassignment

app = typer.Typer(help="Move replicas: plan, execute, verify, cancel, throttle.", no_args_is_help=True)

PlanFile: TypeAlias = Annotated[
    Path, typer.Argument(metavar="PLAN", help="A file that `plan` wrote, or Kafka's own tool.", show_default=False)
]
Throttle: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--throttle", metavar="RATE", help="Copy at most so much a second per broker: 50MB. Default: no limit."
    ),
]
Wait: TypeAlias = Annotated[
    bool, typer.Option("--wait/--no-wait", help="Stay until all is moved, or start it and leave.")
]


@app.command(
    "plan",
    epilog=examples(
        ("three replicas of everything, internal topics too", "ottla cluster reassign plan --replicas 3 -o plan.json"),
        ("only of two topics", "ottla cluster reassign plan --replicas 3 --topics orders,payments -o plan.json"),
        ("onto brokers 1, 2 and 4 alone", "ottla cluster reassign plan --topics orders --brokers 1,2,4 -o plan.json"),
        ("then", "ottla cluster reassign execute plan.json --throttle 50MB"),
    ),
)
def plan_command(
    topics: Annotated[
        str | None,
        typer.Option("--topics", "-t", metavar="TOPIC,…", autocompletion=complete_topic, help="Default: all of them."),
    ] = None,
    replicas: Annotated[
        int | None, typer.Option("--replicas", "-r", min=1, metavar="N", help="The replication factor from then on.")
    ] = None,
    brokers: Annotated[
        str | None, typer.Option("--brokers", metavar="ID,…", help="Only these keep or get replicas.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write the plan to this file.")
    ] = None,
    servers: Servers = DEFAULT_SERVERS,
    properties: Properties = None,
    as_json: AsJson = False,
) -> None:
    """Plan a new replication factor, or a move to other brokers. Changes nothing; --json prints what -o writes."""
    if (replicas is None) == (brokers is None):
        raise typer.BadParameter("give one of --replicas and --brokers")
    allowed = broker_ids(brokers or "")
    with connected(connection_of(servers, properties)) as connection:
        admin = connection.admin()
        chosen = None if topics is None else {name.strip() for name in topics.split(",")}
        if replicas is not None:
            made = resizing_plan(admin, chosen, replicas)
        else:
            made = emptying_plan(admin, chosen, allowed)
    if output is not None:
        write_reassignment(output, made.assignment)
    if as_json:
        print_json(reassignment_document(made.assignment))
    elif not made.moves:
        done("nothing has to move")
    else:
        show_plan(made)
        file = output or "PLAN"
        say(f"nothing was changed: `ottla cluster reassign execute {file}` does it" + ("" if output else " (-o PLAN)"))


def resizing_plan(admin: Admin, topics: set[str] | None, replica_count: int) -> Plan:
    state = cluster_state(admin)
    model = cluster_model(state, largest_copies(admin.describe_log_directories()), {})
    try:
        return plan_of(model, resized(model, replica_count, partitions_of(state, topics)))
    except NoPlace as error:
        raise Failure(f"{error}: add brokers, or ask for fewer replicas") from error


def emptying_plan(admin: Admin, topics: set[str] | None, allowed: set[int]) -> Plan:
    """Off all brokers but the `allowed` ones."""
    state = cluster_state(admin)
    model = cluster_model(state, largest_copies(admin.describe_log_directories()), {})
    running = {broker.id for broker in model.brokers}
    if unknown := sorted(allowed - running):
        raise Failure(f"no such broker runs: {', '.join(map(str, unknown))} (`ottla cluster brokers` shows them)")
    holding = running | {node for info in state.partitions.values() for node in info.replicas}
    try:
        return plan_of(model, emptied(model, holding - allowed, partitions_of(state, topics)))
    except NoPlace as error:
        raise Failure(f"{error}: name more brokers, or lower the replication factor first") from error


def partitions_of(state: ClusterState, topics: set[str] | None) -> list[TopicPartition]:
    if topics is not None and (unknown := sorted(topics - set(state.topics))):
        raise Failure(f"no such topic: {', '.join(unknown)} (`ottla topic list --internal` shows what there is)")
    return [where for where in state.partitions if topics is None or where.topic in topics]


def broker_ids(text: str) -> set[int]:
    try:
        return {int(each) for each in text.split(",") if text}
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is not a list of broker ids such as 1,2,3", param_hint="--brokers"
        ) from None


@app.command(
    epilog=examples(
        ("slowly, until all is moved", "ottla cluster reassign execute plan.json --throttle 50MB"),
        (
            "start it, keep the way back, and leave",
            "ottla cluster reassign execute plan.json --backup before.json --no-wait",
        ),
    )
)
def execute(
    plan: PlanFile,
    throttle: Throttle = None,
    wait: Wait = True,
    backup: Annotated[
        Path | None, typer.Option("--backup", metavar="FILE", help="Write where replicas lie now: the plan back.")
    ] = None,
    servers: Servers = DEFAULT_SERVERS,
    properties: Properties = None,
    as_json: AsJson = False,
) -> None:
    """Carry out a plan: set throttles, move replicas, wait for them, elect preferred leaders, remove throttles.

    The same command again takes up what was interrupted, and changes the throttle of what is under way.
    """
    rate = rate_option(throttle)
    target = read_reassignment(plan)
    with connected(connection_of(servers, properties)) as connection:
        admin = connection.admin()
        partitions = admin.list_partitions()
        if missing := sorted(set(target) - set(partitions)):
            raise Failure(f"no such partition: {', '.join(map(str, missing))}")
        before = {where: partitions[where].replicas for where in target}
        if backup is not None:
            write_reassignment(backup, before)
        carry_out(admin, target, throttle_bytes=rate, wait=wait)
    if as_json:
        print_json({"moved": wait, "partitions": len(target), "before": reassignment_document(before)})
    elif wait:
        done(f"{counted(len(target), 'partition')} moved")
    else:
        done(f"{counted(len(target), 'partition')} on the move: `ottla cluster reassign verify {plan}` tells when")


@app.command(epilog=examples(("has it arrived? if so, tidy up", "ottla cluster reassign verify plan.json")))
def verify(
    plan: PlanFile,
    wait: Annotated[bool, typer.Option("--wait", help="Stay until nothing is on the move any more.")] = False,
    servers: Servers = DEFAULT_SERVERS,
    properties: Properties = None,
    as_json: AsJson = False,
) -> None:
    """Tell how far a plan is. Once all has arrived, leaders are elected and throttles removed. Exit code 1 until then."""
    target = read_reassignment(plan)
    with connected(connection_of(servers, properties)) as connection:
        admin = connection.admin()
        if wait:
            wait_moved(admin, target)
        outcome = outcome_of(target, admin.list_partitions(), admin.list_reassignments())
        unthrottled = [] if outcome.moving else finish(admin, {where: target[where] for where in outcome.arrived})
    if as_json:
        print_json(
            {
                "complete": outcome.is_complete,
                "arrived": list(map(str, outcome.arrived)),
                "moving": list(map(str, outcome.moving)),
                "elsewhere": {str(where): list(now or ()) for where, now in outcome.elsewhere.items()},
                "unthrottled_topics": unthrottled,
            }
        )
    else:
        done(f"{counted(len(outcome.arrived), 'partition')} of {len(target):,} arrived")
        if outcome.moving:
            say(f"{counted(len(outcome.moving), 'partition')} on the move")
        for where, now in outcome.elsewhere.items():
            say(f"{where} is neither there nor on its way: {'it does not exist' if now is None else list(now)}")
    if not outcome.is_complete:
        raise typer.Exit(OPERATION_FAILED)


@app.command(
    epilog=examples(
        ("what a plan has started and not finished", "ottla cluster reassign cancel plan.json"),
        ("everything", "ottla cluster reassign cancel --all"),
    )
)
def cancel(
    plan: Annotated[
        Path | None, typer.Argument(metavar="PLAN", help="Only what this plan moves.", show_default=False)
    ] = None,
    all_: Annotated[bool, typer.Option("--all", help="Whatever is on the move.")] = False,
    servers: Servers = DEFAULT_SERVERS,
    properties: Properties = None,
    as_json: AsJson = False,
) -> None:
    """Stop moves that are under way: replicas stay, or go back, where they were. What has arrived stays there."""
    if (plan is None) != all_:
        raise typer.BadParameter("name a plan, or give --all")
    chosen = None if plan is None else read_reassignment(plan)
    with connected(connection_of(servers, properties)) as connection:
        admin = connection.admin()
        cancelled = [where for where in admin.list_reassignments() if chosen is None or where in chosen]
        if cancelled:
            admin.alter_reassignments(dict.fromkeys(cancelled))
        if not admin.list_reassignments():
            remove_throttles(admin)
    if as_json:
        print_json({"cancelled": list(map(str, cancelled))})
    elif cancelled:
        done(f"{counted(len(cancelled), 'move')} cancelled")
    else:
        say("nothing was on the move")


@app.command(
    epilog=examples(
        ("faster, or slower, while it runs", "ottla cluster reassign throttle 100MB"),
        ("no limit any more, and nothing left behind", "ottla cluster reassign throttle none"),
    )
)
def throttle(
    rate: Annotated[
        str, typer.Argument(metavar="RATE", help="Bytes a second per broker, or none.", show_default=False)
    ],
    servers: Servers = DEFAULT_SERVERS,
    properties: Properties = None,
    as_json: AsJson = False,
) -> None:
    """Change how fast replicas that are on the move may be copied."""
    rate_bytes = None if rate == "none" else rate_option(rate)
    with connected(connection_of(servers, properties)) as connection:
        admin = connection.admin()
        copying = copying_now(admin)
        if rate_bytes is None:
            remove_throttles(admin)
        elif not copying:
            raise Failure("nothing is on the move: give --throttle to `execute`")
        else:
            set_throttles(admin, copying, rate_bytes)
    if as_json:
        print_json({"bytes_per_second": rate_bytes, "partitions": list(map(str, copying))})
    elif rate_bytes is None:
        done("no throttle any more")
    else:
        done(f"{counted(len(copying), 'partition')} copied at {size_text(rate_bytes)}/s per broker at most")


@app.command("list", epilog=examples(("what moves, and how much is left", "ottla cluster reassign list")))
def list_command(servers: Servers = DEFAULT_SERVERS, properties: Properties = None, as_json: AsJson = False) -> None:
    """List partitions on the move, with what is left to copy."""
    with connected(connection_of(servers, properties)) as connection:
        admin = connection.admin()
        under_way, directories = admin.list_reassignments(), admin.describe_log_directories()
    left = {where: headway_of({where: each}, directories).bytes_left for where, each in under_way.items()}
    if as_json:
        print_json([move_document(where, each, left[where]) for where, each in under_way.items()])
        return
    if not under_way:
        say("nothing is on the move")
        return
    rows = [
        (
            plain(where.topic),
            number(where.partition),
            plain(", ".join(map(str, each.target))),
            plain(", ".join(map(str, each.adding)) or None),
            plain(", ".join(map(str, each.removing)) or None),
            size(left[where]),
        )
        for where, each in under_way.items()
    ]
    print_table(table(["topic", ">partition", "new replicas", "adding", "removing", ">left to copy"], rows))


def move_document(where: TopicPartition, each: Reassignment, bytes_left: int) -> dict[str, Any]:
    return {
        "topic": where.topic,
        "partition": where.partition,
        "replicas": list(each.target),
        "adding": list(each.adding),
        "removing": list(each.removing),
        "bytes_left": bytes_left,
    }
