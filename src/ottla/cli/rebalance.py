"""`ottla cluster rebalance`: leaders, replicas, disks and traffic evened out; planned, shown, and then done if wanted."""

import time
from dataclasses import dataclass
from typing import Annotated, Any, Final

import typer

from ottla.base.types import TopicPartition
from ottla.cli.balancing.plan import Plan, plan_of
from ottla.cli.balancing.rebalancing import broker_to_isolate, movable, rebalanced
from ottla.cli.byte_sizes import rate_option
from ottla.cli.cluster_model import cluster_model, measured_sizes_and_rates
from ottla.cli.cluster_state import cluster_state, listed
from ottla.cli.connection import connected
from ottla.cli.errors import Failure, failure_of
from ottla.cli.moving import carry_out
from ottla.cli.options import DEFAULT_SERVERS, AsJson, Properties, Servers, connection_of, examples
from ottla.cli.output import done, print_json, say, warn
from ottla.cli.plan_view import carried_out_text, gain_text, plan_document, show_plan
from ottla.cli.reassign import Throttle
from ottla.client.admin import Admin
from ottla.client.errors import ClientError

EXAMPLES: Final = examples(
    ("what would be better where", "ottla cluster rebalance"),
    ("do it, gently", "ottla cluster rebalance --execute --throttle 50MB"),
    ("leaders alone: nothing is copied", "ottla cluster rebalance --copies 0 --execute"),
    ("a broker of its own for a hot partition's leader", "ottla cluster rebalance --isolate-leader orders-3 --execute"),
    ("by itself, every hour", "ottla cluster rebalance --every 60 --throttle 20MB"),
    ("as a file for Kafka's tools", "ottla cluster rebalance --json | jq .reassignment > plan.json"),
)

COPIES_MAX: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    copies_max: int
    sample_s: float
    isolate: TopicPartition | None


def rebalance(
    execute: Annotated[bool, typer.Option("--execute", help="Do it. Without this, only show it.")] = False,
    copies: Annotated[
        int, typer.Option("--copies", min=0, metavar="N", help="Copy at most so many replicas in one go.")
    ] = COPIES_MAX,
    throttle: Throttle = None,
    isolate_leader: Annotated[
        str | None,
        typer.Option("--isolate-leader", metavar="TOPIC-PARTITION", help="Its leader's broker leads nothing else."),
    ] = None,
    sample_s: Annotated[
        float, typer.Option("--sample", min=0, metavar="SECONDS", help="Measure byte rates for so long; 0: not at all.")
    ] = 5.0,
    every_minutes: Annotated[
        float | None, typer.Option("--every", min=0.01, metavar="MINUTES", help="Again and again, executing each plan.")
    ] = None,
    servers: Servers = DEFAULT_SERVERS,
    properties: Properties = None,
    as_json: AsJson = False,
) -> None:
    """Even out racks, replicas, leaders, bytes on disk and bytes a second over the brokers.

    Shows the plan and its gain first. Partitions that are under-replicated or on the move are left alone.
    """
    rate = rate_option(throttle)
    wanted = Wanted(
        copies_max=copies,
        sample_s=sample_s,
        isolate=None if isolate_leader is None else parse_partition(isolate_leader),
    )
    with connected(connection_of(servers, properties)) as connection:
        admin = connection.admin()
        if every_minutes is None:
            once(admin, wanted, execute=execute, throttle_bytes=rate, as_json=as_json)
            return
        while True:
            try:
                once(admin, wanted, execute=True, throttle_bytes=rate, as_json=as_json)
            except (Failure, ClientError) as error:
                # One that runs by itself outlives a failover; what keeps failing is told each time.
                failure = error if isinstance(error, Failure) else failure_of(error, servers=servers)
                warn(f"not this time: {failure.message}")
            time.sleep(every_minutes * 60)


def once(admin: Admin, wanted: Wanted, *, execute: bool, throttle_bytes: int | None, as_json: bool) -> None:
    plan = rebalance_plan(admin, wanted)
    if as_json:
        print_json(document(plan, executed=execute and bool(plan.moves)))
    elif not plan.moves:
        done("balanced: nothing is worth moving")
    else:
        show_plan(plan)
        say(gain_text(plan))
    if execute and plan.moves:
        carry_out(admin, plan.assignment, throttle_bytes=throttle_bytes, wait=True)
        if not as_json:
            done(f"rebalanced: {carried_out_text(plan)}")
    elif plan.moves and not as_json:
        say("nothing was changed: add --execute to do it")


def rebalance_plan(admin: Admin, wanted: Wanted) -> Plan:
    state = cluster_state(admin)
    if state.reassignments:
        raise Failure("partitions are on the move: wait for them (`ottla cluster reassign list`) or cancel them")
    if state.fenced:
        warn(
            f"down: {listed(state.fenced)}. What lies there is left alone; `ottla cluster decommission ID` moves it off"
        )
    sizes, rates = measured_sizes_and_rates(admin, wanted.sample_s)
    model = cluster_model(state, sizes, rates)
    if wanted.isolate is None:
        return plan_of(model, rebalanced(model, copies_max=wanted.copies_max))
    if wanted.isolate not in state.partitions:
        raise Failure(f"no such partition: {wanted.isolate}")
    if wanted.isolate not in {each.partition for each in movable(model)}:
        raise Failure(f"{wanted.isolate} is not fully in sync: mend that first (`ottla doctor`)")
    if len(model.brokers) < 2:
        raise Failure("a broker of its own needs a second broker: `ottla cluster add` tells how")
    isolated = {broker_to_isolate(model, wanted.isolate): wanted.isolate}
    target = rebalanced(model, copies_max=wanted.copies_max, isolate_leader=wanted.isolate)
    return plan_of(model, target, isolated=isolated)


def document(plan: Plan, *, executed: bool) -> dict[str, Any]:
    return plan_document(plan) | {"executed": executed}


def parse_partition(text: str) -> TopicPartition:
    topic, dash, number = text.rpartition("-")
    if not dash or not topic or not number.isdigit():
        raise typer.BadParameter(f"{text!r} is not TOPIC-PARTITION such as orders-3", param_hint="--isolate-leader")
    return TopicPartition(topic, int(number))
