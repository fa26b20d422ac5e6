"""The test's end of a group: its members, what each read and was told, and who owned what when.

A member lives in a driver's process and polls there all the time (drivers/members.py); `watch` fetches what is new.
Several members may share a process; one that is to crash needs a process of its own.
"""

import itertools
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from tests.conformance.client import Client, ClientError, decoded
from tests.conformance.waiting import eventually

MEMBER_WAIT_S = 30
TOLD_LAST = 6
_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    topic: str
    partition: int
    offset: int
    value: bytes | None
    at_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    kind: str  # "assigned", "revoked" or "lost"
    partitions: frozenset[int]
    at_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Owned:
    """A partition in a member's hands for a time."""

    partition: int
    member: str
    from_ms: float
    to_ms: float


class Member:
    """A consumer in a group; the settings, in the suite's own words:

    client_id, instance (group.instance.id), assignor ("range", "roundrobin", "cooperative"), session_ms, heartbeat_ms,
    poll_interval_ms, auto_commit, auto_commit_ms, metadata_ms (how old metadata may get), reset, bootstrap.
    """

    def __init__(self, client: Client, group: str, topics: Sequence[str], **settings: Any) -> None:
        self.name = f"member-{next(_numbers)}"
        self.client = client
        self.group = group
        self.records: list[Read] = []
        self.events: list[Told] = []
        self.errors: list[ClientError] = []
        self.owned: frozenset[int] = frozenset()
        self.generation: int | None = None
        self._has_left = False
        client.call("join", member=self.name, group=group, topics=list(topics), **settings)

    def watch(self) -> "Member":
        news = self.client.call("watch", member=self.name)
        self.records += [Read(**{**record, "value": decoded(record["value"])}) for record in news["records"]]
        self.events += [
            Told(kind=event["kind"], partitions=indexes(event["partitions"]), at_ms=event["at_ms"])
            for event in news["events"]
        ]
        self.errors += [ClientError(**error) for error in news["errors"]]
        self.owned = indexes(news["owned"])
        self.generation = news["generation"]
        return self

    def read(self, count: int) -> list[Read]:
        """The first `count` records that it read, once it did."""

        def enough() -> list[Read]:
            assert len(self.watch().records) >= count, self.describe()
            return self.records[:count]

        return eventually(enough, wait_s=MEMBER_WAIT_S)

    def commit(self, topic: str, offsets: dict[int, int], *, metadata: str = "", asynchronous: bool = False) -> None:
        chosen = [
            {"topic": topic, "partition": index, "offset": offset, "metadata": metadata}
            for index, offset in offsets.items()
        ]
        self.client.call("commit", member=self.name, offsets=chosen, asynchronous=asynchronous)

    def commit_positions(self, *, asynchronous: bool = False) -> None:
        self.client.call("commit", member=self.name, offsets=None, asynchronous=asynchronous)

    def hold(self, ms: int) -> None:
        """Stop polling for so long."""
        self.client.call("hold", member=self.name, ms=ms)

    def leave(self) -> None:
        """Once; a member whose process is gone has left already."""
        if not self._has_left and self.client.is_running:
            self.client.call("leave", member=self.name)
        self._has_left = True

    @property
    def revocations(self) -> list[Told]:
        """Those that took something away."""
        return [event for event in self.events if event.kind != "assigned" and event.partitions]

    def describe(self) -> str:
        told = [(event.kind, sorted(event.partitions)) for event in self.events[-TOLD_LAST:]]
        read = f"read {len(self.records)}, last told {told}, failed with {self.errors}"
        return f"{self.client.name} {self.name} in generation {self.generation}: owns {sorted(self.owned)}, {read}"


def indexes(pairs: Iterable[Sequence[Any]]) -> frozenset[int]:
    """Of partitions alone: no test subscribes to two topics."""
    return frozenset(index for _, index in pairs)


def new_group() -> str:
    return f"group-{os.getpid()}-{next(_numbers)}"


def committed(client: Client, group: str, topic: str, partitions: Iterable[int] = (0,)) -> dict[int, int]:
    """Committed offsets by partition; -1 where there is none."""
    found = client.call("committed", group=group, topic=topic, partitions=list(partitions))
    return {one["partition"]: one["offset"] for one in found}


def settled(members: Sequence[Member], *, partitions: int, wait_s: float = MEMBER_WAIT_S) -> dict[str, frozenset[int]]:
    """What each member owns, by its name, once every partition has exactly one owner and the load is even."""

    def owners() -> dict[str, frozenset[int]]:
        for member in members:
            member.watch()
        shares = {member.name: member.owned for member in members}
        assert sorted(itertools.chain(*shares.values())) == list(range(partitions)), described(members)
        sizes = [len(share) for share in shares.values()]
        assert max(sizes) - min(sizes) <= 1, described(members)
        return shares

    return eventually(owners, wait_s=wait_s)


def described(members: Sequence[Member]) -> str:
    return "\n".join(member.describe() for member in members)


def ownerships(members: Iterable[Member], *, crashed_ms: dict[str, float] | None = None) -> list[Owned]:
    """From what members were told: a partition is held from its assignment until it is taken away, or the crash."""
    found: list[Owned] = []
    for member in members:
        since_ms: dict[int, float] = {}
        close = partial(_close, found, member.name, since_ms)
        for event in member.events:
            for partition in sorted(event.partitions):
                if event.kind == "assigned":
                    since_ms.setdefault(partition, event.at_ms)
                else:
                    close(partition, event.at_ms)
        end_ms = (crashed_ms or {}).get(member.name, float("inf"))
        for partition in list(since_ms):
            close(partition, end_ms)
    return found


def _close(found: list[Owned], member: str, since_ms: dict[int, float], partition: int, to_ms: float) -> None:
    if (from_ms := since_ms.pop(partition, None)) is not None:
        found.append(Owned(partition=partition, member=member, from_ms=from_ms, to_ms=to_ms))


def overlaps(held: Iterable[Owned]) -> list[tuple[Owned, Owned]]:
    """Pairs that held one partition at one time: there must be none."""
    by_partition: dict[int, list[Owned]] = defaultdict(list)
    for owned in held:
        by_partition[owned.partition].append(owned)
    return [
        (first, second)
        for owners in by_partition.values()
        for first, second in itertools.pairwise(sorted(owners, key=lambda owned: owned.from_ms))
        if second.from_ms < first.to_ms
    ]


def longest_gap_ms(members: Iterable[Member], partition: int, *, from_ms: float, to_ms: float) -> float:
    """The longest time in which nobody read a partition that is steadily written."""
    times = sorted(
        record.at_ms
        for member in members
        for record in member.records
        if record.partition == partition and from_ms <= record.at_ms <= to_ms
    )
    marks = [from_ms, *times, to_ms]
    return max(later - earlier for earlier, later in itertools.pairwise(marks))


def each_of(members: Sequence[Member], found: Callable[[Member], bool], *, wait_s: float = MEMBER_WAIT_S) -> None:
    """Wait until it is true of every member."""

    def all_true() -> None:
        assert all(found(member.watch()) for member in members), described(members)

    eventually(all_true, wait_s=wait_s)
