"""What a request costs: one message in each, from one pipelining client and from fifty, and one at a time."""

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Final

from benchmarks.percentiles import percentile
from benchmarks.rounds import Goal, Metric, Round, Scenario
from ottla.client.bulk import LoadProducer, MessageBlock
from ottla.client.load import produce_load

MESSAGE_BYTES: Final = 100
CLIENTS: Final = 50
REQUESTS: Final = 200_000
SYNCHRONOUS_REQUESTS: Final = 10_000
WARM_UP_REQUESTS: Final = 200

ONE_MESSAGE_A_REQUEST: Final = {"batch.num.messages": 1, "linger.ms": 0}


def _one_pipelined_client(turn: Round) -> Mapping[str, float]:
    load = produce_load(
        turn.peer.bootstrap,
        turn.create_topic(),
        message_bytes=MESSAGE_BYTES,
        count=turn.scaled(REQUESTS),
        config=ONE_MESSAGE_A_REQUEST,
    )
    return {"rate": load.messages_per_second}


def _many_clients(turn: Round) -> Mapping[str, float]:
    topic = turn.create_topic()
    each = turn.scaled(REQUESTS) // CLIENTS
    block = MessageBlock([b"o" * MESSAGE_BYTES], length=each)
    with ExitStack() as stack:
        producers = [
            stack.enter_context(LoadProducer(turn.peer.bootstrap, topic, config=ONE_MESSAGE_A_REQUEST))
            for _ in range(CLIENTS)
        ]
        for producer in producers:
            producer.partition_count()  # Connects.
        started = time.perf_counter()
        for producer in producers:
            producer.send(block, each)
        for producer in producers:
            producer.wait_delivered()
        seconds = time.perf_counter() - started
    return {"rate": each * CLIENTS / seconds}


def one_at_a_time(settings: Mapping[str, str | int]) -> Callable[[Round], Mapping[str, float]]:
    def measure(turn: Round) -> Mapping[str, float]:
        block = MessageBlock([b"o" * MESSAGE_BYTES], length=1)
        topic = turn.create_topic()
        latencies_ms = []
        config = {"linger.ms": 0, **settings}
        with LoadProducer(turn.peer.bootstrap, topic, config=config, every_delivery=True) as producer:
            producer.partition_count()
            for number in range(WARM_UP_REQUESTS + turn.scaled(SYNCHRONOUS_REQUESTS)):
                started = time.perf_counter()
                producer.send_and_wait(block)
                if number >= WARM_UP_REQUESTS:
                    latencies_ms.append((time.perf_counter() - started) * 1e3)
        return {"p50": percentile(latencies_ms, 50), "p99": percentile(latencies_ms, 99)}

    return measure


SCENARIOS: Final = (
    Scenario(
        name="requests-one-client",
        metrics=(
            Metric(
                key="rate",
                title="one message a request, one pipelined client",
                unit="requests/s",
                goal=Goal(ratio_min=3.0),
            ),
        ),
        measure=_one_pipelined_client,
    ),
    Scenario(
        name="requests-50-clients",
        metrics=(
            Metric(key="rate", title="one message a request, 50 clients", unit="requests/s", goal=Goal(ratio_min=1.4)),
        ),
        measure=_many_clients,
    ),
    Scenario(
        name="synchronous-produce",
        metrics=(
            Metric(key="p50", title="one synchronous produce, p50", unit="ms", goal=Goal(ratio_max=1.1)),
            Metric(key="p99", title="  p99", unit="ms", goal=Goal(ratio_max=1.1)),
        ),
        measure=one_at_a_time({}),
    ),
)
