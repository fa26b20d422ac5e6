"""Replicas move and a broker leaves while clients write and read: the application is told of nothing, a throttle holds."""

import os
import time
from pathlib import Path
from typing import Final

import ottla
from tests.cluster.conftest import Report
from tests.cluster.group_reader import GroupReader
from tests.cluster.load import Load
from tests.cluster.site import Site
from tests.conformance.commands import Commands

NODES: Final = 4
PARTITIONS: Final = 4
RATE_BYTES: Final = 4_000_000
BALLAST_BYTES: Final = 16_000_000
LEAVING: Final = 4


def test_a_throttled_move_under_load_keeps_to_its_rate_and_nobody_notices(
    site: Site, topic_name: str, tmp_path: Path, report: Report
) -> None:
    ops, plan = Commands(site.bootstrap), str(tmp_path / "plan.json")
    heavy = f"{topic_name}-heavy"
    site.topics.create(topic_name, partitions=PARTITIONS)
    site.topics.create(heavy, partitions=PARTITIONS, replicas=1)
    fill(site.bootstrap, heavy)
    ops.run("cluster", "reassign", "plan", "--topics", heavy, "--brokers", "1", "-o", plan)
    ops.run("cluster", "reassign", "execute", plan)
    with Load(site.bootstrap, topic_name, partitions=PARTITIONS) as load:
        ops.run("cluster", "reassign", "plan", "--topics", heavy, "--brokers", "2", "-o", plan)
        started = time.monotonic()  # What the command itself takes counts too: it may begin before it ends.
        ops.run("cluster", "reassign", "execute", plan, "--throttle", f"{RATE_BYTES}", "--no-wait")
        site.topics.wait_until(heavy, lambda state: state.replicas == (2,), wait_s=60)
        share = BALLAST_BYTES / (time.monotonic() - started) / RATE_BYTES
        ops.run("cluster", "reassign", "verify", plan)
        load.wait_for(100)
    report(f"at least {share:.2f} of the throttle's rate; {load.require_clean()}")
    assert share < 1.2, "more than the throttle allows"
    assert not ops.json("cluster", "reassign", "list")


def fill(bootstrap: str, topic: str) -> None:
    with ottla.Producer(bootstrap_servers=bootstrap, compression_type="none") as producer:
        for number in range(BALLAST_BYTES // 10_000):
            producer.send(topic, os.urandom(10_000), partition=number % PARTITIONS)


def test_scene_53_a_broker_is_decommissioned_under_load_and_no_client_is_told_of_an_error(
    site: Site, topic_name: str, report: Report
) -> None:
    ops = Commands(site.bootstrap)
    site.topics.create(topic_name, partitions=PARTITIONS)
    with (
        Load(site.bootstrap, topic_name, partitions=PARTITIONS) as load,
        GroupReader(site.bootstrap, topic_name, group=f"{topic_name}-readers") as group,
    ):
        ops.run("cluster", "decommission", f"{LEAVING}", "--throttle", "20MB", "--yes", "--no-wait")
        for state in site.topics.states(topic_name):
            assert LEAVING not in state.replicas and len(state.replicas) == 3
        with ops.begun("cluster", "decommission", f"{LEAVING}", "--yes"):
            site.node(LEAVING).stop()
        load.wait_for(300)
        group.wait_for(300)
    assert ops.json("cluster", "status", "--check")["brokers"] == [1, 2, 3]
    assert [voter["id"] for voter in ops.json("cluster", "quorum")["voters"]] == [1, 2, 3]
    group.require_undisturbed()
    report(load.require_clean())
