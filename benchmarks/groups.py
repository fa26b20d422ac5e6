"""The group coordinator: commits a second, joins of a large group, the memory of many groups, the time to load a log.

Clients are raw (prepared_load.py, group_members.py): a client library's own pace would be what is measured.
"""

import asyncio
import time
from collections.abc import Mapping
from functools import partial
from typing import Final, NamedTuple

from benchmarks.async_client import AsyncClient, run_in_parallel
from benchmarks.group_members import Member
from benchmarks.peers import PeerError
from benchmarks.prepared_load import Prepared, answer_to, requests_per_second
from benchmarks.probe import SIZE
from benchmarks.raw_client import raw_client
from benchmarks.rounds import Goal, Metric, Round, Scenario
from benchmarks.topics import create_topics
from ottla.base.errors import ErrorCode
from ottla.wire import api
from ottla.wire.apis import ApiKey
from ottla.wire.frame import decode_response, encode_request

WARM_UP_COMMITS: Final = 200_000  # A virtual machine needs them to become three times as fast.
WARM_UP_IN_FLIGHT: Final = 20
MEMBERS: Final = 200
GROUPS: Final = 10_000
LOADED_COMMITS: Final = 1_000_000
PARTITIONS_PER_COMMIT: Final = 100
CONNECTIONS: Final = 20  # For what is not timed.
READY_SECONDS_MAX: Final = 300.0
POLL_SECONDS: Final = 0.005

_COMMIT_VERSION: Final = 9
_FETCH_VERSION: Final = 9
_FIND_VERSION: Final = 4
_NO_DELAY: Final = {"group.initial.rebalance.delay.ms": "0"}
# One partition of offsets, in one segment: nothing is cleaned between writing and loading.
_ONE_LOG: Final = {"offsets.topic.num.partitions": "1", "offsets.topic.segment.bytes": str(1 << 30)}


# -- commits -----------------------------------------------------------------------------------------------------------


class _Load(NamedTuple):
    key: str
    title: str
    connections: int
    in_flight: int
    commits: int


COMMIT_LOADS: Final = (
    _Load("one", "one connection, one commit at a time", connections=1, in_flight=1, commits=3_000),
    _Load("ten", "10 connections, one at a time", connections=10, in_flight=1, commits=20_000),
    _Load("fifty", "50 connections, one at a time", connections=50, in_flight=1, commits=50_000),
    _Load("pipelined", "50 connections, 20 in flight on each", connections=50, in_flight=20, commits=100_000),
)


def _commits(turn: Round) -> Mapping[str, float]:
    topic = turn.create_topic()
    port = turn.peer.port
    prepared = [
        _prepared_commit(port, f"{topic}-{number}", topic)
        for number in range(max(load.connections for load in COMMIT_LOADS))
    ]
    if turn.index == 0:
        requests_per_second(port, prepared, count=turn.scaled(WARM_UP_COMMITS), in_flight=WARM_UP_IN_FLIGHT)
    return {
        load.key: requests_per_second(
            port,
            prepared[: load.connections],
            count=turn.scaled(load.commits, at_least=load.connections * load.in_flight),
            in_flight=load.in_flight,
        )
        for load in COMMIT_LOADS
    }


def _prepared_commit(port: int, group: str, topic: str) -> Prepared:
    wait_coordinated(port, group)
    request = encode_request(ApiKey.OFFSET_COMMIT, _COMMIT_VERSION, 0, "benchmark", _commit(group, topic, 1))
    answer = answer_to(port, request)
    _require_committed(decode_response(ApiKey.OFFSET_COMMIT, _COMMIT_VERSION, memoryview(answer)[SIZE.size :])[1])
    return Prepared(request, answer)


def _commit(group: str, topic: str, partition_count: int, *, offset: int = 1_000) -> api.OffsetCommitRequest:
    """From outside of any membership, as a consumer of assigned partitions does."""
    Topic, Partition = (
        api.OffsetCommitRequest.OffsetCommitRequestTopic,
        api.OffsetCommitRequest.OffsetCommitRequestPartition,
    )
    partitions = [
        Partition(partition_index=index, committed_offset=offset, committed_metadata="")
        for index in range(partition_count)
    ]
    return api.OffsetCommitRequest(group_id=group, member_id="", topics=[Topic(name=topic, partitions=partitions)])


