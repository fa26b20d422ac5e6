"""Which clients the suite runs, how each is started, and what each can do.

An ability that a client lacks is a fact about the client, and docs/CONFORMANCE.md says so. Tests ask for clients by
ability with `clients_that`: what a client cannot do is never collected for it, so no test is ever skipped.
"""

import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path
from typing import Final

import pytest

from tests.conformance.client import Client

ROOT: Final = Path(__file__).resolve().parents[2]
TOOLS: Final = ROOT / ".tools"
CONFORMANCE: Final = ROOT / "tests" / "conformance"


class Can(Enum):
    WRITE = auto()
    READ = auto()  # of an assigned partition: groups are JOIN_GROUPS
    STAY_OPEN = auto()  # a producer or consumer that outlives one call
    OUTLAST_DISCONNECTION = auto()  # from its only broker: kcat ends
    PIPELINE = auto()  # several produce requests in flight to one broker
    ADMINISTER = auto()  # topics, partitions, configs read and replaced, delete records
    DESCRIBE = auto()  # topics, cluster
    LIST_OFFSETS = auto()
    FIND_MAX_TIMESTAMP = auto()
    CHANGE_CONFIGS = auto()  # IncrementalAlterConfigs
    REPLACE_CONFIGS = auto()  # AlterConfigs
    DESCRIBE_LOG_DIRS = auto()
    SHOW_TOPIC_ID = auto()
    SHOW_TIMESTAMP_TYPE = auto()
    SET_TIMESTAMP = auto()
    ASK_FOR_MISSING_TOPIC = auto()  # a metadata request that creates
    WRITE_NULL_RECORD = auto()  # neither key nor value
    WRITE_EMPTY_VALUE = auto()  # without a key
    WRITE_NULL_HEADER = auto()
    HANDLE_BINARY_HEADER = auto()
    JOIN_GROUPS = auto()  # subscribe, rebalance, commit by itself
    COMMIT = auto()  # offsets that the test names, with metadata; read them back
    COMMIT_POSITIONS = auto()  # where the consumer stands, without naming offsets; asynchronously too
    COMMIT_ALONE = auto()  # assigned partitions only, no membership
    COMMIT_EPOCH = auto()
    REBALANCE_COOPERATIVELY = auto()
    CHOOSE_ASSIGNOR = auto()
    BE_STATIC = auto()  # group.instance.id
    NOTICE_FENCING = auto()
    SHOW_GENERATION = auto()
    STOP_POLLING = auto()  # and be put out for it
    DESCRIBE_GROUPS = auto()
    LIST_GROUP_STATES = auto()
    DELETE_GROUPS = auto()
    ALTER_OFFSETS = auto()
    DELETE_OFFSETS = auto()
    TRANSACT = auto()
    OUTLAST_COORDINATOR = auto()  # a transaction goes on when its coordinator went and came back
    SEND_GROUP_METADATA = auto()  # with offsets in a transaction (KIP-447): otherwise the group's name alone
    RUN_TOOLS = auto()


