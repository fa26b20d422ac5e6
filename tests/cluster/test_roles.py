"""Controllers and brokers apart (`process.roles`): three nodes that vote, two that hold topics."""

from collections.abc import Iterator

import pytest

from ottla.client import Admin
from ottla.testing import Cluster
from tests.cluster.load import Load

TOPIC = "orders"
VOTER_COUNT = 3


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    nodes = Cluster()
    try:
        for _ in range(VOTER_COUNT):
            nodes.add(config={"process.roles": "controller"})
        nodes.wait_joined()
        for _ in range(2):
            nodes.add(config={"process.roles": "broker"})
        yield nodes
    finally:
        nodes.close()


def test_controllers_vote_and_hold_nothing_brokers_hold_topics_and_do_not_vote(cluster: Cluster) -> None:
    voters, brokers = {1, 2, 3}, {4, 5}
    servers = ",".join(cluster.node(one).bootstrap_servers for one in sorted(brokers))
    with Admin(bootstrap_servers=servers) as admin:
        quorum = admin.describe_quorum()
        assert {one.id for one in quorum.voters} == voters
        assert {one.id for one in quorum.observers} == brokers
        assert {one.id for one in admin.describe_cluster().brokers} == brokers
        admin.create_topic(TOPIC, 1, 2)
        with Load(servers, TOPIC) as load:
            load.wait_for(100)
            cluster.controller.kill()
            admin.create_topic("later", 1, 2)
            load.wait_for(100)
        load.require_clean()
