"""Carrying out an assignment: throttle, set replicas on their way, watch them arrive, elect leaders, unthrottle.

The cluster does the moving and remembers it; this only starts it, watches, and tidies up. So every step may be repeated:
whoever was interrupted calls `carry_out` again with the same assignment, or `finish` once all has arrived.
"""

import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final, Protocol

from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn
from rich.text import Text

from ottla.base.types import NodeId, TopicPartition
from ottla.cli.balancing.model import Assignment, Replicas
from ottla.cli.cluster_model import largest_copies
from ottla.cli.cluster_state import listed
from ottla.cli.output import counted, say, size_text, stderr
from ottla.cli.throttle import Copying, copying_of, copying_under_way, remove_throttles, set_throttles
from ottla.client.admin import Admin
from ottla.client.cluster_states import LogDirectory, Reassignment
from ottla.client.errors import ClientError
from ottla.client.topics import PartitionInfo

POLL_S: Final = 0.5
LINE_INTERVAL_S: Final = 10.0
ELECTION_S_MAX: Final = 10.0
STALLED_S: Final = 60.0  # A broker that is restarted is back by then, as a rule.


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Of each partition of an assignment, whether it is there, on its way, or neither."""

    arrived: tuple[TopicPartition, ...]
    moving: tuple[TopicPartition, ...]
    elsewhere: Mapping[TopicPartition, Replicas | None]

    @property
    def is_complete(self) -> bool:
        return not self.moving and not self.elsewhere


@dataclass(frozen=True, slots=True, kw_only=True)
class Headway:
    partitions_left: int
    bytes_left: int


class Watcher(Protocol):
    def observe(self, headway: Headway) -> None: ...

    def tell(self, text: str) -> None: ...


def carry_out(admin: Admin, assignment: Assignment, *, throttle_bytes: int | None, wait: bool) -> None:
    """With `wait`, returns when every replica is in sync and leads where it should, and the throttles are gone."""
    partitions, under_way = admin.list_partitions(), admin.list_reassignments()
    changes = {
        where: replicas
        for where, replicas in assignment.items()
        if where not in partitions or not is_there(where, replicas, partitions, under_way)
    }
    if throttle_bytes is not None:
        copying = {where: copying_under_way(each) for where, each in under_way.items()}
        copying |= {
            where: copying_of(partitions[where].replicas, replicas)
            for where, replicas in changes.items()
            if where in partitions
        }
        set_throttles(admin, copying, throttle_bytes)
    if changes:
        try:
            admin.alter_reassignments(changes)
        except ClientError:
            if throttle_bytes is not None and not admin.list_reassignments():
                remove_throttles(admin)  # Of a plan that was refused; nobody would think of them later.
            raise
    if wait:
        wait_moved(admin, assignment)
        finish(admin, assignment)


def is_there(
    where: TopicPartition,
    replicas: Replicas,
    partitions: Mapping[TopicPartition, PartitionInfo],
    under_way: Mapping[TopicPartition, Reassignment],
) -> bool:
    """Or on its way there."""
    if where in under_way:
        return under_way[where].target == replicas
    return partitions[where].replicas == replicas


def outcome_of(
    assignment: Assignment,
    partitions: Mapping[TopicPartition, PartitionInfo],
    under_way: Mapping[TopicPartition, Reassignment],
) -> Outcome:
    arrived, moving, elsewhere = [], [], {}
    for where, replicas in sorted(assignment.items()):
        if where in under_way and under_way[where].target == replicas:
            moving.append(where)
        elif where in partitions and where not in under_way and partitions[where].replicas == replicas:
            arrived.append(where)
        else:
            elsewhere[where] = partitions[where].replicas if where in partitions else None
    return Outcome(arrived=tuple(arrived), moving=tuple(moving), elsewhere=elsewhere)


def wait_moved(admin: Admin, assignment: Assignment) -> None:
    stalled = StalledMoves()
    with watching(admin, assignment) as watcher:
        while under_way := moving_of(admin, assignment):
            watcher.observe(headway_of(under_way, admin.describe_log_directories()))
            running = {broker.id for broker in admin.describe_members().brokers if not broker.is_fenced}
            if text := stalled.told_at(time.monotonic(), under_way, running):
                watcher.tell(text)
            time.sleep(POLL_S)
        watcher.observe(Headway(partitions_left=0, bytes_left=0))


def moving_of(admin: Admin, assignment: Assignment) -> dict[TopicPartition, Reassignment]:
    return {where: each for where, each in admin.list_reassignments().items() if where in assignment}


def headway_of(
    under_way: Mapping[TopicPartition, Reassignment], directories: Mapping[NodeId, list[LogDirectory]]
) -> Headway:
    """What is left: of each new replica, how much its copy is shorter than the largest."""
    wholes = largest_copies(directories)
    bytes_left = 0
    for where, each in under_way.items():
        for node in each.adding:
            copied = sum(directory.sizes.get(where, 0) for directory in directories.get(node, ()))
            bytes_left += max(0, wholes.get(where, 0) - copied)
    return Headway(partitions_left=len(under_way), bytes_left=bytes_left)


class StalledMoves:
    """Tells, once in a while, of moves that wait for brokers which have been down for long: nothing else would."""

    def __init__(self) -> None:
        self._down_since: dict[NodeId, float] = {}
        self._told_at = -STALLED_S

    def told_at(
        self, now_s: float, under_way: Mapping[TopicPartition, Reassignment], running: Collection[NodeId]
    ) -> str | None:
        waited_for = moves_to_brokers_down(under_way, running)
        self._down_since = {node: self._down_since.get(node, now_s) for node in waited_for}
        stalled = [node for node, since_s in self._down_since.items() if now_s - since_s >= STALLED_S]
        if not stalled or now_s - self._told_at < STALLED_S:
            return None
        self._told_at = now_s
        return "\n".join(
            f"broker {node} is down, and {listed(waited_for[node])} cannot be moved to it: start it; if it is gone for "
            f"good, `ottla cluster decommission {node}` gives these moves up and lets it go "
            "(`ottla cluster reassign cancel --all` gives up all moves)"
            for node in stalled
        )


def moves_to_brokers_down(
    under_way: Mapping[TopicPartition, Reassignment], running: Collection[NodeId]
) -> dict[NodeId, list[TopicPartition]]:
    """By the broker that they wait for."""
    down = sorted({node for each in under_way.values() for node in each.adding if node not in running})
    return {node: sorted(where for where, each in under_way.items() if node in each.adding) for node in down}


def finish(admin: Admin, assignment: Assignment) -> list[str]:
    """Preferred leaders take over, and throttles go unless something else is on the move; the topics that had them."""
    deadline = time.monotonic() + ELECTION_S_MAX
    while time.monotonic() < deadline:
        partitions = admin.list_partitions()
        misled = [
            where
            for where, replicas in assignment.items()
            if (info := partitions.get(where)) is not None
            and info.leader != replicas[0]
            and replicas[0] in info.in_sync_replicas
        ]
        if not misled:
            break
        with suppress(ClientError):  # A broker that has just gone, say: the next look tells.
            admin.elect_leaders(misled)
        time.sleep(POLL_S)
    return [] if admin.list_reassignments() else remove_throttles(admin)


@contextmanager
def watching(admin: Admin, assignment: Assignment) -> Iterator[Watcher]:
    """A bar with bytes left and time left on a terminal; a line now and then elsewhere."""
    start = headway_of(moving_of(admin, assignment), admin.describe_log_directories())
    console = stderr()
    try:
        if not console.is_terminal:
            yield Lines()
            return
        columns = (
            TextColumn("copying, {task.description} left"),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=console, transient=True) as bar:
            yield Bar(bar, start)
    except KeyboardInterrupt:
        say("it goes on by itself: `ottla cluster reassign list` shows it, the same command again takes it up")
        raise


class Bar:
    def __init__(self, bar: Progress, start: Headway) -> None:
        self._bar = bar
        self._total_bytes = start.bytes_left
        self._task = bar.add_task(counted(start.partitions_left, "partition"), total=max(1, self._total_bytes))

    def observe(self, headway: Headway) -> None:
        self._total_bytes = max(self._total_bytes, headway.bytes_left)  # Producers write on meanwhile.
        self._bar.update(
            self._task,
            description=counted(headway.partitions_left, "partition"),
            total=max(1, self._total_bytes),
            completed=self._total_bytes - headway.bytes_left,
        )

    def tell(self, text: str) -> None:
        self._bar.console.print(Text(text), soft_wrap=True)


class Lines:
    def __init__(self) -> None:
        self._told_at = time.monotonic() - LINE_INTERVAL_S

    def observe(self, headway: Headway) -> None:
        if headway.partitions_left and time.monotonic() - self._told_at >= LINE_INTERVAL_S:
            self._told_at = time.monotonic()
            say(f"{counted(headway.partitions_left, 'partition')} and {size_text(headway.bytes_left)} left to copy")

    def tell(self, text: str) -> None:
        say(text)


def copying_now(admin: Admin) -> dict[TopicPartition, Copying]:
    return {where: copying_under_way(each) for where, each in admin.list_reassignments().items()}
