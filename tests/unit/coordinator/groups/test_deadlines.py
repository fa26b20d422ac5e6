"""Deadlines that move without touching their timer."""

import asyncio

from ottla.coordinator.groups.deadlines import Deadlines, Timed
from sim.world import World


def now() -> float:
    return asyncio.get_running_loop().time()


class Fired:
    def __init__(self) -> None:
        self.times: dict[Timed, list[float]] = {}
        self.deadlines = Deadlines(self._on_due)

    def _on_due(self, timed: Timed) -> None:
        self.times.setdefault(timed, []).append(now())
        self.deadlines.clear(timed)


def test_a_deadline_that_moves_on_is_found_at_its_new_time() -> None:
    async def scene() -> None:
        fired, timed = Fired(), Timed()
        fired.deadlines.set(timed, 10_000)
        for _ in range(5):
            await asyncio.sleep(6)
            fired.deadlines.set(timed, 10_000)
        await asyncio.sleep(20)
        assert fired.times == {timed: [40.0]}

    World(1).run(scene())


def test_a_deadline_that_moves_closer_is_not_missed() -> None:
    async def scene() -> None:
        fired, timed = Fired(), Timed()
        fired.deadlines.set(timed, 300_000)
        fired.deadlines.set(timed, 10_000)
        await asyncio.sleep(400)
        assert fired.times == {timed: [10.0]}

    World(1).run(scene())


def test_what_was_not_settled_comes_up_again() -> None:
    async def scene() -> None:
        times: list[float] = []
        deadlines = Deadlines(lambda timed: times.append(now()))
        deadlines.set(Timed(), 1_000)
        await asyncio.sleep(3.5)
        assert times == [1.0, 2.0, 3.0]
        deadlines.stop()
        await asyncio.sleep(3)
        assert len(times) == 3

    World(1).run(scene())


def test_a_heartbeat_does_not_make_a_timer() -> None:
    async def scene() -> None:
        fired = Fired()
        members = [Timed() for _ in range(1_000)]
        loop = asyncio.get_running_loop()
        timers_before = loop._timer_count  # type: ignore[attr-defined]
        for _ in range(100):
            for member in members:
                fired.deadlines.set(member, 10_000)
        assert loop._timer_count - timers_before == 1  # type: ignore[attr-defined]
        fired.deadlines.stop()

    World(1).run(scene())


def test_members_are_not_blamed_for_a_broker_that_stood_still() -> None:
    world = World(1)

    async def scene() -> None:
        fired, timed = Fired(), Timed()
        fired.deadlines.set(timed, 10_000)
        world.clock.advance(60)  # The process was stopped; the heartbeat waits in the socket.
        await asyncio.sleep(0.5)
        fired.deadlines.set(timed, 10_000)
        await asyncio.sleep(5)
        assert not fired.times
        await asyncio.sleep(10)
        assert len(fired.times[timed]) == 1

    world.run(scene())


def test_a_beat_between_coming_due_and_the_decision_saves_even_a_short_session() -> None:
    async def scene() -> None:
        due: list[Timed] = []
        deadlines, timed = Deadlines(due.append), Timed()
        deadlines.set(timed, 500)
        await asyncio.sleep(0.6)
        assert due == [timed] and deadlines.is_due(timed)
        deadlines.set(timed, 500)
        assert not deadlines.is_due(timed)

    World(1).run(scene())
