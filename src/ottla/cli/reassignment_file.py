"""Plans as files, in the format of Kafka's kafka-reassign-partitions, so that either tool reads what the other wrote.

Kafka's may name log directories, as the state before a move that it prints does. Which directory a broker puts a replica
into is left to the broker here.
"""

import json
from pathlib import Path
from typing import Any

from ottla.base.types import TopicPartition
from ottla.cli.balancing.model import Assignment, Replicas
from ottla.cli.errors import Failure

VERSION = 1
ANY_DIRECTORY = "any"


def reassignment_document(assignment: Assignment) -> dict[str, Any]:
    return {
        "version": VERSION,
        "partitions": [
            {
                "topic": where.topic,
                "partition": where.partition,
                "replicas": list(replicas),
                "log_dirs": [ANY_DIRECTORY] * len(replicas),
            }
            for where, replicas in sorted(assignment.items())
        ],
    }


def write_reassignment(path: Path, assignment: Assignment) -> None:
    path.write_text(json.dumps(reassignment_document(assignment), indent=2) + "\n")


def read_reassignment(path: Path) -> dict[TopicPartition, Replicas]:
    try:
        return parse_reassignment(path.read_text())
    except OSError as error:
        raise Failure(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise Failure(f"{path} is no plan in the format of kafka-reassign-partitions: {error}") from error


def parse_reassignment(text: str) -> dict[TopicPartition, Replicas]:
    """ValueError, in words, for anything that Kafka would refuse."""
    document = json.loads(text)
    if not isinstance(document, dict) or document.get("version") != VERSION:
        raise ValueError(f'it has no "version": {VERSION}')
    partitions = document.get("partitions")
    if not isinstance(partitions, list):
        raise ValueError('it has no "partitions"')
    parsed: dict[TopicPartition, Replicas] = {}
    for entry in partitions:
        where, replicas = _parse_partition(entry)
        if where in parsed:
            raise ValueError(f"{where} is in it twice")
        parsed[where] = replicas
    return parsed


def _parse_partition(entry: Any) -> tuple[TopicPartition, Replicas]:
    if not isinstance(entry, dict):
        raise ValueError(f"{entry!r} is not a partition")
    topic, partition, replicas = (entry.get(name) for name in ("topic", "partition", "replicas"))
    if not isinstance(topic, str) or type(partition) is not int:
        raise ValueError(f"{entry!r} names no topic and partition")
    where = TopicPartition(topic, partition)
    if not isinstance(replicas, list) or not replicas or not all(type(each) is int for each in replicas):
        raise ValueError(f"the replicas of {where} are not a list of broker ids")
    if len(set(replicas)) < len(replicas):
        raise ValueError(f"{where} would have two replicas on one broker")
    return where, tuple(replicas)
