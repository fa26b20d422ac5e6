"""`ottla group`, `ottla txn` and `ottla consume --group` as their users run them."""

import json
import re
import signal
import subprocess
import time
from collections.abc import Iterator

import pytest

import ottla
from ottla import TopicPartition
from ottla.client.raw.cluster import Cluster, CoordinatorKind
from ottla.client.raw.transactions import Transactions
from ottla.wire import api
from ottla.wire.apis import ApiKey
from tests.conformance.client import Record
from tests.conformance.handles import write
from tests.conformance.raw_requests import begin_hanging_transaction
from tests.conformance.test_cli import OTTLA, Ottla, environment, json_of, orders, run
from tests.conformance.test_tools_transactions import HOUR_MS, UNUSED_PRODUCER_ID, unverified
from tests.conformance.under_test import BrokerUnderTest, Keeper
from tests.conformance.waiting import eventually

__all__ = ["environment", "orders", "run", "unverified"]  # fixtures

WAIT_S = 30


@pytest.fixture
def member(broker: BrokerUnderTest, orders: str) -> Iterator[ottla.Consumer]:
    """A member that has read and committed everything of `orders`."""
    with ottla.Consumer(
        bootstrap_servers=broker.bootstrap, group_id=f"group-{orders}", auto_offset_reset="earliest", client_id="till"
    ) as consumer:
        consumer.subscribe(orders)
        count = 0
        while count < 100:
            count += len(consumer.poll(1_000))
        consumer.commit()
        yield consumer


def test_a_group_reads_each_record_once_over_several_runs(run: Ottla, orders: str) -> None:
    first = run("consume", orders, "--group", f"g-{orders}", "--count", "30", "--json").stdout.splitlines()
    rest = run("consume", orders, "--group", f"g-{orders}", "--json").stdout.splitlines()
    places = [(record["partition"], record["offset"]) for record in map(json.loads, [*first, *rest])]
    assert (len(first), len(places), len(set(places))) == (30, 100, 100)
    assert run("consume", orders, "--group", f"g-{orders}").stdout == ""


def test_a_description_has_members_and_lag_in_records_and_seconds(
    run: Ottla, orders: str, member: ottla.Consumer
) -> None:
    group = f"group-{orders}"
    [caught_up] = json_of(run("group", "describe", group, "--json"))
    assert (caught_up["state"], caught_up["lag"], caught_up["lag_seconds"]) == ("Stable", 0, 0.0)
    assert [each["client_id"] for each in caught_up["members"]] == ["till"]
    assert len(caught_up["members"][0]["partitions"]) == 3
    long_ago_ms = round(time.time() * 1000) - 3_600_000
    line = json.dumps({"value": "late", "partition": 1, "timestamp": long_ago_ms})
    run("produce", orders, "--json", input=f"{line}\n{line}\n")
    [behind] = json_of(run("group", "describe", group, "--json"))
    assert behind["lag"] == 2
    assert 3_600 <= behind["lag_seconds"] < 3_600 + WAIT_S
    assert {each["partition"]: each["lag"] for each in behind["partitions"]} == {0: 0, 1: 2, 2: 0}
    shown = run("group", "describe", group).stdout
    assert re.search(rf"^ +{orders} +1 +\d+ +\d+ +2 +1 h", shown, re.MULTILINE)
    assert re.search(r"^ lag +2 records, 1 h", shown, re.MULTILINE)


def test_groups_are_listed_though_one_cannot_be_described(
    run: Ottla, environment: dict[str, str], broker: BrokerUnderTest, orders: str, member: ottla.Consumer
) -> None:
    """C programs read its name up to the NUL; and a group may be gone between the list and its description."""
    kind = api.OffsetCommitRequest
    partition = kind.OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
    group = f"half-{orders}\0name"
    with Cluster(broker.bootstrap, client_id="test", timeout_s=WAIT_S) as cluster:
        about = api.MetadataRequest(topics=[api.MetadataRequest.MetadataRequestTopic(name=orders)])
        [known] = cluster.ask(ApiKey.METADATA, about, api.MetadataResponse).topics
        topic = kind.OffsetCommitRequestTopic(topic_id=known.topic_id, partitions=[partition])
        request = kind(group_id=group, member_id="", topics=[topic])
        coordinator = cluster.coordinator(CoordinatorKind.GROUP, group)
        answer = cluster.ask(ApiKey.OFFSET_COMMIT, request, api.OffsetCommitResponse, at=coordinator)
    assert answer.topics[0].partitions[0].error_code == 0
    listed = {each["group"]: each["members"] for each in json_of(run("group", "list", "--json"))}
    assert listed[f"group-{orders}"] == 1
    assert listed[f"half-{orders}"] is None
    assert re.search(rf"^ +half-{orders} +Empty +\? +classic", run("group", "list").stdout, re.MULTILINE)
    doctor = [OTTLA, "doctor", "--sample", "1"]  # Its exit code says whether others' groups are well.
    examined = subprocess.run(doctor, env=environment, capture_output=True, text=True, timeout=90, check=False)
    assert "GROUP_ID_NOT_FOUND" not in examined.stdout + examined.stderr


