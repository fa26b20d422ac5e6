"""Scene 56: a single node becomes a cluster of three while clients write and read, as docs/OPERATIONS.md tells."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

import ottla.testing
from tests.chaos.writers import abandon_all
from tests.cluster.conftest import Report
from tests.cluster.group_reader import REFRESH_INTERVAL_MS, GroupReader
from tests.cluster.load import Load
from tests.cluster.site import Site
from tests.cluster.topics import Topics
from tests.conformance.commands import Commands

PARTITIONS: Final = 3
INTERNAL: Final = ("__consumer_offsets", "__transaction_state")
REFRESHING: Final = {"topic.metadata.refresh.interval.ms": REFRESH_INTERVAL_MS}
QUICK: Final = {
    "broker.session.timeout.ms": 3_000,
    "broker.heartbeat.interval.ms": 500,
    "group.initial.rebalance.delay.ms": 0,
}


@pytest.fixture
def site() -> Iterator[Site]:
    """One node, as `ottla up` starts it."""
    with ottla.testing.cluster(nodes=1, config=QUICK) as cluster:
        yield Site(cluster=cluster, topics=Topics(cluster.bootstrap_servers), maybe_network=None)
        abandon_all()


@pytest.mark.timeout(300)
def test_scene_56_a_single_node_grows_to_three_under_load_and_its_first_node_may_die(
    site: Site, topic_name: str, tmp_path: Path, report: Report
) -> None:
    cluster, alone = site.cluster, site.bootstrap
    site.topics.create(topic_name, partitions=PARTITIONS, replicas=1)
    write_in_a_transaction(alone, f"{topic_name}-ledger")
    with (
        Load(alone, topic_name, partitions=PARTITIONS, settings=REFRESHING) as load,
        GroupReader(alone, topic_name, group="readers") as group,
    ):
        for _ in range(2):
            cluster.add(config=QUICK)
        cluster.wait_joined()
        raise_replication(Commands(site.bootstrap), topic_name, tmp_path / "plan.json")
        for name in (topic_name, *INTERNAL):
            Topics(site.bootstrap).wait_until(name, lambda state: state.isr == {1, 2, 3})
        load.wait_for(200)
        committed = group.committed(site.bootstrap, topic_name)
        cluster.node(1).kill()
        load.wait_for(500)
        group.wait_for(500)
        assert group.committed(site.bootstrap, topic_name) >= committed > 0
        write_in_a_transaction(site.bootstrap, f"{topic_name}-ledger")
        cluster.node(1).start()
        site.topics.wait_until(topic_name, lambda state: state.isr == {1, 2, 3})
    group.require_undisturbed()
    report(load.require_clean())


def write_in_a_transaction(bootstrap: str, topic: str) -> None:
    """The same id each time: the second one takes over from the first by the log of transactions."""
    with ottla.Producer(bootstrap_servers=bootstrap, transactional_id="ledger") as producer, producer.transaction():
        producer.send(topic, b"entry")


def raise_replication(ops: Commands, topic: str, plan: Path) -> None:
    assert [voter["id"] for voter in ops.json("cluster", "status")["voters"]] == [1, 2, 3]
    ops.run("cluster", "reassign", "plan", "--replicas", "3", "-o", str(plan))
    ops.run("cluster", "reassign", "execute", str(plan), "--throttle", "50MB")
    ops.run("topic", "config", topic, "--set", "min.insync.replicas=2")
    ops.run("cluster", "status", "--check")
