"""Kafka's kafka-consumer-groups, and `__consumer_offsets` as Kafka's own tools decode it (scene 32)."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conformance.client import Record
from tests.conformance.groups import Member, committed, new_group
from tests.conformance.kafka_tools import Printed, Tools
from tests.conformance.under_test import Keeper

OFFSETS_PARTITIONS = 50
RECORDS_EACH = 10
Join = Callable[..., Member]


@pytest.fixture
def two_partitions(keeper: Keeper, topic_name: str) -> str:
    keeper.create(topic_name, partitions=2)
    keeper.produce(topic_name, [Record(value=b"v", partition=number % 2) for number in range(2 * RECORDS_EACH)])
    return topic_name


@pytest.fixture
def member(join: Join, keeper: Keeper, two_partitions: str) -> Member:
    """The only one of its group; it read everything and committed 4 and 10."""
    member = join(
        keeper.client,
        new_group(),
        two_partitions,
        reset="earliest",
        auto_commit=False,
        client_id="reader",
        assignor="range",
        instance="static-reader",
        session_ms=6000,
    )
    member.read(2 * RECORDS_EACH)
    member.commit(two_partitions, {0: 4, 1: 10}, metadata="half way")
    return member


@pytest.fixture
def quiet_group(keeper: Keeper, two_partitions: str) -> str:
    """A group without members that committed 4 and 10."""
    group = new_group()
    offsets = [{"topic": two_partitions, "partition": index, "offset": offset} for index, offset in ((0, 4), (1, 10))]
    keeper.client.call("commit_alone", group=group, offsets=offsets)
    return group


def groups(tools: Tools, *arguments: str) -> Printed:
    return tools.ask("ConsumerGroupCommand", *arguments)


def table(printed: Printed) -> list[dict[str, str]]:
    """The rows below the heading, by its words; the tool says "Warn" where there is nothing after a time."""
    lines = [line for line in printed.lines if line.strip() and not line.startswith("Warn")]
    names = re.sub(r"COORDINATOR \(ID\)", "COORDINATOR ID", lines[0]).split()
    return [dict(zip(names, line.split(), strict=True)) for line in lines[1:]]


def test_groups_are_listed_with_their_states(tools: Tools, member: Member, quiet_group: str) -> None:
    assert {member.group, quiet_group} <= set(groups(tools, "--list").lines)
    states = {row["GROUP"]: row["STATE"] for row in table(groups(tools, "--list", "--state"))}
    assert (states[member.group], states[quiet_group]) == ("Stable", "Empty")
    stable = {row["GROUP"] for row in table(groups(tools, "--list", "--state", "stable"))}
    assert member.group in stable and quiet_group not in stable
    types = {row["GROUP"]: row["TYPE"] for row in table(groups(tools, "--list", "--type"))}
    assert (types[member.group], types[quiet_group]) == ("Classic", "Classic")


def test_a_group_is_described_with_its_lag(tools: Tools, member: Member, two_partitions: str) -> None:
    rows = table(groups(tools, "--describe", "--group", member.group))
    shown = [(row["PARTITION"], row["CURRENT-OFFSET"], row["LOG-END-OFFSET"], row["LAG"]) for row in rows]
    assert shown == [("0", "4", "10", "6"), ("1", "10", "10", "0")]
    assert {(row["TOPIC"], row["CLIENT-ID"], row["HOST"]) for row in rows} == {(two_partitions, "reader", "/127.0.0.1")}


def test_members_and_state_are_described(tools: Tools, member: Member, two_partitions: str) -> None:
    [row] = table(groups(tools, "--describe", "--group", member.group, "--members", "--verbose"))
    assert (row["#PARTITIONS"], row["CURRENT-ASSIGNMENT"]) == ("2", f"{two_partitions}:0,1")
    assert (row["CLIENT-ID"], row["GROUP-INSTANCE-ID"]) == ("reader", "static-reader")
    [row] = table(groups(tools, "--describe", "--group", member.group, "--state"))
    assert (row["COORDINATOR"], row["STATE"], row["ASSIGNMENT-STRATEGY"]) == (tools.bootstrap, "Stable", "range")
    assert row["#MEMBERS"] == "1"


def test_a_group_without_members_is_described(tools: Tools, quiet_group: str) -> None:
    printed = groups(tools, "--describe", "--group", quiet_group)
    assert [row["LAG"] for row in table(printed)] == ["6", "0"]
    assert f"Consumer group '{quiet_group}' has no active members." in printed.err
    [row] = table(groups(tools, "--describe", "--group", quiet_group, "--state"))
    assert (row["STATE"], row["#MEMBERS"]) == ("Empty", "0")


@pytest.mark.parametrize(
    ("where", "offsets"),
    [
        (["--to-earliest"], {0: 0, 1: 0}),
        (["--to-latest"], {0: 10, 1: 10}),
        (["--to-current"], {0: 4, 1: 10}),
        (["--to-offset", "3"], {0: 3, 1: 3}),
        (["--to-offset", "99"], {0: 10, 1: 10}),
        (["--shift-by", "-2"], {0: 2, 1: 8}),
        (["--by-duration", "PT1H"], {0: 0, 1: 0}),
        (["--to-datetime", "2020-01-01T00:00:00.000"], {0: 0, 1: 0}),
        (["--to-datetime", "2100-01-01T00:00:00.000"], {0: 10, 1: 10}),
    ],
    ids=lambda value: "-".join(value).strip("-") if isinstance(value, list) else "",
)
def test_offsets_are_reset_after_a_dry_run(
    tools: Tools, keeper: Keeper, quiet_group: str, two_partitions: str, where: list[str], offsets: dict[int, int]
) -> None:
    reset = ("--reset-offsets", "--group", quiet_group, "--topic", two_partitions, *where)
    for how, expected in (("--dry-run", {0: 4, 1: 10}), ("--execute", offsets)):
        rows = table(groups(tools, *reset, how))
        assert {int(row["PARTITION"]): int(row["NEW-OFFSET"]) for row in rows} == offsets
        assert committed(keeper.client, quiet_group, two_partitions, range(2)) == expected


def test_one_partition_is_reset_from_a_file(
    tools: Tools, keeper: Keeper, quiet_group: str, two_partitions: str, tmp_path: Path
) -> None:
    of_group = ("--reset-offsets", "--group", quiet_group)
    exported = groups(
        tools, *of_group, "--topic", f"{two_partitions}:1", "--to-offset", "7", "--export", "--dry-run"
    ).out
    assert exported.strip() == f"{two_partitions},1,7"
    plan = tmp_path / "plan.csv"
    plan.write_text(exported)
    groups(tools, *of_group, "--from-file", str(plan), "--execute")
    assert committed(keeper.client, quiet_group, two_partitions, range(2)) == {0: 4, 1: 7}


def test_a_group_with_members_is_neither_reset_nor_deleted(
    tools: Tools, keeper: Keeper, member: Member, two_partitions: str
) -> None:
    of_group = ("--group", member.group)
    printed = groups(tools, "--reset-offsets", *of_group, "--topic", two_partitions, "--to-earliest", "--execute").out
    assert "is inactive, but the current state is Stable" in printed
    assert "GroupNotEmptyException" in groups(tools, "--delete", *of_group).out
    printed = groups(tools, "--delete-offsets", *of_group, "--topic", two_partitions).out
    assert printed.count("GroupSubscribedToTopicException") == 2
    assert committed(keeper.client, member.group, two_partitions, range(2)) == {0: 4, 1: 10}


def test_offsets_and_groups_are_deleted(tools: Tools, keeper: Keeper, quiet_group: str, two_partitions: str) -> None:
    of_group = ("--group", quiet_group)
    printed = groups(tools, "--delete-offsets", *of_group, "--topic", f"{two_partitions}:1").out
    assert re.search(rf"{two_partitions}\s+1\s+Successful", printed)
    assert committed(keeper.client, quiet_group, two_partitions, range(2)) == {0: 4, 1: -1}
    assert f"('{quiet_group}') was successful." in groups(tools, "--delete", *of_group).out
    assert quiet_group not in groups(tools, "--list").lines
    assert "GroupIdNotFoundException" in groups(tools, "--delete", *of_group).out
    assert "GroupIdNotFoundException" in groups(tools, "--describe", *of_group).out


def test_the_consumer_performance_test_reads_everything(tools: Tools, two_partitions: str) -> None:
    expected = 2 * RECORDS_EACH
    count = ("--num-records", str(expected), "--group", new_group(), "--timeout", "20000")
    [names, figures] = tools.ask("ConsumerPerformance", "--topic", two_partitions, *count).lines
    shown = dict(zip(names.split(", "), figures.split(", "), strict=True))
    assert int(shown["data.consumed.in.nMsg"]) == expected


def test_the_end_to_end_latency_tool_runs(tools: Tools, topic: str) -> None:
    size = ("--num-records", "20", "--record-size", "100", "--producer-acks", "all")
    assert "Avg latency:" in tools.ask("EndToEndLatency", "--topic", topic, *size).out


def offsets_partition(group: str) -> int:
    """The absolute value of Java's hash of the text, over the partitions of `__consumer_offsets`."""
    value = 0
    for character in group:
        value = (31 * value + ord(character)) & 0xFFFFFFFF
    return min(value, (1 << 32) - value) % OFFSETS_PARTITIONS


