"""A fetch session's cost must be that of the partitions that changed (KIP-227).

A raw client opens two sessions: one of a busy partition alone, one of the same partition among thousands of idle ones.
In turns, each waits in a long poll, a message is produced, and the time until the poll's answer is taken.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Final

from benchmarks.percentiles import percentile
from benchmarks.raw_client import RawClient, raw_client
from benchmarks.rounds import Goal, Metric, Round, Scenario
from benchmarks.topics import wait_all_served
from ottla.wire import api
from ottla.wire.apis import ApiKey
from ottla.wire.records import BatchBuilder

IDLE_PARTITIONS: Final = 4_000
MESSAGES: Final = 1_000
WARM_UP_MESSAGES: Final = 50
MESSAGE_BYTES: Final = 100

_FETCH_VERSION: Final = 12  # The last that names topics instead of giving their ids.
_PRODUCE_VERSION: Final = 9
_PARTITION_BYTES_MAX: Final = 1 << 20


class _Session:
    """A fetch session over many partitions, of which the first is the busy one."""

    def __init__(self, client: RawClient, busy_topic: str, idle_partitions: Mapping[str, int]) -> None:
        self._client = client
        self._busy_topic = busy_topic
        self._epoch = 0
        self._session_id = 0
        self.next_offset = 0
        idle = [_fetch_topic(name, range(count)) for name, count in idle_partitions.items()]
        self._send([_fetch_topic(busy_topic, [0]), *idle], max_wait_ms=0)
        response = self._receive()
        self._session_id = response.session_id
        if self._session_id == 0:
            raise ConnectionError("the broker gave no fetch session")

    def wait_for(self, offset: int) -> None:
        """Sends the long poll. Only the busy partition's new position has to be told."""
        changed = [_fetch_topic(self._busy_topic, [0], offset=offset)] if offset != self.next_offset else []
        self.next_offset = offset
        self._send(changed, max_wait_ms=10_000)

    def receive_change(self) -> None:
        """The answer, which must hold the busy partition and nothing else."""
        changed = [(topic.topic, len(topic.partitions)) for topic in self._receive().responses]
        if changed != [(self._busy_topic, 1)]:
            raise ConnectionError(f"a session's answer holds {changed} instead of what changed")

    def _send(self, topics: Sequence[api.FetchRequest.FetchTopic], *, max_wait_ms: int) -> None:
        request = api.FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=50 << 20,
            session_id=self._session_id,
            session_epoch=self._epoch,
            topics=list(topics),
        )
        self._client.send(ApiKey.FETCH, _FETCH_VERSION, request)
        self._epoch += 1

    def _receive(self) -> api.FetchResponse:
        response: api.FetchResponse = self._client.receive(ApiKey.FETCH, _FETCH_VERSION)
        if response.error_code:
            raise ConnectionError(f"fetch answered with error {response.error_code}")
        return response


def _fetch_topic(name: str, partitions: Sequence[int], *, offset: int = 0) -> api.FetchRequest.FetchTopic:
    return api.FetchRequest.FetchTopic(
        topic=name,
        partitions=[
            api.FetchRequest.FetchPartition(
                partition=index, fetch_offset=offset, partition_max_bytes=_PARTITION_BYTES_MAX
            )
            for index in partitions
        ],
    )


def _produce_request(topic: str) -> api.ProduceRequest:
    builder = BatchBuilder()
    builder.append(int(time.time() * 1000), None, b"o" * MESSAGE_BYTES)
    partition = api.ProduceRequest.PartitionProduceData(index=0, records=builder.build())
    return api.ProduceRequest(
        acks=1,
        timeout_ms=30_000,
        topic_data=[api.ProduceRequest.TopicProduceData(name=topic, partition_data=[partition])],
    )


def _latencies_of_sessions(turn: Round) -> Mapping[str, float]:
    busy = turn.create_topic(f"busy-{turn.index}")
    idle = turn.topic_name("idle")  # One for all rounds: Kafka would run out of files.
    if turn.index == 0:
        turn.create_topic("idle", partitions=turn.scaled(IDLE_PARTITIONS))
    idle_partitions = {idle: turn.scaled(IDLE_PARTITIONS)}
    wait_all_served(turn.peer, {busy: 1, **idle_partitions})  # A partition that comes up later is a change, too.
    port = turn.peer.port
    with raw_client(port) as producer, raw_client(port) as alone, raw_client(port) as among_idle:
        sessions = {"alone": _Session(alone, busy, {}), "among": _Session(among_idle, busy, idle_partitions)}
        latencies_ms: dict[str, list[float]] = {name: [] for name in sessions}
        offset = 0
        for _ in range(WARM_UP_MESSAGES + turn.scaled(MESSAGES)):
            for name, session in sessions.items():
                latencies_ms[name].append(_one_message(producer, busy, session, offset))
                offset += 1
    medians = {name: percentile(values[WARM_UP_MESSAGES:], 50) for name, values in latencies_ms.items()}
    return {**medians, "ratio": medians["among"] / medians["alone"]}


def _one_message(producer: RawClient, topic: str, session: _Session, offset: int) -> float:
    session.wait_for(offset)
    time.sleep(0.001)  # The poll must be waiting when the message comes.
    request = _produce_request(topic)
    started = time.perf_counter()
    producer.send(ApiKey.PRODUCE, _PRODUCE_VERSION, request)
    session.receive_change()
    latency_ms = (time.perf_counter() - started) * 1e3
    producer.receive(ApiKey.PRODUCE, _PRODUCE_VERSION)
    return latency_ms


SCENARIOS: Final = (
    Scenario(
        name="fetch-session",
        metrics=(
            Metric(key="alone", title="fetch session of one partition, p50", unit="ms"),
            Metric(key="among", title="  among 4,000 idle ones, p50", unit="ms"),
            Metric(key="ratio", title="  how much slower", unit="×", goal=Goal(ours_max=1.5)),
        ),
        measure=_latencies_of_sessions,
    ),
)
