"""A broker's life in its cluster: it registers, says again and again that it is there, is let serve, and is let go.

    register ──▶ FENCED ──caught up──▶ ACTIVE ──controlled_shutdown──▶ SHUTTING_DOWN ──everybody told──▶ STOPPED

The controller decides; this is what its answers make of us. An answer that does not come in a fraction of the session
time-out is given up and asked for again: the controller may be another by then. Nothing is waited for longer than it
takes: the first heartbeat goes out at once, a fenced broker does not wait an interval, and metadata that others wait to
hear of from us is told when it is applied (`on_applied`).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, Final
from uuid import UUID

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.owned_tasks import OwnedTasks
from ottla.base.types import Offset
from ottla.broker.registration import NodeIdentity
from ottla.log.clean_shutdown import NO_BROKER_EPOCH
from ottla.metadata.configs import BrokerConfig
from ottla.metadata.controller.heartbeats import BrokerState
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataImage
from ottla.wire import api
from ottla.wire.apis import ApiKey
from ottla.wire.message import Message

logger = logging.getLogger(__name__)

AskController = Callable[[ApiKey, int, Message], Awaitable[Any]]

BROKER_REGISTRATION_VERSION: Final = 4
CONTROLLER_REGISTRATION_VERSION: Final = 0
HEARTBEAT_VERSION: Final = 1
RETRY_SECONDS: Final = 0.05
RETRY_SECONDS_MAX: Final = 0.5
FENCED_SECONDS: Final = 0.1  # Until the next heartbeat of a broker that waits to be let serve.
LEAVING_SECONDS: Final = 0.1  # While a broker hands over what it leads: of that one, and of those who must hear of it.

# Asking again would not help: a person must look.
_FINAL_REFUSALS: Final = (
    ErrorCode.INCONSISTENT_CLUSTER_ID,
    ErrorCode.INVALID_REGISTRATION,
    ErrorCode.UNSUPPORTED_VERSION,
)
_UNKNOWN_HERE: Final = (ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED)


class BrokerLifecycle:
    def __init__(
        self,
        *,
        identity: NodeIdentity,
        config: BrokerConfig,
        ask_controller: AskController,
        applied_offset: Callable[[], Offset],
        offline_directories: Callable[[], Sequence[UUID]] = tuple,
        unconfirmed_seconds: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """`applied_offset`: how much of the metadata log this node has applied. `offline_directories`: by their ids.

        `unconfirmed_seconds`: while this node is the controller, how long ago that was beyond doubt.
        """
        self._identity = identity
        self._ask_controller = ask_controller
        self._applied_offset = applied_offset
        self._offline_directories = offline_directories
        self._unconfirmed_seconds = unconfirmed_seconds
        self._interval_seconds = config.integer("broker.heartbeat.interval.ms") / 1000
        self._session_seconds = config.integer("broker.session.timeout.ms") / 1000
        self.broker_epoch = NO_BROKER_EPOCH
        self.state = BrokerState.FENCED
        self._heard_at = asyncio.get_running_loop().time()
        self._has_complained = False
        self._wants_shut_down = False
        self._somebody_leaves = False
        self._is_due = asyncio.Event()
        self._unfenced = asyncio.Event()
        self._stopped = asyncio.Event()
        self.on_lease_over: Callable[[], None] = lambda: None
        """Called once it has ended, and again while no controller answers: no client has business here any more."""
        self._tasks = OwnedTasks()
        self._heartbeats: asyncio.Task[None] | None = None

    @property
    def is_broker(self) -> bool:
        """False for a node that is a controller alone (`process.roles`): it registers as one, and that is all."""
        return self._identity.is_broker

    async def register(self) -> None:
        """Waits until the cluster has this node. `ApiError`: the cluster will never have it."""
        if self.is_broker:  # First: of two processes with one id, the one that came later is told here.
            await self._register_broker()
        if self._identity.is_controller:
            request = self._identity.controller_registration()
            await self._ask_until_done(ApiKey.CONTROLLER_REGISTRATION, CONTROLLER_REGISTRATION_VERSION, request)

    def start(self) -> None:
        """This node can serve: heartbeats begin, and say so."""
        self._heard_at = asyncio.get_running_loop().time()
        self._heartbeats = self._tasks.spawn(self._send_heartbeats(), name="heartbeats")

    async def wait_unfenced(self) -> None:
        await self._unfenced.wait()

    async def controlled_shutdown(self, timeout_seconds: float) -> bool:
        """Others lead what this broker led, and everybody knows. False: it took too long, and clients will notice."""
        if self._heartbeats is None:
            return False
        self._wants_shut_down = True
        self._is_due.set()
        try:
            async with asyncio.timeout(timeout_seconds):
                await self._stopped.wait()
        except TimeoutError:
            logger.warning("nobody let this broker go within %s s; it stops all the same", timeout_seconds)
        await self.close()
        return self.state is BrokerState.STOPPED

    async def close(self) -> None:
        if self._heartbeats is not None:
            self._heartbeats.cancel()
        await self._tasks.settle()

    def on_applied(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Metadata has been applied on this node. Whoever waits to hear that from us hears it now."""
        if delta.brokers_changed:
            self._somebody_leaves = any(
                broker.in_controlled_shutdown and not broker.fenced for broker in image.brokers.values()
            )
        registered = image.brokers.get(self._identity.node_id)
        if self._somebody_leaves or (registered is not None and registered.fenced):
            self._is_due.set()

    def hurry(self) -> None:
        """There is news for the controller: the next heartbeat does not wait."""
        self._is_due.set()

    # -- registration ------------------------------------------------------------------------------------------------

    async def _register_broker(self) -> None:
        request = self._identity.broker_registration()
        if self.broker_epoch != NO_BROKER_EPOCH:
            request.previous_broker_epoch = self.broker_epoch  # The same process: nothing of its logs is lost.
        response = await self._ask_until_done(ApiKey.BROKER_REGISTRATION, BROKER_REGISTRATION_VERSION, request)
        self.broker_epoch = response.broker_epoch
        self._become(BrokerState.FENCED)
        logger.info("broker %d is registered with epoch %d", self._identity.node_id, self.broker_epoch)

    async def _ask_until_done(self, api_key: ApiKey, version: int, request: Message) -> Any:
        pause_seconds, told = RETRY_SECONDS, None
        while True:
            try:
                return await self._ask(api_key, version, request, self._session_seconds)
            except ApiError as error:
                if error.code in _FINAL_REFUSALS:
                    raise
                if error.code is not told:
                    told = error.code
                    self._tell_refusal(api_key, error)
            await asyncio.sleep(pause_seconds)
            pause_seconds = min(2 * pause_seconds, RETRY_SECONDS_MAX)

    def _tell_refusal(self, api_key: ApiKey, error: ApiError) -> None:
        if error.code is ErrorCode.DUPLICATE_BROKER_REGISTRATION:
            logger.warning("another process is broker %d; this one waits until its session has ended: if it lives, "
                           "give one of them another node.id", self._identity.node_id)  # fmt: skip
        else:
            logger.info("%s is asked for again: %s", api_key.name, error)

    async def _ask(self, api_key: ApiKey, version: int, request: Message, timeout_seconds: float) -> Any:
        try:
            async with asyncio.timeout(timeout_seconds):
                response = await self._ask_controller(api_key, version, request)
        except TimeoutError:
            raise ApiError(ErrorCode.NETWORK_EXCEPTION, "the controller does not answer") from None
        if response.error_code != ErrorCode.NONE:
            raise ApiError(ErrorCode(response.error_code), f"{api_key.name} was refused")
        return response

    async def register_again(self) -> float:
        """Of a broker that was registered and is not any more. Returns how many seconds to wait before going on."""
        logger.warning("broker %d is not known with epoch %d any more", self._identity.node_id, self.broker_epoch)
        try:
            await self._register_broker()
        except ApiError as error:
            logger.error("the cluster does not take this broker back: %s; it is asked again", error)
            return self._session_seconds
        return 0

    # -- heartbeats --------------------------------------------------------------------------------------------------

    async def _send_heartbeats(self) -> None:
        while self.state is not BrokerState.STOPPED:
            self._is_due.clear()
            try:
                await self._heartbeat()
                pause_seconds = self._seconds_between()
            except ApiError as error:
                self._on_unanswered()
                pause_seconds = await self.register_again() if error.code in _UNKNOWN_HERE else RETRY_SECONDS
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_seconds):
                    await self._is_due.wait()

    async def _heartbeat(self) -> None:
        request = api.BrokerHeartbeatRequest(
            broker_id=self._identity.node_id,
            broker_epoch=self.broker_epoch,
            current_metadata_offset=self._applied_offset(),
            want_shut_down=self._wants_shut_down,
            offline_log_dirs=list(self._offline_directories()),
        )
        # Several fit into a session, so that one controller's death does not end it.
        timeout_seconds = min(self._interval_seconds, self._session_seconds / 4)
        # When the lease ends clients are sent away: the last one in it is not waited for any longer.
        lease_left_seconds = self._heard_at + self._session_seconds - asyncio.get_running_loop().time()
        if lease_left_seconds > 0:
            timeout_seconds = min(timeout_seconds, lease_left_seconds + RETRY_SECONDS)
        # A controller that answers itself need not be one any more: its lease is no longer than everybody's.
        sent_at = asyncio.get_running_loop().time() - self._unconfirmed_seconds()
        response = await self._ask(ApiKey.BROKER_HEARTBEAT, HEARTBEAT_VERSION, request, timeout_seconds)
        self._heard_at, self._has_complained = sent_at, False
        if response.should_shut_down:
            self._become(BrokerState.STOPPED)
        elif response.is_fenced:
            self._become(BrokerState.FENCED)
        else:
            self._become(BrokerState.SHUTTING_DOWN if request.want_shut_down else BrokerState.ACTIVE)

    @property
    def is_unheard(self) -> bool:
        """Fenced; or no controller has answered for a whole session: then it is fenced by now, and nobody could tell it.

        Counted from when the last answered heartbeat left, which is before the controller's session began: a lease. True
        at once when a process goes on that was held, before anything else is done.
        """
        return self._is_lease_over or self.state is BrokerState.FENCED

    @property
    def _is_lease_over(self) -> bool:
        return asyncio.get_running_loop().time() - self._heard_at > self._session_seconds

    def _on_unanswered(self) -> None:
        if not self._is_lease_over:
            return
        if not self._has_complained:
            self._has_complained = True
            logger.warning("no controller answers: this broker is fenced by now, and closes its clients' connections")
        self.on_lease_over()

    def _seconds_between(self) -> float:
        if self.state is BrokerState.FENCED:
            return min(FENCED_SECONDS, self._interval_seconds)
        if self._somebody_leaves or self.state is BrokerState.SHUTTING_DOWN:
            return min(LEAVING_SECONDS, self._interval_seconds)
        return self._interval_seconds

    def _become(self, state: BrokerState) -> None:
        if state is self.state:
            return
        logger.info("broker %d is %s", self._identity.node_id, state.name.lower().replace("_", " "))
        self.state = state
        if state is BrokerState.ACTIVE:
            self._unfenced.set()
        elif state is BrokerState.FENCED:
            self._unfenced.clear()
        elif state is BrokerState.STOPPED:
            self._stopped.set()