def test_groups_are_listed(run: Ottla, orders: str, member: ottla.Consumer) -> None:
    [listed] = [each for each in json_of(run("group", "list", "--json")) if each["group"] == f"group-{orders}"]
    assert (listed["state"], listed["members"], listed["type"]) == ("Stable", 1, "classic")
    assert re.search(rf"^ +group-{orders} +Stable +1 +classic", run("group", "list").stdout, re.MULTILINE)


def test_a_reset_is_shown_first_refused_for_active_groups_and_then_done(
    run: Ottla, orders: str, member: ottla.Consumer
) -> None:
    group = f"group-{orders}"
    planned = run("group", "reset", group, "--to-earliest")
    assert "add --execute" in planned.stderr
    assert "1 active member" in planned.stderr
    refused = run("group", "reset", group, "--to-earliest", "--execute", exit_code=1)
    assert "stop its consumers" in refused.stderr
    member.close()
    assert json_of(run("group", "describe", group, "--json"))[0]["lag"] == 0
    run("group", "reset", group, "--to-earliest", "--execute")
    assert json_of(run("group", "describe", group, "--json"))[0]["lag"] == 100


@pytest.mark.parametrize(
    ("options", "after"),
    [
        (["--to-latest"], [30, 40, 30]),
        (["--to-offset", "35"], [30, 35, 30]),
        (["--topic", "{topic}:1", "--to-offset", "7"], [10, 7, 10]),
        (["--shift-by", "-3"], [7, 7, 7]),
        (["--by-duration", "90m"], [30, 20, 30]),
        (["--to-timestamp", "@1000"], [0, 0, 0]),
    ],
)
def test_a_reset_goes_where_it_is_told(
    run: Ottla, broker: BrokerUnderTest, topic_name: str, options: list[str], after: list[int]
) -> None:
    """Three partitions of 30, 40 and 30 records; the last 20 of partition 1 are an hour old, all others two days."""
    run("topic", "create", topic_name, "--partitions", "3")
    now_ms = round(time.time() * 1000)
    with ottla.Producer(bootstrap_servers=broker.bootstrap) as producer:
        for partition, count in enumerate((30, 40, 30)):
            for number in range(count):
                age_ms = 3_600_000 if partition == 1 and number >= 20 else 172_800_000
                producer.send(topic_name, "v", partition=partition, timestamp_ms=now_ms - age_ms)
    group = f"group-{topic_name}"
    with ottla.Admin(bootstrap_servers=broker.bootstrap) as admin:
        admin.alter_group_offsets(group, {TopicPartition(topic_name, partition): 10 for partition in range(3)})
        told = [option.format(topic=topic_name) for option in options]
        done = json_of(run("group", "reset", group, *told, "--execute", "--json"))
        assert done["executed"] is True
        assert [position.offset for position in admin.list_group_offsets(group).values()] == after
    beyond = run("group", "reset", group, "--to-offset", "1000").stderr
    assert "has no offset 1000: 40 is the nearest" in " ".join(beyond.split())


def test_a_group_is_deleted_in_part_or_whole(run: Ottla, broker: BrokerUnderTest, orders: str) -> None:
    group = f"group-{orders}"
    run("consume", orders, "--group", group)
    run("group", "delete", group, "--topic", orders)
    assert json_of(run("group", "describe", group, "--json"))[0]["partitions"] == []
    partly = run("group", "delete", group, "nobody", exit_code=1)
    assert partly.stdout == f"✓ {group} deleted\n" and "nobody" in partly.stderr
    missing = run("group", "describe", group, exit_code=1)
    assert "GROUP_ID_NOT_FOUND" in missing.stderr
    assert "`ottla group list`" in missing.stderr