def _require_committed(response: object) -> None:
    assert isinstance(response, api.OffsetCommitResponse)
    for topic in response.topics:
        for partition in topic.partitions:
            if partition.error_code:
                raise ConnectionError(f"OffsetCommit answered with error {partition.error_code}")


def wait_coordinated(port: int, group: str) -> None:
    """Until somebody coordinates the group and has loaded what it knows: a fetch of offsets says so."""
    find = api.FindCoordinatorRequest(key_type=0, coordinator_keys=[group])
    fetch = api.OffsetFetchRequest(groups=[api.OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group, topics=None)])
    deadline = time.monotonic() + READY_SECONDS_MAX
    error_code = 0
    with raw_client(port) as client:
        while time.monotonic() < deadline:
            error_code = client.ask(ApiKey.FIND_COORDINATOR, _FIND_VERSION, find).coordinators[0].error_code
            if not error_code:
                error_code = client.ask(ApiKey.OFFSET_FETCH, _FETCH_VERSION, fetch).groups[0].error_code
            if not error_code:
                return
            time.sleep(POLL_SECONDS)
    raise PeerError(f"group {group} has no coordinator: {ErrorCode(error_code).name}")


# -- joins -------------------------------------------------------------------------------------------------------------


def _joins(turn: Round) -> Mapping[str, float]:
    first, again, generations = _join_times_of_fresh(turn, "prompt", properties=_NO_DELAY)
    delayed, *_ = _join_times_of_fresh(turn, "delayed", properties={})
    return {"first": first, "generations": generations, "again": again, "delayed": delayed}


def _join_times_of_fresh(turn: Round, label: str, *, properties: Mapping[str, str]) -> tuple[float, float, float]:
    members = turn.scaled(MEMBERS, at_least=20)
    peer = turn.peer.fresh(f"joins-{label}-{turn.index}", properties=properties)
    try:
        peer.start()
        for group in ("warm-up", "joined"):
            wait_coordinated(peer.port, group)
            times = asyncio.run(_join_times(peer.port, group=group, members=members))
        return times
    finally:
        peer.discard()


async def _join_times(port: int, *, group: str, members: int) -> tuple[float, float, float]:
    """Seconds until all have joined, seconds until all have joined again, and the generations that the first took."""
    clients = [await AsyncClient.connect(port) for _ in range(members)]
    try:
        crowd = [Member(client, group) for client in clients]
        first = await _settle_all(crowd, topic="first")
        generations = float(max(member.generation for member in crowd))
        again = await _settle_all(crowd, topic="another")  # A changed subscription is a rebalance.
        return first, again, generations
    finally:
        for client in clients:
            client.close()


async def _settle_all(crowd: list[Member], *, topic: str) -> float:
    started = time.perf_counter()
    await asyncio.gather(*(member.settle(group_size=len(crowd), topic=topic) for member in crowd))
    return time.perf_counter() - started


# -- memory ------------------------------------------------------------------------------------------------------------


