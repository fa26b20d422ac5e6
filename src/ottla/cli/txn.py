"""`ottla txn`: transactions that run, those that hang, and an end to either.

A transaction hangs when a partition holds it open and its coordinator does not know of it any more: readers with
read_committed then stand still there for ever. That is what `find-hanging` looks for, and only its leader's marker
(`abort --partition`) ends it. One that its coordinator knows is ended through it (`abort ID`).
"""

import time
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Final

import typer

from ottla.base.types import TopicPartition
from ottla.cli.connection import Connection, connected
from ottla.cli.errors import Failure
from ottla.cli.group_view import duration_text
from ottla.cli.limits import INT64_MAX
from ottla.cli.options import DEFAULT_SERVERS, AsJson, Properties, Servers, complete_topic, connection_of, examples
from ottla.cli.output import done, facts, number, plain, print_json, print_table, say, table
from ottla.cli.start_position import parse_duration_ms
from ottla.client.admin import Admin
from ottla.client.errors import ClientError
from ottla.client.producer import Producer
from ottla.client.transaction_states import ONGOING, ProducerState, TransactionDescription, TransactionListing

app = typer.Typer(help="Transactions: list, describe, find those that hang, abort.", no_args_is_help=True)

HANGING_AGE: Final = "15m"  # The default of a broker's transaction.max.timeout.ms: older ones should have timed out.


@app.command(
    "list",
    epilog=examples(
        ("what there is", "ottla txn list"),
        ("what runs, and for too long", "ottla txn list --state Ongoing --longer-than 1m"),
    ),
)
def list_transactions(
    states: Annotated[
        list[str] | None, typer.Option("--state", metavar="STATE", help="Such as Ongoing, Empty. Repeat for more.")
    ] = None,
    longer_than: Annotated[
        str | None, typer.Option("--longer-than", metavar="FOR", help="Running for 30s, 5m…")
    ] = None,
    servers: Servers = DEFAULT_SERVERS,
    properties: Properties = None,
    as_json: AsJson = False,
) -> None:
    """List transactional ids with the state of their last transaction."""
    running_ms = -1 if longer_than is None else duration_ms(longer_than, "--longer-than")
    with connected(connection_of(servers, properties)) as connection:
        found = connection.admin().list_transactions(states=states or (), running_longer_than_ms=running_ms)
    if as_json:
        print_json(
            [
                {
                    "transactional_id": each.transactional_id,
                    "producer_id": each.producer_id,
                    "state": each.state,
                    "coordinator": each.coordinator,
                    "started_ms": each.started_ms,
                    "two_phase": each.is_two_phase,
                }
                for each in found
            ]
        )
    elif not found:
        say("no transactions: a producer with a transactional.id makes one")
    else:
        rows = [
            (
                plain(each.transactional_id),
                plain(each.producer_id),
                plain(state_text(each)),
                plain(age_text(each)),
                plain(each.coordinator),
            )
            for each in found
        ]
        print_table(table(["transactional id", ">producer id", "state", ">open for", ">coordinator"], rows))


def state_text(found: TransactionListing | TransactionDescription) -> str:
    return f"{found.state}, two-phase" if found.is_two_phase else found.state


def age_text(found: TransactionListing | TransactionDescription) -> str | None:
    """How long it is open: what a reader with read_committed waits for."""
    if found.started_ms is None or found.state != ONGOING:
        return None
    return duration_text(max(0.0, time.time() - found.started_ms / 1000))


