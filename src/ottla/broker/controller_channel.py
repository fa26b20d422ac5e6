"""The way to the active controller, be it this node or another.

While there is none, an election is waited for; so is one who is elected and has not read its log to the end yet, or has
just lost its office: both answer NOT_CONTROLLER. A controller that dies meanwhile may have done what it was asked to: the
next is asked the same, as Kafka does, for decisions bear that.
"""

import asyncio
from typing import Any, Final, Protocol

from ottla.base.clock import Clock
from ottla.base.errors import ApiError, ErrorCode
from ottla.base.types import NO_NODE, NodeId
from ottla.broker.peers import Peers
from ottla.wire.apis import ApiKey
from ottla.wire.message import Message

ANSWER_SECONDS_MAX: Final = 10.0  # A quorum that is there elects its leader in a fraction of it.
TRY_SECONDS_MAX: Final = 4.0  # Then the same is asked again.
RETRY_SECONDS: Final = 0.02
LOOK_SECONDS: Final = 0.1  # While an answer is waited for, whether the one who was asked still is the controller.


class Quorum(Protocol):
    @property
    def leader_id(self) -> NodeId: ...


class ControllerChannel:
    def __init__(self, quorum: Quorum, peers: Peers, clock: Clock) -> None:
        self._quorum = quorum
        self._peers = peers
        self._clock = clock

    async def ask(self, api_key: ApiKey, api_version: int, request: Message) -> Any:
        """`ApiError`: nobody has answered for so long."""
        deadline = self._clock.monotonic() + ANSWER_SECONDS_MAX
        failure = ApiError(ErrorCode.NOT_CONTROLLER, "There is no active controller now; try again.")
        refusal: Message | None = None
        while (left := deadline - self._clock.monotonic()) > 0:
            controller_id = self._quorum.leader_id
            if controller_id != NO_NODE:
                asking = asyncio.ensure_future(
                    self._peers.ask(
                        controller_id, api_key, api_version, request, timeout_seconds=min(left, TRY_SECONDS_MAX)
                    )
                )
                try:
                    if await self._is_answered(asking, controller_id):
                        refusal = asking.result()
                        if not is_of_no_controller(refusal):
                            return refusal
                except ApiError as error:
                    if error.code is not ErrorCode.NETWORK_EXCEPTION:
                        raise
                    failure = error
                finally:
                    asking.cancel()
            await asyncio.sleep(RETRY_SECONDS)
        if refusal is not None:
            return refusal
        raise failure

    async def _is_answered(self, asking: "asyncio.Future[Any]", controller_id: NodeId) -> bool:
        """False: somebody else is the controller by now."""
        while not asking.done():
            await asyncio.wait((asking,), timeout=LOOK_SECONDS)
            if not asking.done() and self._quorum.leader_id not in (controller_id, NO_NODE):
                return False
        return True


def is_of_no_controller(response: Any) -> bool:
    """Whether a node answered that is not the active controller: nothing was done. Each API says it where it can."""
    if getattr(response, "error_code", ErrorCode.NONE) == ErrorCode.NOT_CONTROLLER:
        return True
    for name in ("topics", "responses", "results"):
        for item in getattr(response, name, None) or ():
            if getattr(item, "error_code", ErrorCode.NONE) == ErrorCode.NOT_CONTROLLER:
                return True
    return False
