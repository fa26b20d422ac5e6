"""`ottla cluster decommission`: a broker leaves for good, and nothing that it held is lost.

Four steps, each of which looks first whether it is done, so that the command may be interrupted and run again at any time:
replicas and leaders move off; the broker is stopped (by whoever runs it); its vote is taken back; it is unregistered.

A vote is taken back after the broker has stopped, because one that joins the quorum by itself would join again. Of two
voters that cannot be: the one that is left has no majority to decide with. There it happens before.
"""

import sys
import time
from dataclasses import replace
from typing import Annotated, Final

import typer

from ottla.base.types import NodeId
from ottla.cli.balancing.placing import NoPlace, emptied
from ottla.cli.balancing.plan import Plan, plan_of
from ottla.cli.byte_sizes import rate_option
from ottla.cli.cluster_model import cluster_model, largest_copies
from ottla.cli.cluster_state import ClusterState, cluster_state, listed
from ottla.cli.connection import Connection, connected
from ottla.cli.errors import Failure
from ottla.cli.moving import carry_out, finish, wait_moved
from ottla.cli.options import DEFAULT_SERVERS, AsJson, Properties, Servers, connection_of, examples
from ottla.cli.output import counted, done, print_json, say
from ottla.cli.plan_view import show_plan
from ottla.cli.reassign import Throttle
from ottla.cli.throttle import remove_throttles
from ottla.client.admin import Admin
from ottla.client.cluster_states import QuorumReplica, QuorumState

EXAMPLES: Final = examples(
    ("broker 3 leaves, gently", "ottla cluster decommission 3 --throttle 50MB"),
    ("only what can be done before it is stopped", "ottla cluster decommission 3 --no-wait"),
    ("the rest, once it is stopped: the same again", "ottla cluster decommission 3"),
)

POLL_S: Final = 0.5
AUTO_JOIN: Final = "controller.quorum.auto.join.enable"


def decommission(
    broker: Annotated[int, typer.Argument(metavar="ID", min=0, help="The broker's node.id.", show_default=False)],
    throttle: Throttle = None,
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Wait for the broker to be stopped, then let it go.")
    ] = True,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    servers: Servers = DEFAULT_SERVERS,
    properties: Properties = None,
    as_json: AsJson = False,
) -> None:
    """Move everything off a broker, and when it has been stopped, let it go. May be interrupted and run again."""
    rate = rate_option(throttle)
    with connected(connection_of(servers, properties)) as connection:
        connection = without_broker(connection, broker)
        admin = connection.admin()
        state = cluster_state(admin)
        check_can_leave(state, broker)
        moved = move_off(admin, broker, throttle_bytes=rate, ask=not (yes or as_json))
        has_left = let_go(admin, broker, wait=wait)
    if as_json:
        print_json({"broker": broker, "partitions_moved": moved, "left": has_left})
    elif has_left:
        done(f"broker {broker} has left the cluster")


def without_broker(connection: Connection, broker: NodeId) -> Connection:
    """The same cluster by its other brokers: this one will be stopped while we ask."""
    members = connection.admin().describe_members().brokers
    others = [f"{each.host}:{each.port}" for each in members if each.id != broker and not each.is_fenced]
    return replace(connection, servers=",".join(others)) if others else connection


def check_can_leave(state: ClusterState, broker: NodeId) -> None:
    holding = {node for info in state.partitions.values() for node in info.replicas}
    if broker not in {each.id for each in state.brokers} | {each.id for each in state.quorum.voters} | holding:
        raise Failure(f"no such broker: {broker} (`ottla cluster brokers` shows them)")
    if [each.id for each in state.brokers if not each.is_fenced] == [broker]:
        raise Failure(f"broker {broker} is the only one that runs: `ottla cluster add` tells how to add one first")
    if [voter.id for voter in state.quorum.voters] == [broker]:
        raise Failure(f"broker {broker} is the only voter: let another node join the quorum first")
    if broker in state.fenced:
        lost = [where for where, info in state.partitions.items() if broker in info.replicas and info.leader is None]
        if lost:
            raise Failure(f"broker {broker} is down, and nobody else can lead {listed(lost)}: start it again first")


