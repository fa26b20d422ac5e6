"""`ottla group reset`: where a group shall go on reading, planned, shown, and only then done."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Final, NamedTuple

import typer

from ottla.base.types import TopicPartition
from ottla.cli import topic_state
from ottla.cli.connection import connected
from ottla.cli.errors import Failure
from ottla.cli.options import DEFAULT_SERVERS, AsJson, Group, Properties, Servers, connection_of, examples
from ottla.cli.output import counted, done, number, plain, print_json, print_table, say, table, warn
from ottla.cli.start_position import milliseconds, parse_duration_ms, parse_moment, timestamp_ms_of
from ottla.client.admin import Admin
from ottla.client.errors import ClientError
from ottla.client.topics import OffsetSpec

EXAMPLES: Final = examples(
    ("what would happen", "ottla group reset payments --to-earliest"),
    ("all of one topic again, for real", "ottla group reset payments --topic orders --to-earliest --execute"),
    ("two partitions, from an offset on", "ottla group reset payments --topic orders:0,1 --to-offset 42 --execute"),
    (
        "from a moment, or from a while ago",
        "ottla group reset payments --to-timestamp 2026-11-15T09:30 --execute",
        "ottla group reset payments --by-duration 2h --execute",
    ),
    ("skip one record that cannot be processed", "ottla group reset payments --topic orders:3 --shift-by 1 --execute"),
)

OUTSIDER_STATES: Final = frozenset({"Empty", "Dead"})


class Move(NamedTuple):
    partition: TopicPartition
    before: int | None
    after: int


class Bounds(NamedTuple):
    start: int
    end: int


def reset(
    group: Group,
    topics: Annotated[
        list[str] | None,
        typer.Option("--topic", "-t", metavar="TOPIC[:P,…]", help="Repeat for more. Default: all it has committed."),
    ] = None,
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="The first record there is.")] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="Only what comes from now on.")] = False,
    to_offset: Annotated[int | None, typer.Option("--to-offset", min=0, metavar="N", help="This offset.")] = None,
    to_timestamp: Annotated[
        str | None, typer.Option("--to-timestamp", metavar="TIME", help="The first record not older: ISO or @millis.")
    ] = None,
    by_duration: Annotated[
        str | None, typer.Option("--by-duration", metavar="FOR", help="The first record of the last 30m, 2h, 1d12h…")
    ] = None,
    shift_by: Annotated[
        int | None, typer.Option("--shift-by", metavar="N", help="So many on from the committed; negative is back.")
    ] = None,
    execute: Annotated[bool, typer.Option("--execute", help="Do it. Without this, only show it.")] = False,
    servers: Servers = DEFAULT_SERVERS,
    properties: Properties = None,
    as_json: AsJson = False,
) -> None:
    """Move a group's committed offsets. Shows what would change; --execute does it. The group must have no members."""
    if not group:
        raise typer.BadParameter("a group has a name", param_hint="GROUP")
    timestamp_ms = timestamp_of(to_timestamp, by_duration)
    if [to_earliest, to_latest, to_offset is not None, timestamp_ms is not None, shift_by is not None].count(True) != 1:
        raise typer.BadParameter(
            "give one of --to-earliest, --to-latest, --to-offset, --to-timestamp, --by-duration, --shift-by"
        )
    target: OffsetSpec | int | None = timestamp_ms
    if to_earliest or to_latest:
        target = OffsetSpec.EARLIEST if to_earliest else OffsetSpec.LATEST
    with connected(connection_of(servers, properties)) as connection:
        admin = connection.admin()
        members = member_count(admin, group)
        if members and execute:
            raise Failure(in_use(group, members))
        committed = {partition: position.offset for partition, position in admin.list_group_offsets(group).items()}
        partitions = chosen_partitions(admin, topics or [], committed, group)
        bounds = bounds_of(admin, partitions)
        wanted = (
            topic_state.offsets_at(admin, partitions, target)
            if target is not None
            else shifted(partitions, committed, to_offset, shift_by)
        )
        moves = [Move(each, committed.get(each), within(wanted[each], bounds[each])) for each in partitions]
        if execute:
            admin.alter_group_offsets(group, {move.partition: move.after for move in moves})
    show(group, moves, execute=execute, as_json=as_json)
    for move in moves:
        if move.after != wanted[move.partition] >= 0:
            warn(f"{move.partition} has no offset {wanted[move.partition]}: {move.after} is the nearest")
    if members and not execute:
        warn(in_use(group, members))


