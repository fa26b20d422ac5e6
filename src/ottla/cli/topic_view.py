"""Topics as tables and as JSON documents."""

from collections.abc import Iterable, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from ottla.cli.configs import ConfigEntry
from ottla.cli.output import facts, number, plain, print_table, size, table
from ottla.cli.topic_state import PartitionState, TopicState


def summary_document(topic: TopicState) -> dict[str, Any]:
    return {
        "name": topic.name,
        "topic_id": topic.topic_id,
        "internal": topic.is_internal,
        "partitions": len(topic.partitions),
        "replication_factor": topic.replication_factor,
        "records": topic.record_count,
        "size_bytes": topic.size_bytes,
        "state": topic.health,
    }


def topic_document(topic: TopicState) -> dict[str, Any]:
    return summary_document(topic) | {"partitions": [partition_document(each) for each in topic.partitions]}


def partition_document(partition: PartitionState) -> dict[str, Any]:
    return {
        "partition": partition.partition,
        "leader": partition.leader,
        "replicas": list(partition.replicas),
        "isr": list(partition.isr),
        "start_offset": partition.start_offset,
        "end_offset": partition.end_offset,
        "size_bytes": partition.size_bytes,
    }


def topics_table(topics: Iterable[TopicState]) -> Table:
    rows = [
        (
            Text(topic.name, style="bold"),
            number(len(topic.partitions)),
            number(topic.replication_factor),
            number(topic.record_count),
            size(topic.size_bytes),
            health(topic.health),
        )
        for topic in topics
    ]
    return table(["topic", ">partitions", ">replicas", ">records", ">size", "state"], rows)


def show_topic(topic: TopicState, changed: Sequence[ConfigEntry]) -> None:
    print_table(
        facts(
            [
                ("topic", Text(topic.name, style="bold")),
                ("id", plain(topic.topic_id)),
                ("replication factor", number(topic.replication_factor)),
                ("records", number(topic.record_count)),
                ("size", size(topic.size_bytes)),
                ("state", health(topic.health)),
                *[(entry.name, plain(entry.value)) for entry in changed],
            ]
        )
    )
    print_table(partitions_table(topic.partitions))


def partitions_table(partitions: Iterable[PartitionState]) -> Table:
    rows = [
        (
            number(each.partition),
            number(each.leader),
            plain(", ".join(map(str, each.replicas))),
            plain(", ".join(map(str, each.isr))),
            number(each.start_offset),
            number(each.end_offset),
            size(each.size_bytes),
            health(each.health),
        )
        for each in partitions
    ]
    columns = [">partition", ">leader", "replicas", "in sync", ">start offset", ">end offset", ">size", "state"]
    return table(columns, rows)


def health(text: str) -> Text:
    if text == "ok":
        return Text(text, style="green")
    return Text(text, style="bold red" if "offline" in text else "yellow")
