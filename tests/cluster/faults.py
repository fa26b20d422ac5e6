"""What can befall a node, each as a context: it lasts as long as the block, and is over afterwards.

killed, stopped     SIGKILL and SIGTERM; started again afterwards
paused              SIGSTOP: connections stay open and nobody answers
isolated            no link to anybody
cut_from_peers      clients still reach it, other nodes do not: the leader that does not know that it is none
mute, deaf          what it sends to its peers is lost; what they send to it is
cut_from_one        each of the other two still reaches a majority, but not the same one
slow                what it sends trickles
wiped               SIGKILL, and its directory is empty when it starts again: a disk that was replaced
"""

import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Final

from tests.cluster.site import Site

TRICKLE: Final = "1mbit"
Fault = Callable[[Site, int], AbstractContextManager[None]]


@contextmanager
def killed(site: Site, node_id: int) -> Iterator[None]:
    site.node(node_id).kill()
    yield
    site.node(node_id).start()


@contextmanager
def stopped(site: Site, node_id: int) -> Iterator[None]:
    site.node(node_id).stop()
    yield
    site.node(node_id).start()


@contextmanager
def paused(site: Site, node_id: int) -> Iterator[None]:
    site.node(node_id).pause()
    yield
    site.node(node_id).resume()


@contextmanager
def isolated(site: Site, node_id: int) -> Iterator[None]:
    site.network.isolate(node_id, also_from_clients=True)
    yield
    site.network.heal()


@contextmanager
def cut_from_peers(site: Site, node_id: int) -> Iterator[None]:
    site.network.isolate(node_id, also_from_clients=False)
    yield
    site.network.heal()


@contextmanager
def mute(site: Site, node_id: int) -> Iterator[None]:
    for peer in site.network.others(node_id):
        site.network.cut_one_way(node_id, peer)
    yield
    site.network.heal()


@contextmanager
def deaf(site: Site, node_id: int) -> Iterator[None]:
    for peer in site.network.others(node_id):
        site.network.cut_one_way(peer, node_id)
    yield
    site.network.heal()


@contextmanager
def cut_from_one(site: Site, node_id: int) -> Iterator[None]:
    site.network.cut(node_id, site.network.others(node_id)[0])
    yield
    site.network.heal()


@contextmanager
def slow(site: Site, node_id: int) -> Iterator[None]:
    site.network.slow_down(node_id, TRICKLE)
    yield
    site.network.heal()


@contextmanager
def wiped(site: Site, node_id: int) -> Iterator[None]:
    node = site.node(node_id)
    node.kill()
    shutil.rmtree(node.data_dir)
    yield
    # A node that founds clusters would found another one: whoever replaces its disk says where this one is.
    others = [peer for peer in site.cluster.nodes if peer is not node]
    node.config["controller.quorum.bootstrap.servers"] = ",".join(other.bootstrap_servers for other in others)
    node.start()


@contextmanager
def all_killed(site: Site, _: int) -> Iterator[None]:
    for node in site.cluster.nodes:
        node.kill()
    yield
    site.start([node.id for node in site.cluster.nodes])


@contextmanager
def all_paused(site: Site, _: int) -> Iterator[None]:
    for node in site.cluster.nodes:
        node.pause()
    yield
    for node in site.cluster.nodes:
        node.resume()