@pytest.mark.needs_directory
def test_scene_32_the_offsets_topic_is_decoded_from_its_segments(
    tools: Tools, data_dir: Path, member: Member, two_partitions: str
) -> None:
    [directory] = data_dir.rglob(f"__consumer_offsets-{offsets_partition(member.group)}")
    printed = "".join(tools.dump(log, "--offsets-decoder").out for log in sorted(directory.glob("*.log")))
    for partition, offset in ((0, 4), (1, 10)):
        key = rf'key: {{"type":"1","data":{{"group":"{member.group}","topic":"{two_partitions}","partition":{partition}}}}}'
        assert re.search(rf'{key} payload: .*"offset":{offset},"leaderEpoch":-1,"metadata":"half way', printed), printed
    described = re.findall(rf'key: {{"type":"2","data":{{"group":"{member.group}"}}}} payload: (.*)', printed)
    assert '"protocolType":"consumer","generation":1,"protocol":"range"' in described[-1]
    assert '"groupInstanceId":"static-reader","clientId":"reader"' in described[-1]
    assert "isvalid: false" not in printed


def test_scene_32_the_offsets_topic_is_consumed_with_kafkas_formatters(
    tools: Tools, member: Member, two_partitions: str
) -> None:
    def consumed(formatter: str) -> str:
        return tools.ask(
            "ConsoleConsumer",
            *("--topic", "__consumer_offsets", "--partition", str(offsets_partition(member.group))),
            *("--offset", "earliest", "--timeout-ms", "3000"),  # From its start on, on a machine that is busy.
            *("--formatter", f"org.apache.kafka.tools.consumer.{formatter}"),
        ).out

    for partition, offset in ((0, 4), (1, 10)):
        key = rf'"group":"{member.group}","topic":"{two_partitions}","partition":{partition}'
        assert re.search(rf'{key}}}}},"value":.{{1,30}}"offset":{offset},', consumed("OffsetsMessageFormatter"))
    described = consumed("GroupMetadataMessageFormatter")
    assert re.search(
        rf'"group":"{member.group}"}}}},"value":.{{1,30}}"protocolType":"consumer","generation":1', described
    )
