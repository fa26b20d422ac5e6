"""Coordinators with much to remember: a partition of an internal topic is filled before its leader is killed.

Offsets: a million commits of a thousand groups. Transactions: ids that were taken over a few times each, which is one
record a time. What fills goes straight to the coordinator, on raw connections.
"""

import asyncio
import itertools
import time
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from benchmarks.async_client import AsyncClient, run_in_parallel
from benchmarks.cluster_gaps import leader_of
from benchmarks.cluster_peers import Cluster
from benchmarks.groups import CONNECTIONS, commit_groups, wait_coordinated
from benchmarks.peers import PeerError
from benchmarks.raw_client import raw_client
from benchmarks.rounds import Round
from benchmarks.topics import create_topics
from ottla.coordinator.placement import partition_for
from ottla.wire import api
from ottla.wire.apis import ApiKey

OFFSETS: Final = "__consumer_offsets"
TRANSACTIONS: Final = "__transaction_state"
COORDINATED: Final = 50  # Partitions of the internal topics.
GROUPS: Final = 1_000
PARTITIONS_PER_COMMIT: Final = 100
COMMITS: Final = 1_000_000
TRANSACTIONAL_IDS: Final = 10_000
TAKEN_OVER: Final = 5
TRIES_MAX: Final = 1_000
RETRY_SECONDS: Final = 0.05
FULL_PARTITION: Final = 7  # Any; every round kills whoever leads it.

_FIND_VERSION: Final = 4
_INIT_VERSION: Final = 4
_READ: Final = "read-by-many"


def name_in_full_partition(prefix: str) -> str:
    """A group or a transactional id that the full coordinator has to answer."""
    return next(_names(prefix))


def _names(prefix: str) -> Iterator[str]:
    for number in itertools.count():
        name = f"{prefix}-{number}"
        if partition_for(name, COORDINATED) == FULL_PARTITION:
            yield name


def fill_offsets(turn: Round, cluster: Cluster[Any]) -> None:
    groups = list(itertools.islice(_names("full"), turn.scaled(GROUPS)))
    create_topics(cluster, {_READ: PARTITIONS_PER_COMMIT})
    port = _coordinator_port(cluster, OFFSETS, groups[0])
    wait_coordinated(port, groups[0])
    for repeat in range(COMMITS // GROUPS // PARTITIONS_PER_COMMIT):
        commit_groups(port, groups, topic=_READ, partition_count=PARTITIONS_PER_COMMIT, offset=repeat + 1)


def fill_transactions(turn: Round, cluster: Cluster[Any]) -> None:
    names = list(itertools.islice(_names("full"), turn.scaled(TRANSACTIONAL_IDS)))
    port = _coordinator_port(cluster, TRANSACTIONS, names[0])
    jobs = (partial(_take_over, transactional_id=name) for name in names * TAKEN_OVER)
    asyncio.run(run_in_parallel(port, jobs, connections=CONNECTIONS))


def _coordinator_port(cluster: Cluster[Any], topic: str, name: str) -> int:
    """The internal topic comes to be with the first question."""
    find = api.FindCoordinatorRequest(key_type=int(topic == TRANSACTIONS), coordinator_keys=[name])
    with raw_client(cluster.nodes[1].port) as client:
        for _ in range(TRIES_MAX):
            if not client.ask(ApiKey.FIND_COORDINATOR, _FIND_VERSION, find).coordinators[0].error_code:
                return int(cluster.nodes[leader_of(cluster, topic, FULL_PARTITION)].port)
            time.sleep(RETRY_SECONDS)
    raise PeerError(f"{cluster.name}: nobody coordinates {name}")


async def _take_over(client: AsyncClient, *, transactional_id: str) -> None:
    request = api.InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000)
    for _ in range(TRIES_MAX):
        if not (await client.ask(ApiKey.INIT_PRODUCER_ID, _INIT_VERSION, request)).error_code:
            return
        await asyncio.sleep(RETRY_SECONDS)  # A coordinator that is being loaded.
    raise PeerError(f"{transactional_id} gets no producer id")
