"""The way between brokers, with everything that a network between them does: messages arrive late, in another order,
twice, or not at all, and so do answers. Here one node talks to itself over it (broker/peers.py)."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.types import NodeId
from ottla.broker.peers import Peers, Watch
from ottla.wire.apis import ApiKey
from ottla.wire.codec import codec_for
from ottla.wire.message import Message
from sim.trace import Trace

ANSWER_SECONDS_MAX: Final = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerFaults:
    delay_seconds_max: float = 0.0  # Of every message by itself, so that they overtake each other.
    loss_probability: float = 0.0  # Of the request, and again of the answer.
    repetition_probability: float = 0.0
    repetition_seconds_max: float = 0.0  # How late the second arrival may be.


CALM: Final = PeerFaults()


class SimulatedPeers:
    def __init__(self, inner: Peers, faults: PeerFaults, chance: Random, trace: Trace) -> None:
        self._inner = inner
        self.faults = faults
        self._chance = chance
        self._trace = trace
        self._repetitions: set[asyncio.Task[None]] = set()

    async def ask(
        self,
        node_id: NodeId,
        api_key: ApiKey,
        api_version: int,
        request: Message,
        *,
        timeout_seconds: float | None = None,
    ) -> Any:
        seconds = ANSWER_SECONDS_MAX if timeout_seconds is None else timeout_seconds
        deadline = asyncio.get_running_loop().time() + seconds
        self._trace.add("peer", node_id, api_key.name)
        if self._strikes(self.faults.repetition_probability):
            repetition = asyncio.ensure_future(self._repeat(node_id, api_key, api_version, request))
            self._repetitions.add(repetition)
            repetition.add_done_callback(self._repetitions.discard)
        await self._delay()
        if self._strikes(self.faults.loss_probability):
            raise await self._unanswered(deadline, "request lost")
        answer = await self._deliver(node_id, api_key, api_version, request)
        if self._strikes(self.faults.loss_probability):
            raise await self._unanswered(deadline, "answer lost")
        await self._delay()
        return _over_the_wire(answer, api_version)

    def watch(self, node_id: NodeId, on_lost: Callable[[], None]) -> Watch:
        return self._inner.watch(node_id, on_lost)

    def close(self) -> None:
        self._inner.close()

    async def _repeat(self, node_id: NodeId, api_key: ApiKey, api_version: int, request: Message) -> None:
        await asyncio.sleep(self._chance.random() * self.faults.repetition_seconds_max)
        self._trace.add("peer again", node_id, api_key.name)
        try:
            await self._deliver(node_id, api_key, api_version, request)
        except ApiError as error:
            self._trace.add("peer again refused", error.code.name)

    async def _deliver(self, node_id: NodeId, api_key: ApiKey, api_version: int, request: Message) -> Any:
        return await self._inner.ask(node_id, api_key, api_version, _over_the_wire(request, api_version))

    def _strikes(self, probability: float) -> bool:
        return probability > 0 and self._chance.random() < probability

    async def _delay(self) -> None:
        if self.faults.delay_seconds_max:
            await asyncio.sleep(self._chance.random() * self.faults.delay_seconds_max)

    async def _unanswered(self, deadline: float, why: str) -> ApiError:
        self._trace.add("peer", why)
        await asyncio.sleep(max(deadline - asyncio.get_running_loop().time(), 0))
        return ApiError(ErrorCode.NETWORK_EXCEPTION, why)


def _over_the_wire(message: Message, api_version: int) -> Message:
    """A copy, with what that version of the message can say and nothing more."""
    codec = codec_for(type(message), api_version)
    data = bytearray()
    codec.encode_into(message, data)
    copy, _ = codec.decode(memoryview(data), 0)
    return copy
