"""Plans as files, throttles, amounts of bytes, and how far a move is."""

import json
from pathlib import Path

import pytest
import typer

from ottla.base.types import TopicPartition
from ottla.cli.byte_sizes import parse_bytes, rate_option
from ottla.cli.errors import Failure
from ottla.cli.moving import STALLED_S, Headway, StalledMoves, headway_of, outcome_of
from ottla.cli.reassignment_file import (
    parse_reassignment,
    read_reassignment,
    reassignment_document,
    write_reassignment,
)
from ottla.cli.throttle import (
    FOLLOWER_REPLICAS,
    LEADER_REPLICAS,
    brokers_copying,
    copying_of,
    copying_under_way,
    throttled_replicas,
)
from ottla.client.cluster_states import LogDirectory, Reassignment
from tests.unit.cli.clusters import partition

P0, P1, P2 = (TopicPartition("t", index) for index in range(3))


def test_a_plan_survives_its_file(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    write_reassignment(file, {P1: (3, 1), P0: (1, 2)})
    assert read_reassignment(file) == {P0: (1, 2), P1: (3, 1)}
    assert json.loads(file.read_text())["partitions"][0] == {
        "topic": "t",
        "partition": 0,
        "replicas": [1, 2],
        "log_dirs": ["any", "any"],
    }


@pytest.mark.parametrize("directories", ["", ',"log_dirs":["/var/lib/kafka"]'])
def test_directories_are_left_to_the_brokers(directories: str) -> None:
    text = f'{{"version":1,"partitions":[{{"topic":"t","partition":0,"replicas":[2]{directories}}}]}}'
    assert parse_reassignment(text) == {P0: (2,)}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"version": 2}, "version"),
        ({"partitions": None}, "no .partitions."),
        ({"partitions": [{"topic": "t", "partition": "0", "replicas": [1]}]}, "no topic and partition"),
        ({"partitions": [{"topic": "t", "partition": 0, "replicas": []}]}, "not a list of broker ids"),
        ({"partitions": [{"topic": "t", "partition": 0, "replicas": [1, 1]}]}, "two replicas on one broker"),
        ({"partitions": [{"topic": "t", "partition": 0, "replicas": [1]}] * 2}, "t-0 is in it twice"),
    ],
)
def test_a_plan_that_kafka_would_refuse_is_refused_in_words(
    change: dict[str, object], words: str, tmp_path: Path
) -> None:
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(reassignment_document({P0: (1,)}) | change))
    with pytest.raises(Failure, match=words):
        read_reassignment(file)


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(Failure, match="No such file"):
        read_reassignment(tmp_path / "plan.json")


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("1048576", 1 << 20),
        ("50MB", 50_000_000),
        ("50 MiB/s", 50 << 20),
        ("1.5g", 3 << 29),
        ("10kB", 10_000),
        ("7b", 7),
    ],
)
def test_amounts_of_bytes_as_people_type_them(text: str, amount: int) -> None:
    assert parse_bytes(text) == amount


def test_what_is_no_rate_is_a_usage_error() -> None:
    for text in ("fast", "", "0", "-5MB", "5XB"):
        with pytest.raises(typer.BadParameter, match="not an amount"):
            rate_option(text)
    assert rate_option(None) is None


def test_sources_and_destinations_are_throttled_and_no_replica_that_stays() -> None:
    copying = {P0: copying_of((1, 2), (1, 3)), P1: copying_of((2,), (2, 3)), P2: copying_of((1, 2), (2, 1))}
    assert throttled_replicas(copying) == {
        "t": {LEADER_REPLICAS: "0:1,0:2,1:2", FOLLOWER_REPLICAS: "0:3,1:3"},
    }
    assert brokers_copying(copying) == {1, 2, 3}
    assert brokers_copying({P2: copying[P2]}) == set()


def test_what_is_under_way_copies_from_the_old_replicas_to_the_new() -> None:
    under_way = Reassignment(replicas=(3, 1, 2), adding=(3,), removing=(2,))
    assert copying_under_way(under_way) == ((1, 2), (3,))
    assert under_way.target == (3, 1)


def directory(**sizes: int) -> LogDirectory:
    return LogDirectory(
        path="/d",
        error=None,
        total_bytes=None,
        usable_bytes=None,
        sizes={TopicPartition("t", int(name[1:])): size_bytes for name, size_bytes in sizes.items()},
    )


def test_what_is_left_is_what_the_new_copies_lack() -> None:
    under_way = {
        P0: Reassignment(replicas=(1, 3), adding=(3,), removing=(1,)),
        P1: Reassignment(replicas=(1, 2, 3), adding=(2, 3), removing=()),
    }
    directories = {1: [directory(p0=100, p1=50)], 2: [directory(p1=10)], 3: [directory(p0=30)]}
    assert headway_of(under_way, directories) == Headway(partitions_left=2, bytes_left=70 + 40 + 50)


def test_a_plan_is_there_on_its_way_or_neither() -> None:
    target = {P0: (1, 2), P1: (3, 1), P2: (2, 3), TopicPartition("gone", 0): (1,)}
    partitions = {P0: partition(0, [1, 2]), P1: partition(1, [3, 1, 2]), P2: partition(2, [1])}
    under_way = {P1: Reassignment(replicas=(3, 1, 2), adding=(3,), removing=(2,))}
    outcome = outcome_of(target, partitions, under_way)
    assert (outcome.arrived, outcome.moving) == ((P0,), (P1,))
    assert outcome.elsewhere == {P2: (1,), TopicPartition("gone", 0): None}
    assert not outcome.is_complete
    assert outcome_of({P0: (1, 2)}, partitions, under_way).is_complete


def test_a_move_to_a_broker_that_stays_down_is_told_with_the_way_out_once_a_minute() -> None:
    under_way = {
        P0: Reassignment(replicas=(1, 3), adding=(3,), removing=(1,)),
        P1: Reassignment(replicas=(1, 2), adding=(2,), removing=(1,)),
    }
    stalled = StalledMoves()
    assert stalled.told_at(0.0, under_way, running={1, 2}) is None
    text = stalled.told_at(STALLED_S, under_way, running={1, 2})
    assert text is not None
    for part in ("broker 3 is down", "t-0", "ottla cluster decommission 3", "ottla cluster reassign cancel --all"):
        assert part in text
    assert "t-1" not in text
    assert stalled.told_at(STALLED_S + 1, under_way, running={1, 2}) is None
    assert stalled.told_at(2 * STALLED_S, under_way, running={1, 2}) == text


def test_a_broker_that_is_restarted_meanwhile_is_waited_for_in_silence() -> None:
    under_way = {P0: Reassignment(replicas=(1, 3), adding=(3,), removing=(1,))}
    stalled = StalledMoves()
    assert stalled.told_at(0.0, under_way, running={1}) is None
    assert stalled.told_at(STALLED_S - 1, under_way, running={1, 3}) is None
    assert stalled.told_at(STALLED_S, under_way, running={1}) is None
