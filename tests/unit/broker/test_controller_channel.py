"""The way to the controller while it changes, in virtual time."""

import asyncio
from typing import Any

import pytest

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.types import NO_NODE
from ottla.broker.controller_channel import ANSWER_SECONDS_MAX, ControllerChannel
from ottla.broker.peers import PeerLost
from ottla.wire import api
from ottla.wire.apis import ApiKey
from sim.world import World

REFUSED = api.CreateTopicsResponse.CreatableTopicResult(name="orders", error_code=ErrorCode.NOT_CONTROLLER)
DONE = api.CreateTopicsResponse(topics=[api.CreateTopicsResponse.CreatableTopicResult(name="orders")])


class Cluster:
    """Who leads, by time; and what each node answers: a response, an error, or nothing."""

    def __init__(self, leaders: dict[float, int], answers: dict[int, Any]) -> None:
        self._leaders = leaders
        self._answers = answers
        self.asked: list[int] = []

    @property
    def leader_id(self) -> int:
        now = asyncio.get_running_loop().time()
        return next((leader for since, leader in sorted(self._leaders.items(), reverse=True) if now >= since), NO_NODE)

    async def ask(self, node_id: int, *_: Any, timeout_seconds: float) -> Any:
        self.asked.append(node_id)
        answer = self._answers.get(node_id)
        await asyncio.sleep(timeout_seconds if answer is None else 0.001)
        if answer is None or isinstance(answer, ApiError):
            raise answer or ApiError(ErrorCode.NETWORK_EXCEPTION, "silence")
        return answer


def ask(leaders: dict[float, int], answers: dict[int, Any]) -> tuple[Any, float, list[int]]:
    """The answer, when it came, and who was asked."""
    world = World(1)
    found: list[Any] = []

    async def scene() -> None:
        cluster = Cluster(leaders, answers)
        channel = ControllerChannel(cluster, cluster, world.clock)  # type: ignore[arg-type]
        try:
            found.append(await channel.ask(ApiKey.CREATE_TOPICS, 7, api.CreateTopicsRequest()))
        except ApiError as error:
            found.append(error)
        found.extend((asyncio.get_running_loop().time(), cluster.asked))

    world.run(scene())
    return found[0], found[1], found[2]


def test_an_election_is_waited_for() -> None:
    answer, seconds, asked = ask({1.0: 2}, {2: DONE})
    assert (answer, asked) == (DONE, [2])
    assert 1.0 < seconds < 1.1


@pytest.mark.parametrize("first", [None, PeerLost("1 refuses"), api.CreateTopicsResponse(topics=[REFUSED])])
def test_the_next_controller_is_asked_the_same(first: Any) -> None:
    """The first one fell silent, is dead, or is the controller no more."""
    answer, seconds, asked = ask({0.0: 1, 1.0: 2}, {1: first, 2: DONE})
    assert answer == DONE
    assert asked[-1] == 2
    assert seconds < 1.2


def test_who_is_elected_and_not_ready_is_asked_again_and_at_last_believed() -> None:
    refused = api.CreateTopicsResponse(topics=[REFUSED])
    answer, seconds, asked = ask({0.0: 1}, {1: refused})
    assert answer == refused
    assert len(asked) > 10
    assert seconds == pytest.approx(ANSWER_SECONDS_MAX, abs=0.1)


def test_without_a_controller_the_caller_is_told_at_last() -> None:
    answer, seconds, _ = ask({}, {})
    assert isinstance(answer, ApiError)
    assert answer.code is ErrorCode.NOT_CONTROLLER
    assert seconds == pytest.approx(ANSWER_SECONDS_MAX, abs=0.1)
