"""From evidence to findings: what is wrong, how one can tell, and what to type. Pure; each rule is a function.

The three incidents that wake people up come first (a full disk, a hot partition, a stuck group), then what makes the next
one worse: partitions without enough replicas, brokers that are down, a quorum that cannot lose anybody, addresses that
clients cannot reach, moves that wait for a dead broker, throttles that somebody forgot.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from ottla.base.types import NodeId, TopicPartition
from ottla.cli.cluster_state import listed
from ottla.cli.evidence import Evidence, HotPartition, Stall, StalledGroup
from ottla.cli.group_view import duration_text
from ottla.cli.moving import moves_to_brokers_down
from ottla.cli.output import counted, size_text
from ottla.client.cluster_states import LogDirectory

DISK_WARNING: Final = 0.8
DISK_CRITICAL: Final = 0.95
LOCAL_HOSTS: Final = frozenset({"localhost", "127.0.0.1", "::1"})
NOWHERE: Final = frozenset({"0.0.0.0", "::"})
REBALANCING: Final = frozenset({"PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"})


class Severity(StrEnum):
    CRITICAL = "critical"
    WARNING = "warning"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    kind: str
    severity: Severity
    what: str
    evidence: tuple[str, ...]
    fix: tuple[str, ...]


def diagnose(evidence: Evidence, *, stuck_after_s: float) -> list[Finding]:
    """The worst first."""
    found = [
        *disk_findings(evidence),
        *hot_findings(evidence),
        *stuck_findings(evidence, stuck_after_s),
        *partition_findings(evidence),
        *broker_findings(evidence),
        *quorum_findings(evidence),
        *listener_findings(evidence),
        *move_findings(evidence),
        *throttle_findings(evidence),
    ]
    return sorted(found, key=lambda finding: finding.severity is not Severity.CRITICAL)


def disk_findings(evidence: Evidence) -> Iterator[Finding]:
    for node, directories in evidence.directories.items():
        for directory in directories:
            share = directory.used_share
            if directory.error is None and (share is None or share < DISK_WARNING):
                continue
            is_critical = directory.error is not None or (share or 0) >= DISK_CRITICAL
            topics = largest_topics(directory)
            largest = topics[0][0] if topics else "TOPIC"
            yield Finding(
                kind="disk-full",
                severity=Severity.CRITICAL if is_critical else Severity.WARNING,
                what=f"a disk of broker {node} is {'gone or full' if directory.error else f'{share:.0%} full'}",
                evidence=(
                    disk_text(directory),
                    *([filling_text(directory, evidence.growth.get(node, 0.0))] if directory.usable_bytes else []),
                    "largest topics there: "
                    + (", ".join(f"{topic} {size_text(size_bytes)}" for topic, size_bytes in topics) or "none"),
                ),
                fix=(
                    "keep less for a while; it is deleted within minutes, and writes heal by themselves: "
                    f"`ottla topic config {largest} --set retention.ms=3600000`",
                    "delete topics that nobody needs: `ottla topic list`, `ottla topic delete TOPIC`",
                    "move data to other brokers: `ottla cluster rebalance --execute`, or add one: `ottla cluster add`",
                    f"let an alert ring at {DISK_WARNING:.0%} next time",
                ),
            )


def disk_text(directory: LogDirectory) -> str:
    if directory.total_bytes is None or directory.usable_bytes is None:
        return f"{directory.path}: {directory.error}"
    room = f"{size_text(directory.usable_bytes)} of {size_text(directory.total_bytes)} left"
    return f"{directory.path}: {room}" + (f", {directory.error}" if directory.error else "")


def filling_text(directory: LogDirectory, bytes_per_second: float) -> str:
    if not bytes_per_second or directory.usable_bytes is None:
        return "nothing was written during the look"
    left = duration_text(directory.usable_bytes / bytes_per_second)
    return f"filling by {size_text(bytes_per_second)}/s: full in {left}"


def largest_topics(directory: LogDirectory, count: int = 3) -> list[tuple[str, int]]:
    sizes: dict[str, int] = {}
    for where, size_bytes in directory.sizes.items():
        sizes[where.topic] = sizes.get(where.topic, 0) + size_bytes
    return sorted(sizes.items(), key=lambda item: -item[1])[:count]


def hot_findings(evidence: Evidence) -> Iterator[Finding]:
    for hot in evidence.hot:
        leader = evidence.state.partitions[hot.partition].leader if hot.partition in evidence.state.partitions else None
        yield Finding(
            kind="hot-partition",
            severity=Severity.CRITICAL,
            what=f"{hot.partition} is a hot partition: {hot_text(hot)} of the other partitions of {hot.partition.topic}",
            evidence=(
                f"{size_text(hot.bytes_per_second)}/s written to it, {size_text(hot.others_bytes_per_second)}/s to the "
                f"others on average, over {evidence.seconds:.0f} s",
                f"led by broker {leader}",
                key_text(hot),
            ),
            fix=(
                "spread the keys: a constant or a dominant key sends everything to one partition (docs/CLIENT.md: "
                "Salting, FallThrough)",
                f"until then, a broker of its own for its leader: "
                f"`ottla cluster rebalance --isolate-leader {hot.partition} --execute`",
                f"more partitions help only if keys differ: `ottla topic alter {hot.partition.topic} --partitions N`",
            ),
        )


def hot_text(hot: HotPartition) -> str:
    if hot.others_bytes_per_second < 1:
        return "it takes all, nothing goes to any"
    return f"{hot.bytes_per_second / hot.others_bytes_per_second:,.0f} times the traffic"


def key_text(hot: HotPartition) -> str:
    if hot.key is None or hot.key_share is None:
        return "its last records have no key: the producer chooses this partition itself"
    return f"key {hot.key!r} is in {hot.key_share:.0%} of its last records"


def stuck_findings(evidence: Evidence, stuck_after_s: float) -> Iterator[Finding]:
    for group in evidence.stalled:
        stuck = [stall for stall in group.stalls if is_stuck(stall, stuck_after_s)]
        if stuck:
            yield stuck_finding(group, stuck, evidence.seconds)


def is_stuck(stall: Stall, stuck_after_s: float) -> bool:
    """Records wait, and have waited long; where their age is not known, more keep coming."""
    return stall.end_grew if stall.waited_s is None else stall.waited_s >= stuck_after_s


def stuck_finding(group: StalledGroup, stuck: list[Stall], seconds: float) -> Finding:
    name, members = group.description.group, group.description.members
    worst = max(stuck, key=lambda stall: (stall.waited_s or 0, stall.lag))
    waited = max((stall.waited_s for stall in stuck if stall.waited_s is not None), default=None)
    growing = [stall.partition for stall in stuck if stall.end_grew]
    return Finding(
        kind="stuck-group",
        severity=Severity.CRITICAL if members else Severity.WARNING,
        what=f"group {name} is stuck: {sum(stall.lag for stall in stuck):,} records unread in "
        f"{counted(len(stuck), 'partition')}, and nothing committed",
        evidence=(
            f"committed offsets stood still for {seconds:.0f} s: "
            + listed([f"{stall.partition} at {stall.committed:,} of {stall.end:,}" for stall in stuck], 3),
            *([f"the first unread record has waited for {duration_text(waited)}"] if waited is not None else []),
            *([f"producers write on: {listed(growing, 3)}"] if growing else []),
            f"state {group.description.state}, {counted(len(members), 'member')}"
            + (
                f"; {worst.partition} is held by {worst.member.client_id} at {worst.member.host}"
                if worst.member
                else ""
            ),
        ),
        fix=stuck_fix(group, worst),
    )


def stuck_fix(group: StalledGroup, worst: Stall) -> tuple[str, ...]:
    name = group.description.group
    if not group.description.members:
        return (
            "nobody reads: start its consumers again",
            f"if nobody will, forget it: `ottla group delete {name}`",
        )
    if group.description.state in REBALANCING:
        return (
            "a rebalance does not end: a member does not come back from processing; look for the one that is silent",
            "raise max.poll.interval.ms above the longest processing time, or take fewer records (max.poll.records)",
        )
    skip = (
        f"`ottla group reset {name} --topic {worst.partition.topic}:{worst.partition.partition} --shift-by 1 --execute`"
    )
    return (
        "is processing slower than max.poll.interval.ms? raise it, or lower max.poll.records; then restart that consumer",
        f"is the record at {worst.partition} offset {worst.committed:,} poison? `ottla consume {worst.partition.topic} "
        f"--partition {worst.partition.partition} --from {worst.committed} --count 1` shows it; stop the group, then {skip} "
        "skips it",
    )


def offline_finding(evidence: Evidence, offline: Sequence[TopicPartition], down: str) -> Finding:
    """Who was in sync when it went down has everything: that is whom to start, unless its disk was replaced."""
    last = sorted({node for where in offline for node in evidence.last_in_sync.get(where, ())})
    holders = (f"in sync when they went down: {listed(last)}",) if last else ()
    replaced = nodes_with_partitions(evidence.replaced_disks)
    return Finding(
        kind="offline-partitions",
        severity=Severity.CRITICAL,
        what=f"{counted(len(offline), 'partition')} offline: neither read nor written",
        evidence=(
            listed(offline),
            down,
            *holders,
            *(
                f"broker {node} runs, but its disk was replaced: its copies of {listed(partitions)} are gone"
                for node, partitions in replaced.items()
            ),
        ),
        fix=offline_fix(evidence, offline, last, list(replaced)),
    )


def offline_fix(
    evidence: Evidence, offline: Sequence[TopicPartition], last: Sequence[NodeId], replaced: Sequence[NodeId]
) -> tuple[str, ...]:
    startable = [node for node in last if node not in replaced]
    ways = []
    if any(where not in evidence.replaced_disks for where in offline) or startable:
        named = f" ({listed(startable)})" if startable else ": `ottla topic describe TOPIC` names them"
        ways.append(f"start the brokers that have the in-sync replicas{named}")
    if replaced:
        named = ", ".join(f"broker {node}" for node in replaced)
        ways.append(f"if the old disk is still there, restart {named} with it: it has everything")
    loss = "the last records, or all of them where no older copy is left" if replaced else "their last records"
    ways.append(
        f"only if they are lost for good, and with them {loss}: "
        f"`ottla topic config {offline[0].topic} --set unclean.leader.election.enable=true`"
    )
    return tuple(ways)


def nodes_with_partitions(
    partitions: Mapping[TopicPartition, Sequence[NodeId]],
) -> dict[NodeId, list[TopicPartition]]:
    nodes = sorted({node for each in partitions.values() for node in each})
    return {node: sorted(where for where, each in partitions.items() if node in each) for node in nodes}


def partition_findings(evidence: Evidence) -> Iterator[Finding]:
    state = evidence.state
    offline = state.offline
    refused = [where for where in state.below_min_in_sync if where not in set(offline)]
    behind = [where for where in state.under_replicated if where not in {*offline, *refused}]
    down = f"brokers that are down: {listed(state.fenced)}" if state.fenced else "every broker runs"
    if offline:
        yield offline_finding(evidence, offline, down)
    if refused:
        yield Finding(
            kind="below-min-isr",
            severity=Severity.CRITICAL,
            what=f"{counted(len(refused), 'partition')} below min.insync.replicas: acks=all is refused",
            evidence=(listed(refused), down),
            fix=("start the missing brokers: writes heal by themselves",),
        )
    if behind:
        yield Finding(
            kind="under-replicated",
            severity=Severity.WARNING,
            what=f"{counted(len(behind), 'partition')} under-replicated: the next failure may cost more",
            evidence=(listed(behind), down),
            fix=(
                "start the missing brokers, or move what they held: `ottla cluster decommission ID`",
                "if all run, one is too slow: look at its disk and its log",
            ),
        )


def broker_findings(evidence: Evidence) -> Iterator[Finding]:
    for broker in evidence.state.brokers:
        if broker.is_fenced:
            yield Finding(
                kind="broker-down",
                severity=Severity.WARNING,
                what=f"broker {broker.id} is down",
                evidence=(f"registered at {broker.host}:{broker.port}, and sends no heartbeats",),
                fix=("start it again", f"if it is gone for good: `ottla cluster decommission {broker.id}`"),
            )


def quorum_findings(evidence: Evidence) -> Iterator[Finding]:
    quorum, running = evidence.state.quorum, len(evidence.state.brokers) - len(evidence.state.fenced)
    if len(quorum.voters) < 3 <= running:
        yield Finding(
            kind="small-quorum",
            severity=Severity.WARNING,
            what=f"{counted(len(quorum.voters), 'voter')} among {running} brokers: the loss of one stops all changes",
            evidence=(f"voters: {listed([voter.id for voter in quorum.voters])}",),
            fix=("let others join: restart them with controller.quorum.auto.join.enable=true",),
        )
    for voter in evidence.state.silent_voters:
        since = "never" if voter.caught_up_ms_ago is None else f"{duration_text(voter.caught_up_ms_ago / 1000)} ago"
        yield Finding(
            kind="voter-behind",
            severity=Severity.WARNING,
            what=f"voter {voter.id} does not follow the quorum's leader",
            evidence=(f"{voter.lag:,} records behind, last caught up {since}",),
            fix=(
                "start it again, or look at its network and disk",
                f"if it is gone for good: `ottla cluster decommission {voter.id}`",
            ),
        )


def listener_findings(evidence: Evidence) -> Iterator[Finding]:
    running = [broker for broker in evidence.state.brokers if not broker.is_fenced]
    is_remote = not LOCAL_HOSTS.issuperset(evidence.bootstrap_hosts)
    seen: dict[tuple[str, int], int] = {}
    for broker in running:
        address = f"{broker.host}:{broker.port}"
        fix = ("set advertised.listeners of that broker to an address that its clients can reach, and restart it",)
        trouble = None
        if broker.host in NOWHERE:
            trouble = "which is no address that anybody can connect to"
        elif is_remote and broker.host in LOCAL_HOSTS:
            trouble = (
                f"which clients on other machines take for themselves (you asked at {evidence.bootstrap_hosts[0]})"
            )
        elif (broker.host, broker.port) in seen:
            trouble = f"and so does broker {seen[broker.host, broker.port]}: clients reach the wrong one"
        elif broker.id in evidence.unreachable:
            trouble = (
                f"and there nobody answers this machine: {evidence.unreachable[broker.id]} (groups were not looked at)"
            )
        seen.setdefault((broker.host, broker.port), broker.id)
        if trouble:
            yield Finding(
                kind="advertised-listener",
                severity=Severity.CRITICAL,
                what=f"clients cannot reach broker {broker.id} at the address that it advertises",
                evidence=(f"it advertises {address}, {trouble}",),
                fix=fix,
            )


def move_findings(evidence: Evidence) -> Iterator[Finding]:
    state = evidence.state
    running = {broker.id for broker in state.brokers if not broker.is_fenced}
    waited_for = moves_to_brokers_down(state.reassignments, running)
    if waited_for:
        moves = {where for partitions in waited_for.values() for where in partitions}
        yield Finding(
            kind="stuck-move",
            severity=Severity.WARNING,
            what=f"moves of {counted(len(moves), 'partition')} wait for a broker that is down",
            evidence=tuple(f"to broker {node}: {listed(partitions)}" for node, partitions in waited_for.items()),
            fix=(
                "start it again",
                "if it is gone for good, give these moves up and let it go: "
                + ", ".join(f"`ottla cluster decommission {node}`" for node in waited_for),
                "give up everything that is on the move: `ottla cluster reassign cancel --all`",
            ),
        )


def throttle_findings(evidence: Evidence) -> Iterator[Finding]:
    if evidence.throttled_topics:
        yield Finding(
            kind="forgotten-throttle",
            severity=Severity.WARNING,
            what="replication throttles are set though nothing is on the move: recovery may be slowed down",
            evidence=(f"topics: {listed(evidence.throttled_topics)}",),
            fix=("`ottla cluster reassign throttle none` removes them",),
        )
