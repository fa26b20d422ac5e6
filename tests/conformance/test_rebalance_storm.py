"""Scene 30: two hundred members, half of them frozen beyond their session, and the group converges in few generations."""

from collections.abc import Callable

import pytest

from tests.conformance.client import Client
from tests.conformance.groups import Member, new_group
from tests.conformance.under_test import Keeper
from tests.conformance.waiting import eventually

MEMBERS = 200
SESSION_MS = 6000
CONVERGENCE_S = 90
GENERATIONS_MAX = 20  # A generation for each member that comes would be 200.
Join = Callable[..., Member]


@pytest.mark.timeout(300)
def test_scene_30_a_rebalance_storm_converges(
    own_process: Callable[[str], Client],
    keeper: Keeper,
    join: Join,
    measured: Callable[[str], None],
    topic_name: str,
) -> None:
    keeper.create(topic_name, partitions=MEMBERS)
    group = new_group()
    settings = {"session_ms": SESSION_MS, "heartbeat_ms": 1000, "assignor": "roundrobin", "reset": "latest"}
    steady, frozen = own_process("aiokafka"), own_process("aiokafka")
    members = [join((steady, frozen)[number % 2], group, topic_name, **settings) for number in range(MEMBERS)]
    first = converged_generation(keeper, group, members)
    frozen.pause()  # No heartbeat of a hundred members gets through.
    eventually(lambda: expect_count(keeper, group, MEMBERS // 2), wait_s=CONVERGENCE_S)
    frozen.resume()
    last = converged_generation(keeper, group, members)
    for client in (steady, frozen):
        client.kill()  # Two hundred would take a while to leave one after another.
    all_in = f"generation {first} when all had joined"
    measured(f"storm of {MEMBERS} members: {all_in}, {last} after half were frozen and came back")
    assert first <= GENERATIONS_MAX
    assert last - first <= GENERATIONS_MAX


def expect_count(keeper: Keeper, group: str, count: int) -> None:
    found = keeper.client.call("describe_group", group=group)
    assert (found["state"], len(found["members"])) == ("STABLE", count)


def converged_generation(keeper: Keeper, group: str, members: list[Member]) -> int:
    """The generation in which all members have one partition each."""

    def converged() -> int:
        expect_count(keeper, group, len(members))
        generations = {member.watch().generation for member in members}
        assert sorted(index for member in members for index in member.owned) == list(range(len(members)))
        assert len(generations) == 1
        return generations.pop() or 0

    return eventually(converged, wait_s=CONVERGENCE_S)
