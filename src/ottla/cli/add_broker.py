"""`ottla cluster add`: how a broker joins, the moment it does, and what to give it then.

Nothing has to be told to the cluster: a node that starts with the addresses of some brokers registers itself and, if it is
a controller, joins the quorum. It holds nothing until replicas are moved to it, which is what a rebalance does.
"""

import sys
import time
from collections.abc import Iterable, Sequence
from typing import Annotated, Final

import typer

from ottla.base.types import NodeId
from ottla.cli.balancing.plan import Plan
from ottla.cli.byte_sizes import rate_option
from ottla.cli.cluster_view import role_text
from ottla.cli.connection import connected
from ottla.cli.errors import Failure
from ottla.cli.moving import carry_out
from ottla.cli.options import DEFAULT_SERVERS, AsJson, Properties, Servers, connection_of, examples
from ottla.cli.output import done, print_json, say, stderr
from ottla.cli.plan_view import carried_out_text, gain_text, plan_document, show_plan
from ottla.cli.reassign import Throttle
from ottla.cli.rebalance import COPIES_MAX, Wanted, rebalance_plan
from ottla.client.admin import Admin
from ottla.client.cluster_states import BrokerState, QuorumState

EXAMPLES: Final = examples(
    ("how to start one; waits for it, then offers it its share", "ottla cluster add"),
    ("broker 4, and its share at once", "ottla cluster add --id 4 --execute --throttle 50MB"),
)

POLL_S: Final = 0.5


def add(
    broker_id: Annotated[
        int | None, typer.Option("--id", min=0, metavar="ID", help="Its node.id. Default: the next one that joins.")
    ] = None,
    execute: Annotated[bool, typer.Option("--execute", help="Move its share to it without asking.")] = False,
    throttle: Throttle = None,
    timeout_s: Annotated[
        float, typer.Option("--timeout", min=0, metavar="SECONDS", help="Wait so long for it to join.")
    ] = 600.0,
    servers: Servers = DEFAULT_SERVERS,
    properties: Properties = None,
    as_json: AsJson = False,
) -> None:
    """Tell how to start another broker, wait until it has joined, and offer a plan that gives it its share."""
    rate = rate_option(throttle)
    with connected(connection_of(servers, properties)) as connection:
        admin = connection.admin()
        known = admin.describe_members().brokers
        if broker_id not in {broker.id for broker in known}:
            say("start it so, at an address that the others can reach, with whatever else your nodes are given:")
            node_id = next_id(known, admin.describe_quorum()) if broker_id is None else broker_id
            say(f"  {start_command(known, node_id)}")
        joined = wait_joined(admin, {broker.id for broker in known}, broker_id, timeout_s)
        role = role_text(admin.describe_quorum(), joined.id)
        if not as_json:
            done(f"broker {joined.id} has joined at {joined.host}:{joined.port} ({role or 'not in the quorum yet'})")
        plan = rebalance_plan(admin, Wanted(copies_max=COPIES_MAX, sample_s=0.0, isolate=None))
        is_wanted = decide(plan, execute=execute, as_json=as_json)
        if is_wanted:
            carry_out(admin, plan.assignment, throttle_bytes=rate, wait=True)
    if as_json:
        print_json({"broker": joined.id, "role": role, "plan": plan_document(plan), "executed": is_wanted})
    elif is_wanted:
        done(f"rebalanced: {carried_out_text(plan)}")


def next_id(known: Iterable[BrokerState], quorum: QuorumState) -> NodeId:
    """Nobody's yet: controllers that are no brokers have ids, too."""
    return max([*(broker.id for broker in known), *(voter.id for voter in quorum.voters)], default=0) + 1


def start_command(known: Sequence[BrokerState], node_id: NodeId) -> str:
    servers = ",".join(f"{broker.host}:{broker.port}" for broker in known if not broker.is_fenced)
    rack = " --config broker.rack=RACK" if any(broker.rack is not None for broker in known) else ""
    return (
        f"ottla up --data ottla-data-{node_id} --port {9091 + node_id} --config node.id={node_id}{rack} "
        f"--config controller.quorum.auto.join.enable=true --config controller.quorum.bootstrap.servers={servers}"
    )


def wait_joined(admin: Admin, known: set[NodeId], broker_id: NodeId | None, timeout_s: float) -> BrokerState:
    deadline = time.monotonic() + timeout_s
    with stderr().status("waiting for it to join"):
        while True:
            for broker in admin.describe_members().brokers:
                is_it = broker.id not in known if broker_id is None else broker.id == broker_id
                if is_it and not broker.is_fenced:
                    return broker
            if time.monotonic() > deadline:
                raise Failure(f"no broker has joined within {timeout_s:.0f} s: look at its log")
            time.sleep(POLL_S)


def decide(plan: Plan, *, execute: bool, as_json: bool) -> bool:
    """Shows the plan, and whether it is to be carried out."""
    if not plan.moves:
        return False
    if not as_json:
        show_plan(plan)
        say(gain_text(plan))
    if execute:
        return True
    if not as_json and sys.stdin.isatty():
        return typer.confirm("Carry out this plan?")
    say("nothing was moved: `ottla cluster rebalance --execute` does it")
    return False