@app.command(epilog=examples(("since when, and over which partitions", "ottla txn describe shop-1")))
def describe(
    transactional_id: Annotated[str, typer.Argument(metavar="ID", show_default=False)],
    servers: Servers = DEFAULT_SERVERS,
    properties: Properties = None,
    as_json: AsJson = False,
) -> None:
    """Show one transactional id: producer, state, since when, and the partitions of the open transaction."""
    with connected(connection_of(servers, properties)) as connection:
        found = connection.admin().describe_transaction(transactional_id)
    if as_json:
        print_json(description_document(found))
        return
    started = None if found.started_ms is None else datetime.fromtimestamp(found.started_ms / 1000).astimezone()
    print_table(
        facts(
            [
                ("transactional id", plain(found.transactional_id)),
                ("state", plain(state_text(found))),
                ("producer", plain(f"{found.producer_id}, epoch {found.producer_epoch}")),
                ("coordinator", plain(found.coordinator)),
                ("time-out", plain(timeout_text(found))),
                ("started", plain(started and started.isoformat(sep=" ", timespec="seconds"))),
                ("open for", plain(age_text(found))),
                ("partitions", plain(", ".join(map(str, found.partitions)) or None)),
            ]
        )
    )


def timeout_text(found: TransactionDescription) -> str:
    return "the broker's own" if found.is_two_phase else duration_text(found.timeout_ms / 1000)


def description_document(found: TransactionDescription) -> dict[str, Any]:
    return {
        "transactional_id": found.transactional_id,
        "state": found.state,
        "producer_id": found.producer_id,
        "producer_epoch": found.producer_epoch,
        "coordinator": found.coordinator,
        "timeout_ms": found.timeout_ms,
        "two_phase": found.is_two_phase,
        "started_ms": found.started_ms,
        "partitions": [{"topic": topic, "partition": partition} for topic, partition in found.partitions],
    }


@app.command(
    "find-hanging",
    epilog=examples(
        ("in the whole cluster", "ottla txn find-hanging"),
        ("in one topic, whatever their age", "ottla txn find-hanging --topic orders --older-than 0s"),
    ),
)
def find_hanging(
    topics: Annotated[
        list[str] | None,
        typer.Option("--topic", "-t", autocompletion=complete_topic, help="Only these. Default: all topics."),
    ] = None,
    older_than: Annotated[
        str, typer.Option("--older-than", metavar="FOR", help="Without a write for so long.")
    ] = HANGING_AGE,
    servers: Servers = DEFAULT_SERVERS,
    properties: Properties = None,
    as_json: AsJson = False,
) -> None:
    """Find transactions that a partition holds open and no coordinator will ever end."""
    age_ms = duration_ms(older_than, "--older-than")
    with connected(connection_of(servers, properties)) as connection:
        admin = connection.admin()
        names = topics or admin.list_topics(include_internal=True)
        written_before_ms = time.time() * 1000 - age_ms
        found = [each for each in open_transactions(admin, names) if each.last_timestamp_ms <= written_before_ms]
        hanging = [each for each in found if is_hanging(admin, each)]
    if as_json:
        print_json([hanging_document(each) for each in hanging])
    elif not hanging:
        say(f"no transaction hangs ({older_than} and older)")
    else:
        rows = [
            (
                plain(each.partition),
                plain(each.producer_id),
                plain(each.producer_epoch),
                number(each.transaction_start_offset),
                plain(duration_text(max(0.0, time.time() - each.last_timestamp_ms / 1000))),
            )
            for each in hanging
        ]
        print_table(table(["partition", ">producer id", ">epoch", ">start offset", ">last write ago"], rows))
        first = hanging[0]
        say(
            f"`ottla txn abort --partition {first.partition.topic}:{first.partition.partition} "
            f"--start-offset {first.transaction_start_offset}` ends the first"
        )


def open_transactions(admin: Admin, topics: Sequence[str]) -> list[ProducerState]:
    described = admin.describe_topics(topics) if topics else {}
    partitions = [TopicPartition(name, info.partition) for name, each in described.items() for info in each.partitions]
    return [state for state in admin.describe_producers(partitions) if state.transaction_start_offset is not None]


