"""What the dispatcher does before any handler: who is not served."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.base.errors import NotServed
from ottla.broker.dispatch import CUT_OFF_SECONDS, Dispatcher
from ottla.broker.peers import CLIENT_ID_PREFIX
from ottla.broker.request import Peer
from ottla.metadata.image import MetadataImage
from ottla.wire import api
from ottla.wire.apis import ApiKey
from ottla.wire.frame import SIZE_BYTES, encode_request
from sim.world import World

PEER = Peer(host="client", port=1, listener="PLAINTEXT")


def ask(client_id: str) -> Any:
    """ApiVersions, of a node that others take for gone."""
    node = SimpleNamespace(is_ready=True, is_cut_off=True, image=MetadataImage())
    dispatcher = Dispatcher(node)  # type: ignore[arg-type]
    request = encode_request(ApiKey.API_VERSIONS, 0, 7, client_id, api.ApiVersionsRequest())
    frame = memoryview(request)[SIZE_BYTES:]
    return dispatcher.answer(dispatcher.begin(frame, PEER), frame)


def test_a_broker_that_is_cut_off_sends_clients_away_and_lets_them_wait_a_little() -> None:
    async def scene() -> None:
        with pytest.raises(NotServed):
            await ask("some client")
        assert asyncio.get_running_loop().time() == pytest.approx(CUT_OFF_SECONDS)

    World(1).run(scene())


def test_a_broker_that_is_cut_off_answers_other_brokers() -> None:
    async def scene() -> None:
        assert await ask(f"{CLIENT_ID_PREFIX}2")

    World(1).run(scene())
