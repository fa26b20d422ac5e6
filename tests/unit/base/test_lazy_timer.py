"""Deadlines that are moved all the time: the last one set counts, and nothing else goes off. In virtual time."""

import asyncio

from ottla.base.lazy_timer import LazyTimer
from sim.loop import run
from sim.world import World


def play(scene):
    """When the timer went off, in seconds of the loop."""
    loop = World(seed=1).loop
    start = loop.time()
    went_off = []
    run(loop, scene(LazyTimer(lambda: went_off.append(round(loop.time() - start, 3))), start))
    return went_off


def test_it_goes_off_once_at_its_deadline():
    async def scene(timer, start):
        timer.set(start + 0.5)
        await asyncio.sleep(2)

    assert play(scene) == [0.5]


def test_a_later_deadline_replaces_the_earlier_one():
    async def scene(timer, start):
        timer.set(start + 0.5)
        await asyncio.sleep(0.4)
        timer.set(start + 0.9)
        await asyncio.sleep(2)

    assert play(scene) == [0.9]


def test_an_earlier_deadline_replaces_the_later_one():
    async def scene(timer, start):
        timer.set(start + 5)
        timer.set(start + 0.1)
        await asyncio.sleep(9)

    assert play(scene) == [0.1]


def test_a_cleared_one_stays_silent_and_can_be_set_again():
    async def scene(timer, start):
        timer.set(start + 0.5)
        timer.clear()
        await asyncio.sleep(1)
        timer.set(start + 1.5)
        await asyncio.sleep(2)

    assert play(scene) == [1.5]


def test_a_deadline_set_between_clearing_and_the_old_one_is_kept():
    async def scene(timer, start):
        timer.set(start + 0.5)
        timer.clear()
        timer.set(start + 0.8)
        await asyncio.sleep(2)

    assert play(scene) == [0.8]


def test_a_cancelled_one_is_gone():
    async def scene(timer, start):
        timer.set(start + 0.5)
        timer.cancel()
        await asyncio.sleep(2)

    assert play(scene) == []


def test_bringing_forward_never_puts_off():
    async def scene(timer, start):
        timer.bring_forward(start + 0.5)
        timer.bring_forward(start + 0.9)
        timer.bring_forward(start + 0.3)
        await asyncio.sleep(2)

    assert play(scene) == [0.3]
