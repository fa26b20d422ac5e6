"""`ottla cluster` and `ottla doctor` as operators run them, on three real nodes in three racks."""

import itertools
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import ottla
import ottla.testing
from ottla.server.local_cluster import settings_of_node
from ottla.testing import Broker, Cluster
from tests.chaos.small_disk import mounted
from tests.conformance.client import Client
from tests.conformance.commands import WAIT_S, Commands
from tests.conformance.kafka_tools import Tools
from tests.conformance.waiting import eventually

pytestmark = [pytest.mark.needs_ottla, pytest.mark.timeout(180)]

RACKS = {1: {"broker.rack": "a"}, 2: {"broker.rack": "b"}, 3: {"broker.rack": "c"}}
QUICK = {"broker.session.timeout.ms": 2_000, "broker.heartbeat.interval.ms": 300, "replica.lag.time.max.ms": 2_000}
topic_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    config = {**QUICK, "group.initial.rebalance.delay.ms": 0, "offsets.topic.num.partitions": 3}
    with ottla.testing.cluster(nodes=3, config=config, configs=RACKS) as running:
        yield running


@pytest.fixture
def ops(cluster: Cluster) -> Commands:
    return Commands(cluster.bootstrap_servers)


@pytest.fixture
def topic(ops: Commands) -> str:
    """Six partitions without a second copy, and a hundred records."""
    name = f"moved-{next(topic_numbers)}"
    ops.run("topic", "create", name, "-p", "6", "-r", "1")
    write(ops, name, 100)
    return name


def write(ops: Commands, topic: str, count: int) -> None:
    with ottla.Producer(bootstrap_servers=ops.servers) as producer:
        for number in range(count):
            producer.send(topic, b"value %d" % number, key=b"%d" % number)


def records(ops: Commands, topic: str) -> int:
    return len(ops.run("consume", topic).stdout.splitlines())


def test_a_healthy_cluster_is_shown_at_a_glance(ops: Commands, topic: str) -> None:
    status = ops.json("cluster", "status", "--check")
    assert status["ok"]
    assert status["verdict"] == "all is well: every replica of every partition is in sync"
    assert (status["brokers"], status["racks"]) == ([1, 2, 3], ["a", "b", "c"])
    assert [voter["id"] for voter in status["voters"]] == [1, 2, 3]
    assert "all is well" in ops.run("cluster", "status").stdout
    brokers = ops.json("cluster", "brokers")
    assert [broker["rack"] for broker in brokers] == ["a", "b", "c"]
    assert [broker["id"] for broker in brokers if broker["role"] == "controller"] == [status["controller"]]
    assert sum(broker["replicas"] for broker in brokers) >= 6
    assert ops.json("cluster", "quorum")["leader"] == status["controller"]


def test_a_replication_factor_is_raised_from_a_plan_and_taken_back_from_its_backup(
    ops: Commands, topic: str, tmp_path: Path
) -> None:
    plan, backup = str(tmp_path / "plan.json"), str(tmp_path / "backup.json")
    before = ops.replicas(topic)
    shown = ops.run("cluster", "reassign", "plan", "--replicas", "3", "--topics", topic, "-o", plan)
    assert "12 replicas to copy" in shown.stdout
    assert ops.replicas(topic) == before
    assert ops.json("cluster", "reassign", "verify", plan, exit_code=1)["arrived"] == []
    ops.run("cluster", "reassign", "execute", plan, "--backup", backup)
    assert ops.json("cluster", "reassign", "verify", plan)["complete"]
    assert {tuple(sorted(replicas)) for replicas in ops.replicas(topic)} == {(1, 2, 3)}
    assert records(ops, topic) == 100
    ops.run("cluster", "reassign", "execute", backup)
    assert ops.replicas(topic) == before
    assert records(ops, topic) == 100


def test_kafkas_own_tool_takes_our_plans_and_we_take_its(
    cluster: Cluster, ops: Commands, topic: str, tmp_path: Path, borrow: Callable[[str], Client]
) -> None:
    tools = Tools(borrow("kafka-tools"), cluster.bootstrap_servers)
    ours, theirs = tmp_path / "ours.json", tmp_path / "theirs.json"
    ops.run("cluster", "reassign", "plan", "--replicas", "2", "--topics", topic, "-o", str(ours))
    executed = tools.ask("ReassignPartitionsCommand", "--execute", "--reassignment-json-file", ours).out
    assert "Successfully started partition reassignments" in executed
    ops.run("cluster", "reassign", "verify", str(ours), "--wait")
    verified = tools.ask("ReassignPartitionsCommand", "--verify", "--reassignment-json-file", ours).out
    assert verified.count("is completed.") == 6
    theirs.write_text(next(line for line in executed.splitlines() if line.startswith("{")))  # Where they were before.
    ops.run("cluster", "reassign", "execute", str(theirs))
    assert {len(replicas) for replicas in ops.replicas(topic)} == {1}


