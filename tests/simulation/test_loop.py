"""The virtual-time loop: time jumps, order comes from the seed, errors and dead ends are told."""

import asyncio

import pytest

from sim.loop import HOST, Host, Stuck
from sim.world import World


def test_a_day_passes_at_once_and_to_the_millisecond() -> None:
    world = World(1)
    begin_ms = world.clock.now_ms()
    world.run(asyncio.sleep(86_400))
    assert world.clock.now_ms() - begin_ms == 86_400_000


async def interleaving(world: World) -> list[int]:
    seen: list[int] = []

    async def worker(number: int) -> None:
        for _ in range(3):
            await asyncio.sleep(0)
            seen.append(number)
            await world.workers.run(seen.append, number)

    await asyncio.gather(*(worker(number) for number in range(4)))
    return seen


def test_a_seed_fixes_the_order_and_seeds_differ() -> None:
    def order(seed: int) -> tuple[tuple[int, ...], str]:
        world = World(seed)
        return tuple(world.run(interleaving(world))), world.digest()

    assert [order(seed) for seed in range(10)] == [order(seed) for seed in range(10)]
    assert len({order(seed)[0] for seed in range(10)}) > 5


def test_without_shuffle_callbacks_run_first_come_first_served() -> None:
    async def main() -> list[int]:
        seen: list[int] = []
        loop = asyncio.get_running_loop()
        for number in range(20):
            loop.call_soon(seen.append, number)
        await asyncio.sleep(1)
        return seen

    assert World(3, shuffle=False).run(main()) == list(range(20))
    assert World(3, shuffle=True).run(main()) != list(range(20))


def test_waiting_for_nothing_is_told() -> None:
    async def main() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(Stuck, match="nothing is left to run"):
        World(1).run(main())


def test_an_error_that_nobody_awaits_ends_the_run() -> None:
    async def fails() -> None:
        raise ValueError("lost")

    async def main() -> None:
        task = asyncio.get_running_loop().create_task(fails())
        await asyncio.sleep(1)
        del task
        await asyncio.sleep(1)

    with pytest.raises(ValueError, match="lost"):
        World(1).run(main())


def test_an_error_that_nobody_awaited_is_told_at_the_end_at_the_latest() -> None:
    kept: list[asyncio.Task[None]] = []

    async def fails() -> None:
        raise ValueError("lost")

    async def main() -> None:
        kept.append(asyncio.get_running_loop().create_task(fails()))
        await asyncio.sleep(1)

    with pytest.raises(ValueError, match="lost"):
        World(1).run(main())


def test_an_error_in_a_callback_ends_the_run() -> None:
    async def main() -> None:
        asyncio.get_running_loop().call_later(1, lambda: 1 // 0)
        await asyncio.sleep(2)

    with pytest.raises(ZeroDivisionError):
        World(1).run(main())


def test_a_dead_host_does_nothing_more() -> None:
    world = World(1)
    host = Host("node")
    seen: list[str] = []

    async def node() -> None:
        try:
            while True:
                seen.append("alive")
                await asyncio.sleep(1)
        finally:
            seen.append("cleaned up")

    async def main() -> None:
        HOST.set(host)
        task = asyncio.get_running_loop().create_task(node())
        HOST.set(None)
        await asyncio.sleep(2.5)
        host.is_alive = False
        world.loop.bury(host)
        await asyncio.sleep(10)
        assert not task.done()
        assert seen == ["alive"] * 3  # What is swept up when the world has ended is not part of it.

    world.run(main())


def test_time_outs_cancellation_and_executors_work() -> None:
    async def main() -> str:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await asyncio.sleep(10)
        assert asyncio.get_running_loop().time() == 5
        return await asyncio.get_running_loop().run_in_executor(None, str.upper, "done")

    assert World(1).run(main()) == "DONE"


def test_an_error_of_a_worker_reaches_the_caller_even_late() -> None:
    async def main(world: World) -> None:
        with pytest.raises(OSError, match="broken"):
            await world.workers.run(_raise_broken)
        waiting = asyncio.ensure_future(world.workers.run(_raise_broken))
        waiting.cancel()
        await asyncio.sleep(1)

    world = World(1)
    world.run(main(world))
    assert world.workers.call_count == 2


def _raise_broken() -> None:
    raise OSError("broken")