def test_ctrl_c_ends_a_member_and_what_it_showed_is_committed(
    run: Ottla, environment: dict[str, str], orders: str
) -> None:
    group = f"group-{orders}"
    command = [OTTLA, "consume", orders, "--group", group, "--from", "beginning", "--follow"]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as reader:
        assert reader.stdout is not None
        for _ in range(100):
            assert reader.stdout.readline()
        reader.send_signal(signal.SIGINT)
        assert reader.wait(WAIT_S) == 130
    [described] = json_of(run("group", "describe", group, "--json"))
    assert described["members"] == []
    assert described["lag"] <= 1  # The interrupt may fall between a line and the note that it was shown.


def test_a_transaction_is_listed_described_and_aborted(run: Ottla, broker: BrokerUnderTest, topic: str) -> None:
    transactional_id = f"txn-{topic}"
    with ottla.Producer(bootstrap_servers=broker.bootstrap, transactional_id=transactional_id) as producer:
        producer.begin_transaction()
        offset = producer.send(topic, "undecided").get(timeout=WAIT_S).offset
        listed = json_of(run("txn", "list", "--state", "Ongoing", "--json"))
        assert transactional_id in [each["transactional_id"] for each in listed]
        described = json_of(run("txn", "describe", transactional_id, "--json"))
        assert (described["state"], described["partitions"]) == ("Ongoing", [{"topic": topic, "partition": 0}])
        assert json_of(run("txn", "find-hanging", "--topic", topic, "--older-than", "0s", "--json")) == []
        refused = run("txn", "abort", "--partition", f"{topic}:0", "--start-offset", str(offset), exit_code=1)
        assert "the coordinator knows" in refused.stderr
        run("txn", "abort", transactional_id)
        assert json_of(run("txn", "describe", transactional_id, "--json"))["partitions"] == []
        with pytest.raises(ottla.ClientError, match="give each running instance its own"):
            producer.commit_transaction()
    assert run("consume", topic, "-X", "isolation.level=read_committed").stdout == ""
    assert "`ottla txn list`" in run("txn", "abort", "nobody", exit_code=1).stderr


def test_a_hanging_transaction_is_found_and_aborted(
    run: Ottla, keeper: Keeper, broker: BrokerUnderTest, topic: str, unverified: None
) -> None:
    an_hour_ago_ms = int(time.time() * 1000) - HOUR_MS
    eventually(
        lambda: begin_hanging_transaction(
            broker.bootstrap, topic, b"hangs", producer_id=UNUSED_PRODUCER_ID + 1, timestamp_ms=an_hour_ago_ms
        )
    )
    keeper.produce(topic, [Record(value=b"waiting")])
    consume = ("consume", topic, "-X", "isolation.level=read_committed")
    assert run(*consume).stdout == ""
    find = ("txn", "find-hanging", "--topic", topic)
    [found] = json_of(run(*find, "--json"))
    assert (found["partition"], found["producer_id"], found["start_offset"]) == (0, UNUSED_PRODUCER_ID + 1, 0)
    advice = re.search(r"`ottla (txn abort .*?)`", re.sub(r"\s+", " ", run(*find).stderr + run(*find).stdout))
    assert advice is not None
    run(*advice[1].split())
    assert run(*consume).stdout == "waiting\n"
    assert json_of(run(*find, "--json")) == []
    assert "is open since offset 0" in run(*advice[1].split(), exit_code=1).stderr


@pytest.mark.needs_ottla
def test_a_two_phase_transaction_shows_its_age_and_is_aborted(
    run: Ottla, keeper: Keeper, broker: BrokerUnderTest, topic: str
) -> None:
    with Cluster(broker.bootstrap, client_id="sink", timeout_s=WAIT_S) as cluster:
        transactions = Transactions(cluster, timeout_s=WAIT_S)
        handle = transactions.begin(f"sink-{topic}", timeout_ms=1_000, is_two_phase=True)
        write(cluster, handle, topic, b"prepared")
    [listed] = [each for each in json_of(run("txn", "list", "--json")) if each["two_phase"]]
    assert (listed["transactional_id"], listed["state"]) == (handle.transactional_id, "Ongoing")
    assert 0 <= time.time() * 1000 - listed["started_ms"] < HOUR_MS
    assert "Ongoing, two-phase" in run("txn", "list").stdout
    described = run("txn", "describe", handle.transactional_id).stdout
    assert "the broker's own" in described and "open for" in described
    run("txn", "abort", handle.transactional_id)
    keeper.produce(topic, [Record(value=b"after")])
    assert run("consume", topic, "-X", "isolation.level=read_committed").stdout == "after\n"
