"""`controller.quorum.bootstrap.servers`: where a node finds the cluster that it belongs to, before it knows anybody there.

The servers are asked by the ids -2, -3, … as in Kafka. A new node learns from them which cluster it joins, and waits until
one of them answers: it never founds a cluster of its own.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Final

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.types import NodeId
from ottla.broker.peers import Peers
from ottla.metadata.configs import BrokerConfig
from ottla.wire import api
from ottla.wire.apis import ApiKey

logger = logging.getLogger(__name__)

SETTING: Final = "controller.quorum.bootstrap.servers"
FIRST_ID: Final = -2
ANSWER_SECONDS_MAX: Final = 2.0
RETRY_SECONDS: Final = 0.1

Address = tuple[str, int]


class BadAddress(ValueError):
    pass


def bootstrap_servers(config: BrokerConfig, own: Sequence[Address] = ()) -> dict[NodeId, Address]:
    """By their ids, without this node itself. `BadAddress` for what is none."""
    addresses = (_parse(text) for text in config.listing(SETTING))
    return {FIRST_ID - number: address for number, address in enumerate(addresses) if address not in own}


def _parse(text: str) -> Address:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal():
        raise BadAddress(f"{SETTING}: {text!r} is not host:port")
    return host.strip("[]"), int(port)


async def find_cluster_id(peers: Peers, servers: Mapping[NodeId, Address]) -> str:
    """Waits until one of them is there."""
    has_complained = False
    while True:
        for node_id, (host, port) in servers.items():
            try:
                return await ask_cluster_id(peers, node_id)
            except ApiError as error:
                if not has_complained:
                    logger.warning(
                        "no answer yet from %s:%d, of which this node learns its cluster: %s", host, port, error
                    )
        has_complained = True
        await asyncio.sleep(RETRY_SECONDS)


async def ask_cluster_id(peers: Peers, node_id: NodeId) -> str:
    response = await peers.ask(
        node_id, ApiKey.DESCRIBE_CLUSTER, 1, api.DescribeClusterRequest(), timeout_seconds=ANSWER_SECONDS_MAX
    )
    if response.error_code:
        raise ApiError(ErrorCode(response.error_code), response.error_message or "")
    cluster_id: str = response.cluster_id
    return cluster_id