def move_off(admin: Admin, broker: NodeId, *, throttle_bytes: int | None, ask: bool) -> int:
    """Until it holds nothing: a topic may be created while others move. How many partitions were moved."""
    moved = 0
    while True:
        give_up_moves_to(admin, broker)
        if under_way := {where: each.target for where, each in admin.list_reassignments().items()}:
            say(f"{counted(len(under_way), 'partition')} on the move already: waiting for them")
            wait_moved(admin, under_way)
            finish(admin, under_way)
        plan = leaving_plan(admin, broker)
        if not plan.moves:
            return moved
        if ask:
            show_plan(plan)
            if sys.stdin.isatty():
                typer.confirm(f"Move these off broker {broker}?", abort=True)
            ask = False
        carry_out(admin, plan.assignment, throttle_bytes=throttle_bytes, wait=True)
        moved += len(plan.moves)


def give_up_moves_to(admin: Admin, broker: NodeId) -> None:
    """They would wait for ever for one that is dead, and move what leaves again at once from one that is not."""
    given_up = [where for where, each in admin.list_reassignments().items() if broker in each.adding]
    if given_up:
        admin.alter_reassignments(dict.fromkeys(given_up))
        if not admin.list_reassignments():
            remove_throttles(admin)
        say(f"{counted(len(given_up), 'move')} to broker {broker} given up: {listed(given_up)}")


def leaving_plan(admin: Admin, broker: NodeId) -> Plan:
    state = cluster_state(admin)
    model = cluster_model(state, largest_copies(admin.describe_log_directories()), {})
    try:
        return plan_of(model, emptied(model, {broker}, state.partitions.keys()))
    except NoPlace as error:
        raise Failure(
            f"{error} without broker {broker}: add one, or `ottla cluster reassign plan --replicas {error.brokers} "
            f"--topics {error.partition.topic}` first"
        ) from error


def let_go(admin: Admin, broker: NodeId, *, wait: bool) -> bool:
    """Whether it has left altogether."""
    quorum = admin.describe_quorum()
    if len(quorum.voters) == 2 and (voter := voter_of(quorum, broker)) is not None:
        give_up_vote_running(admin, voter)
    if runs(admin, broker):
        say(f"broker {broker} holds nothing any more: stop it now")
        if not wait:
            say(f"then `ottla cluster decommission {broker}` again lets it go")
            return False
        while runs(admin, broker):
            time.sleep(POLL_S)
    if (voter := voter_of(admin.describe_quorum(), broker)) is not None:
        admin.remove_voter(voter)
        say(f"broker {broker} votes no more")
    if any(each.id == broker for each in admin.describe_members().brokers):
        admin.unregister_broker(broker)
    return True


def give_up_vote_running(admin: Admin, voter: QuorumReplica) -> None:
    """Of two voters, while both run."""
    if not runs(admin, voter.id):
        raise Failure(f"of two voters broker {voter.id} is down, and one alone decides nothing: start it again first")
    if auto_joins(admin, voter.id):
        raise Failure(
            f"broker {voter.id} is one of two voters, so its vote must be taken back while it runs, and it would join "
            f"again: restart it with {AUTO_JOIN}=false, then run this again"
        )
    admin.remove_voter(voter)
    say(f"broker {voter.id} votes no more")


def auto_joins(admin: Admin, broker: NodeId) -> bool:
    entry = admin.describe_configs(broker=broker).get(AUTO_JOIN)
    return entry is not None and entry.value == "true"


def runs(admin: Admin, broker: NodeId) -> bool:
    return any(each.id == broker and not each.is_fenced for each in admin.describe_members().brokers)


def voter_of(quorum: QuorumState, broker: NodeId) -> QuorumReplica | None:
    return next((voter for voter in quorum.voters if voter.id == broker), None)
