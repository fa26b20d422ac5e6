"""Where a node finds its cluster."""

import asyncio

import pytest

from ottla.broker.bootstrap_servers import BadAddress, bootstrap_servers, find_cluster_id
from ottla.broker.peers import Nobody, PeerLost
from ottla.metadata.configs import BrokerConfig
from ottla.wire import api
from sim.world import World


def config(text):
    return BrokerConfig({"controller.quorum.bootstrap.servers": text})


def test_servers_have_kafkas_ids_and_do_not_include_this_node():
    servers = bootstrap_servers(config("a:1,b:2,[::1]:3"), own=[("b", 2)])
    assert servers == {-2: ("a", 1), -4: ("::1", 3)}


def test_without_the_setting_there_are_none():
    assert bootstrap_servers(BrokerConfig({})) == {}


@pytest.mark.parametrize("text", ["a", "a:", ":1", "a:b"])
def test_what_is_no_address_is_told(text):
    with pytest.raises(BadAddress, match="host:port"):
        bootstrap_servers(config(text))


class Cluster(Nobody):
    """Answers by one server, from the third question on."""

    def __init__(self):
        self.asked = []

    async def ask(self, node_id, api_key, api_version, request, *, timeout_seconds=None):
        self.asked.append(node_id)
        if len(self.asked) < 3 or node_id != -3:
            raise PeerLost("refused")
        return api.DescribeClusterResponse(cluster_id="EjRWeBI0VngSNFZ4EjRWeA")


def test_a_new_node_waits_until_one_of_them_says_which_cluster_they_are(caplog):
    cluster = Cluster()

    async def scene():
        return await asyncio.wait_for(find_cluster_id(cluster, {-2: ("a", 1), -3: ("b", 2)}), 60)

    assert World(1).run(scene()) == "EjRWeBI0VngSNFZ4EjRWeA"
    assert cluster.asked == [-2, -3, -2, -3]
    assert caplog.text.count("no answer yet from") == 2
