"""Who is known to live by a connection that it made itself."""

import asyncio

import pytest

from ottla.broker.callers import Callers
from ottla.broker.request import Lifeline, Peer, RequestContext
from ottla.wire.apis import ApiKey
from tests.unit.metadata.cluster import image_of


def called(callers: Callers, node_id: int, api_key: ApiKey = ApiKey.FETCH) -> Lifeline:
    """Over a new connection."""
    peer = Peer(host="node", port=1, listener="PLAINTEXT")
    callers.on_call(node_id, RequestContext(api_key, 1, 1, None, peer))
    return peer.lifeline


def test_who_has_a_connection_open_is_there() -> None:
    callers = Callers(image_of(brokers=3))
    assert not callers.is_there(2)
    fetches, heartbeats = called(callers, 2), called(callers, 2, ApiKey.BROKER_HEARTBEAT)
    fetches.cut()
    assert callers.is_there(2)
    heartbeats.cut()
    assert not callers.is_there(2)
    called(callers, 2)
    assert callers.is_there(2)
    assert not callers.is_there(3)


def test_a_connection_that_was_left_for_another_does_not_count() -> None:
    callers = Callers(image_of(brokers=3))
    called(callers, 2)  # Its end was lost with the network, and is never heard of.
    called(callers, 2).cut()
    assert not callers.is_there(2)


def test_strangers_are_not_noted() -> None:
    callers = Callers(image_of(brokers=3))
    called(callers, 7)
    assert not callers.is_there(7)


def test_who_waits_hears_of_the_last_one() -> None:
    async def scene() -> None:
        callers = Callers(image_of(brokers=3))
        first, second = called(callers, 2), called(callers, 2, ApiKey.BROKER_HEARTBEAT)
        impatient, patient = (asyncio.ensure_future(callers.wait_left(2)) for _ in range(2))
        await asyncio.sleep(0)
        impatient.cancel()
        with pytest.raises(asyncio.CancelledError):
            await impatient
        first.cut()
        await asyncio.sleep(0.01)
        assert not patient.done()
        second.cut()
        await patient
        await callers.wait_left(2)

    asyncio.run(scene())