def test_replicas_move_to_the_brokers_named_and_to_no_other(ops: Commands, topic: str, tmp_path: Path) -> None:
    plan = str(tmp_path / "plan.json")
    ops.run("cluster", "reassign", "plan", "--topics", topic, "--brokers", "2,3", "-o", plan)
    ops.run("cluster", "reassign", "execute", plan)
    assert sorted(ops.leaders(of=topic)) == [2, 2, 2, 3, 3, 3]
    assert records(ops, topic) == 100
    refused = ops.run("cluster", "reassign", "plan", "--replicas", "4", "--topics", topic, exit_code=1)
    assert "needs 4 brokers and 3 would be there" in refused.stderr
    assert "no such broker runs: 9" in ops.run("cluster", "reassign", "plan", "--brokers", "9", exit_code=1).stderr


def test_a_move_that_is_under_way_is_listed_and_cancelled(
    cluster: Cluster, ops: Commands, topic: str, tmp_path: Path
) -> None:
    plan = str(tmp_path / "plan.json")
    ops.run("cluster", "reassign", "plan", "--topics", topic, "--brokers", "1", "-o", plan)
    ops.run("cluster", "reassign", "execute", plan)
    target = json.loads(Path(plan).read_text())
    for partition in target["partitions"]:
        partition["replicas"] = [1, 3]
        partition["log_dirs"] = ["any", "any"]
    Path(plan).write_text(json.dumps(target))
    cluster.node(3).pause()  # Its copies will not arrive.
    try:
        ops.run("cluster", "reassign", "execute", plan, "--no-wait")
        moving = ops.json("cluster", "reassign", "list", "-b", cluster.node(1).bootstrap_servers)
        assert {tuple(each["adding"]) for each in moving if each["topic"] == topic} == {(3,)}
        assert ops.json("cluster", "reassign", "verify", plan, exit_code=1)["moving"]
        cancelled = ops.json("cluster", "reassign", "cancel", plan)["cancelled"]
        assert len(cancelled) == len(target["partitions"])
        assert {tuple(replicas) for replicas in ops.replicas(topic)} == {(1,)}
    finally:
        cluster.node(3).resume()
    eventually(lambda: ops.run("cluster", "status", "--check"), wait_s=WAIT_S)


def test_a_throttle_is_held_and_taken_away_at_the_end(ops: Commands, tmp_path: Path) -> None:
    """12 MB at 2 MB a second; what a broker may give at once, and the last piece, take no time."""
    plan = str(tmp_path / "plan.json")
    ops.run("topic", "create", "slow", "-p", "1", "-r", "1")
    with ottla.Producer(bootstrap_servers=ops.servers, compression_type="none") as producer:
        for _ in range(120):
            producer.send("slow", os.urandom(100_000))
    ops.run("cluster", "reassign", "plan", "--replicas", "2", "--topics", "slow", "-o", plan)
    started = time.monotonic()
    ops.run("cluster", "reassign", "execute", plan, "--throttle", "2MB", "--no-wait")
    [listed] = ops.json("topic", "config", "slow", "follower.replication.throttled.replicas")
    assert listed["value"].startswith("0:")
    ops.run("cluster", "reassign", "verify", plan, "--wait")
    assert time.monotonic() - started > 4
    [listed] = ops.json("topic", "config", "slow", "follower.replication.throttled.replicas")
    assert listed["value"] == ""
    assert {len(replicas) for replicas in ops.replicas("slow")} == {2}
    ops.run("topic", "delete", "slow", "--yes")