EVERYTHING: Final = frozenset(Can) - {Can.RUN_TOOLS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    command: tuple[str, ...]  # with {bootstrap} where the address goes
    abilities: frozenset[Can]
    environment: Mapping[str, str] = field(default_factory=dict)


def _python(module: str, *arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-m", f"tests.conformance.drivers.{module}", "{bootstrap}", *arguments)


def _java(driver: str) -> tuple[str, ...]:
    configuration = f"-Dlog4j2.configurationFile={CONFORMANCE / 'java' / 'log4j2.properties'}"
    # The first tier alone: these are short runs, where the optimising compiler only takes a core away.
    frugal = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", configuration)
    classes = f"{TOOLS / 'conformance-java'}{os.pathsep}{TOOLS / 'kafka-libs' / '*'}"
    return ("java", *frugal, "-cp", classes, driver, "{bootstrap}")


def _installed(program: str) -> str:
    """A program that tools/conformance_clients.py put under .tools/bin, or else the machine's own."""
    ours = TOOLS / "bin" / program
    return str(ours) if ours.exists() else shutil.which(program) or program


CLIENTS: Final[Mapping[str, Entry]] = {
    "confluent-kafka": Entry(
        command=_python("confluent"), abilities=EVERYTHING - {Can.DESCRIBE_LOG_DIRS, Can.DELETE_OFFSETS}
    ),
    "kafka-python": Entry(
        command=_python("kafka_python"), abilities=EVERYTHING - {Can.WRITE_NULL_RECORD, Can.WRITE_NULL_HEADER}
    ),
    "aiokafka": Entry(
        command=_python("aiokafka_client"),
        abilities=EVERYTHING
        - {Can.PIPELINE, Can.FIND_MAX_TIMESTAMP, Can.CHANGE_CONFIGS, Can.DESCRIBE_LOG_DIRS}
        - {Can.SHOW_TOPIC_ID, Can.ASK_FOR_MISSING_TOPIC, Can.WRITE_NULL_RECORD, Can.COMMIT_EPOCH}
        - {Can.REBALANCE_COOPERATIVELY, Can.LIST_GROUP_STATES, Can.DELETE_GROUPS, Can.ALTER_OFFSETS}
        - {Can.DELETE_OFFSETS, Can.NOTICE_FENCING, Can.SEND_GROUP_METADATA},
    ),
    "kcat": Entry(
        command=_python("kcat", _installed("kcat")),
        abilities=frozenset({Can.WRITE, Can.READ, Can.DESCRIBE, Can.LIST_OFFSETS})
        | {Can.ASK_FOR_MISSING_TOPIC, Can.WRITE_NULL_RECORD, Can.WRITE_NULL_HEADER}
        | {Can.JOIN_GROUPS, Can.REBALANCE_COOPERATIVELY, Can.CHOOSE_ASSIGNOR, Can.BE_STATIC},
    ),
    "kafkajs": Entry(
        command=(_installed("node"), str(CONFORMANCE / "drivers" / "kafkajs.js"), "{bootstrap}"),
        abilities=EVERYTHING
        - {Can.READ, Can.PIPELINE, Can.FIND_MAX_TIMESTAMP, Can.CHANGE_CONFIGS, Can.DESCRIBE_LOG_DIRS}
        - {Can.SHOW_TOPIC_ID, Can.SHOW_TIMESTAMP_TYPE, Can.ASK_FOR_MISSING_TOPIC, Can.WRITE_NULL_HEADER}
        - {Can.COMMIT_POSITIONS, Can.COMMIT_ALONE, Can.COMMIT_EPOCH, Can.REBALANCE_COOPERATIVELY, Can.CHOOSE_ASSIGNOR}
        - {Can.BE_STATIC, Can.NOTICE_FENCING, Can.SHOW_GENERATION, Can.STOP_POLLING, Can.LIST_GROUP_STATES}
        - {Can.DELETE_OFFSETS, Can.SEND_GROUP_METADATA, Can.OUTLAST_COORDINATOR},
        environment={"NODE_PATH": str(TOOLS / "kafkajs" / "node_modules"), "NODE_NO_WARNINGS": "1"},
    ),
    "java": Entry(command=_java("ClientDriver"), abilities=EVERYTHING - {Can.REPLACE_CONFIGS}),
    "kafka-tools": Entry(command=_java("ToolsDriver"), abilities=frozenset({Can.RUN_TOOLS})),
}


def start(name: str, bootstrap: str) -> Client:
    entry = CLIENTS[name]
    command = [part.replace("{bootstrap}", bootstrap) for part in entry.command]
    return Client(name, command, environment={**os.environ, **entry.environment}, directory=ROOT)


def can(client: Client, ability: Can) -> bool:
    return ability in CLIENTS[client.name].abilities


def names_that(*abilities: Can) -> list[str]:
    return [name for name, entry in CLIENTS.items() if entry.abilities.issuperset(abilities)]


def clients_that(*abilities: Can) -> pytest.MarkDecorator:
    """Run the test once with each client that can do all of this, handed over as `client`."""
    return pytest.mark.parametrize("client", names_that(*abilities), indirect=True)