def timestamp_of(to_timestamp: str | None, by_duration: str | None) -> int | None:
    """Both given is left to the check that exactly one target is."""
    now = datetime.now().astimezone()
    try:
        if by_duration is not None and to_timestamp is None:
            return timestamp_ms_of(milliseconds(now) - parse_duration_ms(by_duration))
        if to_timestamp is not None and by_duration is None:
            at = int(to_timestamp[1:]) if to_timestamp.startswith("@") else parse_moment(to_timestamp, now)
            return timestamp_ms_of(at)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--by-duration" if by_duration else "--to-timestamp") from error
    return None


def member_count(admin: Admin, group: str) -> int:
    """0 also for a group that does not exist yet: a reset makes it."""
    try:
        described = admin.describe_group(group)
    except ClientError as error:
        if error.code == "GROUP_ID_NOT_FOUND":
            return 0
        raise
    return len(described.members) if described.state not in OUTSIDER_STATES else 0


def in_use(group: str, members: int) -> str:
    return (
        f"{group} has {counted(members, 'active member')}, which would commit over it: stop its consumers, then run this "
        f"again (`ottla group describe {group}` shows them)"
    )


def chosen_partitions(
    admin: Admin, topics: Sequence[str], committed: Mapping[TopicPartition, int], group: str
) -> list[TopicPartition]:
    if not topics:
        if not committed:
            raise Failure(f"{group} has committed nothing: name what to reset with --topic TOPIC")
        return sorted(committed)
    chosen: set[TopicPartition] = set()
    for text in topics:
        topic, colon, numbers = text.partition(":")
        described = admin.describe_topic(topic)
        all_numbers = {info.partition for info in described.partitions}
        asked = partition_numbers(text, numbers) if colon else all_numbers
        if missing := asked - all_numbers:
            raise Failure(f"{topic} has no partition {min(missing)}: it has 0 to {max(all_numbers)}")
        chosen |= {TopicPartition(topic, partition) for partition in asked}
    return sorted(chosen)


def partition_numbers(text: str, numbers: str) -> set[int]:
    try:
        return {int(number) for number in numbers.split(",")}
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not TOPIC or TOPIC:0,1", param_hint="--topic") from None


def bounds_of(admin: Admin, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, Bounds]:
    starts = topic_state.offsets_at(admin, partitions, OffsetSpec.EARLIEST)
    ends = topic_state.offsets_at(admin, partitions, OffsetSpec.LATEST)
    return {each: Bounds(starts[each], ends[each]) for each in partitions}


def shifted(
    partitions: Sequence[TopicPartition],
    committed: Mapping[TopicPartition, int],
    to_offset: int | None,
    shift_by: int | None,
) -> dict[TopicPartition, int]:
    if to_offset is not None:
        return dict.fromkeys(partitions, to_offset)
    for each in partitions:
        if each not in committed:
            raise Failure(f"{each} has no committed offset to shift: give it one with --to-offset")
    return {each: max(0, committed[each] + (shift_by or 0)) for each in partitions}


def within(offset: int, bounds: Bounds) -> int:
    """An offset that is not there is the nearest that is; -1 says that no record is that young: the end."""
    return bounds.end if offset < 0 else min(max(offset, bounds.start), bounds.end)


def show(group: str, moves: Sequence[Move], *, execute: bool, as_json: bool) -> None:
    if as_json:
        print_json({"group": group, "executed": execute, "offsets": [move_document(move) for move in moves]})
        return
    rows = [
        (
            plain(move.partition.topic),
            number(move.partition.partition),
            number(move.before),
            number(move.after),
            plain(None if move.before is None else f"{move.after - move.before:+,}"),
        )
        for move in moves
    ]
    print_table(table(["topic", ">partition", ">committed", ">new", ">change"], rows))
    if execute:
        done(f"{group}: {counted(len(moves), 'offset')} reset")
    else:
        say("nothing was changed: add --execute to do it")


def move_document(move: Move) -> dict[str, Any]:
    return {
        "topic": move.partition.topic,
        "partition": move.partition.partition,
        "before": move.before,
        "after": move.after,
    }