def test_a_plan_that_is_refused_leaves_no_throttle(ops: Commands, topic: str, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    moves = [{"topic": topic, "partition": 0, "replicas": [1, 9]}]
    plan.write_text(json.dumps({"version": 1, "partitions": moves}))
    refused = ops.run("cluster", "reassign", "execute", str(plan), "--throttle", "1MB", exit_code=1)
    assert "broker 9 is not registered" in refused.stderr
    [listed] = ops.json("topic", "config", topic, "leader.replication.throttled.replicas")
    assert listed["value"] == ""


def test_leaders_are_even_again_after_a_node_was_killed(cluster: Cluster, ops: Commands) -> None:
    """Scene 57: at most one leader more on any broker than on any other."""
    ops.run("topic", "create", "even", "-p", "9", "-r", "3")
    cluster.node(2).kill()
    cluster.node(2).start()
    eventually(lambda: ops.run("cluster", "status", "--check"), wait_s=WAIT_S)
    with ops.begun(
        "cluster", "rebalance", "--copies", "0", "--sample", "0", "--every", "0.02", exit_code=130
    ) as process:
        eventually(lambda: require_even(ops.json("cluster", "brokers")), wait_s=WAIT_S)
        process.send_signal(signal.SIGINT)
    assert "nothing is worth moving" in ops.run("cluster", "rebalance", "--copies", "0", "--sample", "0").stdout
    ops.run("topic", "delete", "even", "--yes")


def require_even(brokers: Any) -> None:
    leads = [broker["leaders"] for broker in brokers]
    assert max(leads) - min(leads) <= 1


def test_nodes_restarted_one_after_the_other_as_documented_are_not_noticed(cluster: Cluster, ops: Commands) -> None:
    """docs/OPERATIONS.md's recipe, while a producer with default settings writes: nothing fails, nothing is lost."""
    ops.run("topic", "create", "rolling", "-p", "3", "-r", "3", "-c", "min.insync.replicas=2")
    over = threading.Event()
    deliveries: list[ottla.Delivery] = []

    def write_on() -> None:
        with ottla.Producer(bootstrap_servers=ops.servers) as producer:
            while not over.wait(0.01):
                deliveries.append(producer.send("rolling", b"%d" % len(deliveries)))

    thread = threading.Thread(target=write_on)
    thread.start()
    try:
        for node in cluster.nodes:
            ops.run("cluster", "status", "--check")
            node.stop()
            node.start()
            eventually(lambda: ops.run("cluster", "status", "--check"), wait_s=WAIT_S)
    finally:
        over.set()
        thread.join()
    assert len(deliveries) > 100
    assert len({(each.result().partition, each.result().offset) for each in deliveries}) == len(deliveries)
    assert records(ops, "rolling") == len(deliveries)
    ops.run("topic", "delete", "rolling", "--yes")


def test_a_broker_that_is_down_is_named_with_what_it_holds(cluster: Cluster, ops: Commands) -> None:
    ops.run("topic", "create", "short", "-p", "3", "-r", "3")
    cluster.node(3).stop()
    try:
        eventually(lambda: ops.run("cluster", "status", "--check", exit_code=1), wait_s=WAIT_S)
        status = ops.json("cluster", "status")
        assert status["fenced_brokers"] == [3]
        assert {"short-0", "short-1", "short-2"} <= set(status["under_replicated"])
        kinds = {each["kind"] for each in ops.json("doctor", "--sample", "0.5", exit_code=1)["findings"]}
        assert {"under-replicated", "broker-down"} <= kinds
    finally:
        cluster.node(3).start()
    eventually(lambda: ops.run("cluster", "status", "--check"), wait_s=WAIT_S)
    ops.run("topic", "delete", "short", "--yes")


@contextmanager
def one_key_written(servers: str, topic: str) -> Iterator[None]:
    """All the while, nearly all of it with one key."""
    over = threading.Event()

    def write_on() -> None:
        with ottla.Producer(bootstrap_servers=servers, compression_type="none") as producer:
            for number in itertools.count():
                producer.send(topic, bytes(1_000), key=b"constant" if number % 50 else b"%d" % number)
                if number % 100 == 0 and over.wait(0.1):
                    return

    thread = threading.Thread(target=write_on)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_the_doctor_names_a_hot_partition_and_a_stuck_group_and_its_advice_helps(
    cluster: Cluster, ops: Commands
) -> None:
    ops.run("topic", "create", "hot", "-p", "6", "-r", "3")
    servers = cluster.bootstrap_servers
    with (
        one_key_written(servers, "hot"),
        ottla.Consumer(
            bootstrap_servers=servers, group_id="payments", auto_offset_reset="earliest", enable_auto_commit=False
        ) as stuck,
    ):
        stuck.subscribe("hot")
        while not stuck.poll(500):
            pass
        stuck.commit()
        hot, group = eventually(
            lambda: found_both(ops.json("doctor", "--sample", "2", "--stuck-after", "1", exit_code=1)), wait_s=WAIT_S
        )
    partition = hot["what"].split()[0]
    assert partition.startswith("hot-")
    assert any("'constant'" in line for line in hot["evidence"])
    assert "group payments is stuck" in group["what"]
    assert any("1 member" in line for line in group["evidence"])
    ops.run("cluster", "rebalance", "--isolate-leader", partition, "--sample", "0", "--execute")
    leader = ops.leaders(of="hot")[int(partition.removeprefix("hot-"))]
    [broker] = [each for each in ops.json("cluster", "brokers") if each["id"] == leader]
    assert broker["leaders"] == 1
    ops.run("topic", "delete", "hot", "--yes")
    ops.run("group", "delete", "payments", "--yes")


def found_both(report: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    found = {each["kind"]: each for each in report["findings"]}
    assert {"hot-partition", "stuck-group"} <= found.keys()
    return found["hot-partition"], found["stuck-group"]


def test_the_doctor_names_a_disk_that_fills_up(tmp_path: Path) -> None:
    with (
        mounted(tmp_path / "small", kind="tmpfs", size_bytes=64 << 20) as small,
        ottla.testing.broker(data_dir=small / "data") as broker,
    ):
        ops = Commands(broker.bootstrap_servers)
        ops.run("topic", "create", "audit", "-p", "1")
        with ottla.Producer(bootstrap_servers=broker.bootstrap_servers, compression_type="none") as producer:
            for _ in range(54):
                producer.send("audit", os.urandom(1_000_000))
        [finding] = ops.json("doctor", "--sample", "0.5", exit_code=1)["findings"]
    assert finding["kind"] == "disk-full"
    assert any("largest topics there: audit" in line for line in finding["evidence"])
    assert "ottla topic config audit --set retention.ms" in finding["fix"][0]


def test_the_doctor_names_an_address_where_nobody_answers(topic_name: str) -> None:
    with ottla.testing.broker() as broker:
        alone = {"controller.quorum.auto.join.enable": "false", "advertised.listeners": "PLAINTEXT://127.0.0.1:9"}
        second = Broker(config={**settings_of_node(2, 2, broker.bootstrap_servers), **alone})
        second.start()
        try:
            ops = Commands(broker.bootstrap_servers)
            ops.run("topic", "create", topic_name, "-p", "4", "-r", "1")
            findings = ops.json("doctor", "--sample", "0.5", exit_code=1)["findings"]
        finally:
            second.close()
    [found] = [each for each in findings if each["kind"] == "advertised-listener"]
    assert "broker 2" in found["what"]
    assert "127.0.0.1:9, and there nobody answers this machine" in found["evidence"][0]


@pytest.fixture
def fourth(cluster: Cluster) -> Iterator[Broker]:
    """A node that is not started yet."""
    node = Broker(config={**settings_of_node(4, 3, cluster.bootstrap_servers), **QUICK, "broker.rack": "a"})
    yield node
    node.close()


def replica_counts(ops: Commands) -> dict[int, int]:
    return {broker["id"]: broker["replicas"] for broker in ops.json("cluster", "brokers")}


def test_a_broker_joins_gets_its_share_and_leaves_again(cluster: Cluster, ops: Commands, fourth: Broker) -> None:
    """Scene 53, and the way in."""
    ops.run("topic", "create", "shared", "-p", "8", "-r", "3")
    write(ops, "shared", 1_000)
    with ops.begun("cluster", "add", "--id", "4", "--execute"):
        fourth.start()
    assert replica_counts(ops)[4] > 0
    ops.run("cluster", "decommission", "4", "--no-wait")
    assert replica_counts(ops)[4] == 0
    with ops.begun("cluster", "decommission", "4"):
        fourth.stop()
    status = ops.json("cluster", "status", "--check")
    assert status["brokers"] == [1, 2, 3]
    assert [voter["id"] for voter in status["voters"]] == [1, 2, 3]
    assert records(ops, "shared") == 1_000
    assert "no such broker: 4" in ops.run("cluster", "decommission", "4", exit_code=1).stderr
    assert "needs 3 brokers and 2 would be there" in ops.run("cluster", "decommission", "3", exit_code=1).stderr