def is_hanging(admin: Admin, state: ProducerState) -> bool:
    """Nobody will end it: no coordinator knows the producer, or not that it writes to this partition."""
    for listing in admin.list_transactions(producer_ids=[state.producer_id]):
        try:
            known = admin.describe_transaction(listing.transactional_id)
        except ClientError as error:
            if error.code != "TRANSACTIONAL_ID_NOT_FOUND":
                raise
            continue
        if known.producer_id == state.producer_id and state.partition in known.partitions:
            return False
    return True


def hanging_document(state: ProducerState) -> dict[str, Any]:
    return {
        "topic": state.partition.topic,
        "partition": state.partition.partition,
        "producer_id": state.producer_id,
        "producer_epoch": state.producer_epoch,
        "start_offset": state.transaction_start_offset,
        "last_timestamp_ms": state.last_timestamp_ms,
    }


@app.command(
    epilog=examples(
        ("a transaction that its coordinator knows; its producer is fenced", "ottla txn abort shop-1"),
        ("one that hangs", "ottla txn abort --partition orders:0 --start-offset 42"),
    )
)
def abort(
    transactional_id: Annotated[str | None, typer.Argument(metavar="ID", show_default=False)] = None,
    partition: Annotated[
        str | None, typer.Option("--partition", "-p", metavar="TOPIC:P", help="Of a hanging transaction.")
    ] = None,
    start_offset: Annotated[
        int | None,
        typer.Option("--start-offset", min=0, max=INT64_MAX, metavar="N", help="Where it begins in that partition."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Also if the coordinator knows it, or none is open.")] = False,
    servers: Servers = DEFAULT_SERVERS,
    properties: Properties = None,
    as_json: AsJson = False,
) -> None:
    """Abort a transaction: by its transactional id, or in one partition where it hangs."""
    if (transactional_id is None) == (partition is None) or (partition is None) != (start_offset is None):
        raise typer.BadParameter("give a transactional id, or --partition together with --start-offset")
    with connected(connection_of(servers, properties)) as connection:
        if transactional_id is not None:
            fence(connection, transactional_id, force=force)
            told = f"{transactional_id}: aborted, its producer is fenced"
        else:
            where = parse_partition(partition or "")
            abort_hanging(connection.admin(), where, start_offset or 0, force=force)
            told = f"{where}: the transaction from offset {start_offset} on is aborted"
    if as_json:
        print_json(
            {
                "transactional_id": transactional_id,
                "partition": partition,
                "start_offset": start_offset,
                "aborted": True,
            }
        )
    else:
        done(told)


def fence(connection: Connection, transactional_id: str, *, force: bool) -> None:
    """What a restarted producer does: a new epoch under the same id, which ends what the old one had begun."""
    found = connection.admin().describe_transaction(transactional_id)  # Or a typing mistake would make a new id.
    if found.state != ONGOING and not force:
        raise Failure(
            f"{transactional_id} has no open transaction (its state is {found.state}): there is nothing to abort; --force "
            "fences its producer all the same"
        )
    with Producer(connection.options({"transactional.id": transactional_id})) as producer:
        producer.init_transactions()


def parse_partition(text: str) -> TopicPartition:
    topic, _, number_text = text.rpartition(":")
    if not topic or not number_text.isdigit():
        raise typer.BadParameter(f"{text!r} is not TOPIC:PARTITION", param_hint="--partition")
    return TopicPartition(topic, int(number_text))


def abort_hanging(admin: Admin, where: TopicPartition, start_offset: int, *, force: bool) -> None:
    states = [each for each in admin.describe_producers([where]) if each.transaction_start_offset == start_offset]
    if any(not is_hanging(admin, state) for state in states) and not force:
        raise Failure(
            f"the coordinator knows the transaction in {where} from offset {start_offset} on and will end it: abort it by "
            "its id (`ottla txn list`), or --force"
        )
    admin.abort_transaction(where, start_offset)


def duration_ms(text: str, option: str) -> int:
    try:
        return parse_duration_ms(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from error
