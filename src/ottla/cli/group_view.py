"""Groups as tables and as JSON documents."""

from collections.abc import Iterable
from typing import Any

from rich.console import Group as Stacked
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ottla.cli.group_state import GroupState, PartitionLag
from ottla.cli.output import counted, facts, number, plain, table
from ottla.client.groups import GroupDescription, GroupListing, GroupMember

STATE_STYLES = {"Stable": "green", "Empty": "dim", "Dead": "red"}


def listing_document(listing: GroupListing, described: GroupDescription | None) -> dict[str, Any]:
    return {
        "group": listing.group,
        "state": listing.state,
        "type": listing.type,
        "members": None if described is None else len(described.members),
        "simple": listing.is_simple,
    }


def groups_table(listings: Iterable[GroupListing], described: dict[str, GroupDescription]) -> Table:
    rows = [
        (
            Text(listing.group, style="bold"),
            state_text(listing.state),
            number(len(described[listing.group].members)) if listing.group in described else plain("?"),
            plain(listing.type),
        )
        for listing in listings
    ]
    return table(["group", "state", ">members", "protocol"], rows)


def state_text(state: str) -> Text:
    return Text(state, style=STATE_STYLES.get(state, "yellow"))


def group_document(state: GroupState) -> dict[str, Any]:
    described = state.description
    return {
        "group": described.group,
        "state": described.state,
        "type": described.type,
        "assignor": described.assignor,
        "coordinator": described.coordinator,
        "lag": state.lag,
        "lag_seconds": rounded(state.lag_s),
        "members": [member_document(member) for member in described.members],
        "partitions": [partition_document(each) for each in state.partitions],
    }


def member_document(member: GroupMember) -> dict[str, Any]:
    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "client_id": member.client_id,
        "host": member.host,
        "partitions": [{"topic": topic, "partition": partition} for topic, partition in member.partitions],
    }


def partition_document(lag: PartitionLag) -> dict[str, Any]:
    return {
        "topic": lag.partition.topic,
        "partition": lag.partition.partition,
        "committed": lag.committed,
        "end_offset": lag.end,
        "lag": lag.lag,
        "lag_seconds": rounded(lag.lag_s),
        "member_id": None if lag.member is None else lag.member.member_id,
    }


def rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)


def group_view(state: GroupState) -> RenderableType:
    described = state.description
    told = facts(
        [
            ("group", Text(described.group, style="bold")),
            ("state", state_text(described.state)),
            ("protocol", plain(described.type)),
            ("assignor", plain(described.assignor or None)),
            ("coordinator", plain(described.coordinator)),
            ("members", number(len(described.members))),
            ("lag", plain(lag_text(state))),
        ]
    )
    parts: list[RenderableType] = [told]
    if described.members:
        parts.append(members_table(described.members))
    if state.partitions:
        parts.append(partitions_table(state.partitions))
    return Stacked(*parts)


def lag_text(state: GroupState) -> str:
    seconds = "" if state.lag_s is None else f", {duration_text(state.lag_s)}"
    unknown = f"; unknown in {counted(state.unknown_count, 'partition')}" if state.unknown_count else ""
    return f"{counted(state.lag, 'record')}{seconds}{unknown}"


def members_table(members: Iterable[GroupMember]) -> Table:
    rows = [
        (
            plain(member.client_id),
            plain(member.instance_id),
            plain(member.host.removeprefix("/")),
            number(len(member.partitions)),
            plain(member.member_id),
        )
        for member in sorted(members, key=lambda member: member.member_id)
    ]
    return table(["client", "instance", "host", ">partitions", "member"], rows)


def partitions_table(partitions: Iterable[PartitionLag]) -> Table:
    rows = [
        (
            plain(each.partition.topic),
            number(each.partition.partition),
            number(each.committed),
            number(each.end),
            number(each.lag),
            plain(None if each.lag_s is None else duration_text(each.lag_s)),
            plain(None if each.member is None else each.member.instance_id or each.member.client_id),
        )
        for each in partitions
    ]
    return table(["topic", ">partition", ">committed", ">end", ">lag", ">behind", "client"], rows)


def duration_text(seconds: float) -> str:
    """Two units at most: 0 s, 4.2 s, 3 m 20 s, 5 h 1 m, 2 d 3 h."""
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds else "0 s"
    whole = round(seconds)
    units = (("d", whole // 86_400), ("h", whole // 3_600 % 24), ("m", whole // 60 % 60), ("s", whole % 60))
    first = next(index for index, (_, amount) in enumerate(units) if amount)
    return " ".join(f"{amount} {name}" for name, amount in units[first : first + 2] if amount)
