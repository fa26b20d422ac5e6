"""A cluster as tables and as JSON documents."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Group as Stacked
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from ottla.base.types import NodeId, TopicPartition
from ottla.cli.cluster_state import ClusterState, listed, verdict
from ottla.cli.group_view import duration_text
from ottla.cli.output import facts, number, plain, size, table
from ottla.client.cluster_states import BrokerState, LogDirectory, QuorumReplica, QuorumState

Directories = Mapping[NodeId, Sequence[LogDirectory]]


def status_document(state: ClusterState) -> dict[str, Any]:
    is_well, sentence = verdict(state)
    return {
        "cluster_id": state.cluster_id,
        "ok": is_well,
        "verdict": sentence,
        "controller": state.quorum.leader,
        "brokers": [broker.id for broker in state.brokers],
        "fenced_brokers": state.fenced,
        "racks": state.racks,
        "voters": [replica_document(each) for each in state.quorum.voters],
        "observers": [replica_document(each) for each in state.quorum.observers],
        "topics": len(state.topics),
        "partitions": len(state.partitions),
        "reassigning": len(state.reassignments),
        "under_replicated": names(state.under_replicated),
        "below_min_isr": names(state.below_min_in_sync),
        "offline": names(state.offline),
    }


def status_view(state: ClusterState) -> RenderableType:
    is_well, sentence = verdict(state)
    quorum = state.quorum
    return facts(
        [
            ("cluster id", plain(state.cluster_id)),
            ("brokers", plain(brokers_text(state))),
            ("racks", plain(listed(state.racks) or None)),
            ("controller", plain("none, an election is under way" if quorum.leader is None else quorum.leader)),
            ("quorum", plain(quorum_text(quorum))),
            ("topics", number(len(state.topics))),
            ("partitions", number(len(state.partitions))),
            ("moving", number(len(state.reassignments))),
            ("under-replicated", trouble(state.under_replicated, "yellow")),
            ("below min ISR", trouble(state.below_min_in_sync, "bold red")),
            ("offline", trouble(state.offline, "bold red")),
            ("verdict", Text(sentence, style="bold green" if is_well else "bold red")),
        ]
    )


def brokers_text(state: ClusterState) -> str:
    running = [broker.id for broker in state.brokers if not broker.is_fenced]
    down = f"; down: {listed(state.fenced)}" if state.fenced else ""
    return f"{len(running):,} ({listed(running)}){down}"


def quorum_text(quorum: QuorumState) -> str:
    """Who votes, and the one that is furthest behind."""
    voters = f"{len(quorum.voters)} voters" if len(quorum.voters) != 1 else "1 voter"
    observers = f", {len(quorum.observers)} observing" if quorum.observers else ""
    behind = max((voter.lag for voter in quorum.voters), default=0)
    lag = f", largest lag {behind:,}" if behind else ", no lag"
    return f"{voters} ({listed([voter.id for voter in quorum.voters])}){observers}, epoch {quorum.leader_epoch}{lag}"


def trouble(partitions: Sequence[TopicPartition], style: str) -> Text:
    if not partitions:
        return Text("0", style="green")
    return Text(f"{len(partitions):,} ({listed(partitions)})", style=style)


def names(partitions: Iterable[TopicPartition]) -> list[str]:
    return [str(partition) for partition in partitions]


def brokers_view(state: ClusterState, directories: Directories) -> Table:
    rows = [
        (
            plain(broker.id),
            plain(f"{broker.host}:{broker.port}"),
            plain(broker.rack),
            plain(role_text(state.quorum, broker.id)),
            number(leader_count(state, broker.id)),
            number(replica_count(state, broker.id)),
            size(data_bytes(directories.get(broker.id))),
            free_text(directories.get(broker.id)),
            broker_health(broker),
        )
        for broker in state.brokers
    ]
    columns = [">broker", "address", "rack", "quorum", ">leads", ">replicas", ">data", ">free", "state"]
    return table(columns, rows)


def brokers_document(state: ClusterState, directories: Directories) -> list[dict[str, Any]]:
    return [
        {
            "id": broker.id,
            "host": broker.host,
            "port": broker.port,
            "rack": broker.rack,
            "role": role_text(state.quorum, broker.id),
            "fenced": broker.is_fenced,
            "leaders": leader_count(state, broker.id),
            "replicas": replica_count(state, broker.id),
            "data_bytes": data_bytes(directories.get(broker.id)),
            "log_directories": [
                {
                    "path": each.path,
                    "error": each.error,
                    "total_bytes": each.total_bytes,
                    "usable_bytes": each.usable_bytes,
                }
                for each in directories.get(broker.id, ())
            ],
        }
        for broker in state.brokers
    ]


def role_text(quorum: QuorumState, node: NodeId) -> str | None:
    if node == quorum.leader:
        return "controller"
    if any(voter.id == node for voter in quorum.voters):
        return "voter"
    return "observer" if any(observer.id == node for observer in quorum.observers) else None


def leader_count(state: ClusterState, node: NodeId) -> int:
    return sum(info.leader == node for info in state.partitions.values())


def replica_count(state: ClusterState, node: NodeId) -> int:
    return sum(node in info.replicas for info in state.partitions.values())


def data_bytes(directories: Sequence[LogDirectory] | None) -> int | None:
    return None if directories is None else sum(sum(each.sizes.values()) for each in directories)


def free_text(directories: Sequence[LogDirectory] | None) -> Text:
    """Of the fullest directory: it stops the broker first."""
    known = [each for each in directories or () if each.used_share is not None]
    if not known:
        return plain(None)
    fullest = max(known, key=lambda each: each.used_share or 0)
    share = fullest.used_share or 0
    style = "bold red" if share >= 0.95 else "yellow" if share >= 0.8 else ""
    return Text.assemble(size(fullest.usable_bytes), f" ({1 - share:.0%})", style=style)


def broker_health(broker: BrokerState) -> Text:
    return Text("down", style="bold red") if broker.is_fenced else Text("ok", style="green")


def quorum_view(quorum: QuorumState) -> RenderableType:
    rows = [
        (
            plain(each.id),
            plain("leader" if each.id == quorum.leader else role),
            number(each.log_end_offset),
            number(each.lag),
            plain(None if each.caught_up_ms_ago is None else f"{duration_text(each.caught_up_ms_ago / 1000)} ago"),
            plain(each.directory_id),
        )
        for role, replicas in (("voter", quorum.voters), ("observer", quorum.observers))
        for each in replicas
    ]
    return Stacked(
        facts(
            [
                ("leader", plain(quorum.leader)),
                ("epoch", number(quorum.leader_epoch)),
                ("high watermark", number(quorum.high_watermark)),
            ]
        ),
        table([">node", "role", ">end offset", ">lag", "caught up", "directory id"], rows),
    )


def quorum_document(quorum: QuorumState) -> dict[str, Any]:
    return {
        "leader": quorum.leader,
        "leader_epoch": quorum.leader_epoch,
        "high_watermark": quorum.high_watermark,
        "voters": [replica_document(each) for each in quorum.voters],
        "observers": [replica_document(each) for each in quorum.observers],
    }


def replica_document(replica: QuorumReplica) -> dict[str, Any]:
    return {
        "id": replica.id,
        "directory_id": str(replica.directory_id),
        "log_end_offset": replica.log_end_offset,
        "lag": replica.lag,
        "caught_up_ms_ago": replica.caught_up_ms_ago,
    }
