"""A coroutine whose first step has run: it goes on, fails, and is cancelled as in a task."""

import asyncio

import pytest

from ottla.base.continuation import Continuation


class Outcome:
    def __init__(self):
        self.calls = []
        self.is_finished = asyncio.Event()

    def __call__(self, result, error):
        self.calls.append((result, error))
        self.is_finished.set()


def begin(coroutine):
    outcome = Outcome()
    return Continuation(coroutine, coroutine.send(None), outcome), outcome


def run(scene):
    asyncio.run(asyncio.wait_for(scene(), 20))


def test_it_goes_on_at_every_wait_and_tells_its_result_once():
    async def scene():
        future = asyncio.get_running_loop().create_future()

        async def work():
            first = await future
            await asyncio.sleep(0)
            return first + await asyncio.sleep(0.001, 2)

        _, outcome = begin(work())
        future.set_result(1)
        await outcome.is_finished.wait()
        assert outcome.calls == [(3, None)]

    run(scene)


def test_what_fails_is_raised_where_it_is_awaited():
    async def scene():
        future = asyncio.get_running_loop().create_future()

        async def work():
            with pytest.raises(KeyError):
                await future
            raise ValueError("told")

        _, outcome = begin(work())
        future.set_exception(KeyError("lost"))
        await outcome.is_finished.wait()
        [(result, error)] = outcome.calls
        assert result is None
        assert str(error) == "told"

    run(scene)


def test_several_may_wait_for_the_same_future():
    async def scene():
        future = asyncio.get_running_loop().create_future()

        async def work():
            return await future

        begun = [begin(work()) for _ in range(3)]
        future.set_result("x")
        for _, outcome in begun:
            await outcome.is_finished.wait()
            assert outcome.calls == [("x", None)]

    run(scene)


@pytest.mark.parametrize("is_done", [False, True], ids=["waiting", "done meanwhile"])
def test_a_cancelled_one_leaves_what_it_shields_and_cleans_up(is_done):
    async def scene():
        kept = asyncio.get_running_loop().create_future()
        cleaned = []

        async def work():
            try:
                await asyncio.shield(kept)
                await asyncio.sleep(0)
            finally:
                cleaned.append(True)

        continuation, outcome = begin(work())
        if is_done:
            kept.set_result(None)
            await asyncio.sleep(0)
        continuation.cancel()
        await outcome.is_finished.wait()
        [(_, error)] = outcome.calls
        assert isinstance(error, asyncio.CancelledError)
        assert cleaned == [True]
        assert not kept.cancelled()

    run(scene)


def test_one_that_waits_for_its_turn_alone_can_be_cancelled():
    async def scene():
        async def work():
            await asyncio.sleep(0)

        continuation, outcome = begin(work())
        continuation.cancel()
        await outcome.is_finished.wait()
        assert isinstance(outcome.calls[0][1], asyncio.CancelledError)

    run(scene)