def _memory_of_groups(turn: Round) -> Mapping[str, float]:
    groups = turn.scaled(GROUPS)
    peer = turn.peer.fresh(f"groups-{turn.index}", properties=_NO_DELAY)
    try:
        peer.start()
        create_topics(peer, {"read": 1})
        wait_coordinated(peer.port, "first")
        commit_groups(
            peer.port, [f"warm-up-{number}" for number in range(groups // 10)], topic="read", partition_count=1
        )
        empty_bytes = peer.process.resident_bytes()
        commit_groups(peer.port, [f"committed-{number}" for number in range(groups)], topic="read", partition_count=1)
        committed_bytes = peer.process.resident_bytes()
        jobs = (partial(_join_alone, group=f"joined-{number}") for number in range(groups))
        asyncio.run(run_in_parallel(peer.port, jobs, connections=CONNECTIONS))
        joined_bytes = peer.process.resident_bytes()
    finally:
        peer.discard()
    return {
        "committed": (committed_bytes - empty_bytes) / 1e6,
        "joined": (joined_bytes - committed_bytes) / 1e6,
        "resident": joined_bytes / 1e6,
    }


def commit_groups(port: int, groups: list[str], *, topic: str, partition_count: int, offset: int = 1_000) -> None:
    """Each group once, so many partitions in one request."""
    jobs = (partial(_commit_once, request=_commit(group, topic, partition_count, offset=offset)) for group in groups)
    asyncio.run(run_in_parallel(port, jobs, connections=CONNECTIONS))


async def _commit_once(client: AsyncClient, *, request: api.OffsetCommitRequest) -> None:
    _require_committed(await client.ask(ApiKey.OFFSET_COMMIT, _COMMIT_VERSION, request))


async def _join_alone(client: AsyncClient, *, group: str) -> None:
    await Member(client, group).settle(group_size=1, topic="only")


# -- loading -----------------------------------------------------------------------------------------------------------


def _loads(turn: Round) -> Mapping[str, float]:
    """The same number of commits twice: each to a key of its own, and a hundred to each key."""
    group_count = turn.scaled(LOADED_COMMITS) // PARTITIONS_PER_COMMIT
    return {
        "once": _load_seconds(turn, "once", group_count=group_count, repeats=1),
        "often": _load_seconds(turn, "often", group_count=max(1, group_count // 100), repeats=min(100, group_count)),
    }


def _load_seconds(turn: Round, label: str, *, group_count: int, repeats: int) -> float:
    """From the start of the process to the first answer that holds a committed offset."""
    peer = turn.peer.fresh(f"load-{label}-{turn.index}", properties=_ONE_LOG)
    groups = [f"loaded-{number}" for number in range(group_count)]
    try:
        peer.start()
        create_topics(peer, {"read": PARTITIONS_PER_COMMIT})
        wait_coordinated(peer.port, groups[0])
        for repeat in range(repeats):
            commit_groups(peer.port, groups, topic="read", partition_count=PARTITIONS_PER_COMMIT, offset=repeat + 1)
        peer.stop()
        started = time.perf_counter()
        peer.start()
        wait_coordinated(peer.port, groups[-1])
        seconds = time.perf_counter() - started
        _require_offset(peer.port, groups[-1], offset=repeats)
        return seconds
    finally:
        peer.discard()


def _require_offset(port: int, group: str, *, offset: int) -> None:
    """A coordinator that knows nothing is quickly loaded."""
    request = api.OffsetFetchRequest(
        groups=[api.OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group, topics=None)]
    )
    with raw_client(port) as client:
        topics = client.ask(ApiKey.OFFSET_FETCH, _FETCH_VERSION, request).groups[0].topics
    found = [partition.committed_offset for topic in topics for partition in topic.partitions]
    if found != [offset] * PARTITIONS_PER_COMMIT:
        raise ConnectionError(f"group {group} has {found[:3]} … of {len(found)} partitions, not {offset} in each")


_AS_FAST: Final = Goal(ratio_min=1.0)

SCENARIOS: Final = (
    Scenario(
        name="commits",
        metrics=tuple(
            Metric(key=load.key, title=f"offset commits: {load.title}", unit="commits/s", goal=_AS_FAST)
            for load in COMMIT_LOADS
        ),
        measure=_commits,
    ),
    Scenario(
        name="joins",
        metrics=(
            Metric(key="first", title="200 members join, no initial delay", unit="s"),
            Metric(key="generations", title="  generations until all have their assignment", unit=""),
            Metric(key="again", title="  all join again at once", unit="s"),
            Metric(key="delayed", title="  join with the default delay of 3 s", unit="s"),
        ),
        measure=_joins,
        own_broker=True,
    ),
    Scenario(
        name="groups-memory",
        metrics=(
            Metric(key="committed", title="10,000 groups, one offset each: memory grows by", unit="MB"),
            Metric(key="joined", title="  10,000 more, one member each", unit="MB"),
            Metric(key="resident", title="  resident memory then", unit="MB"),
        ),
        measure=_memory_of_groups,
        own_broker=True,
    ),
    Scenario(
        name="groups-load",
        metrics=(
            Metric(key="once", title="restart with 1 M commits to 1 M keys until offsets are fetched", unit="s"),
            Metric(key="often", title="  to 10,000 keys", unit="s"),
        ),
        measure=_loads,
        own_broker=True,
        rounds_max=3,
    ),
)
