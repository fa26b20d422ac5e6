"""What the active controller does: it decides what brokers and administrators ask for, and looks after the brokers.

Decisions are pure (`metadata/controller`); this hands them to the runtime, one per request, and brings what they need of
the present: who was heard of when, whose connection was lost, how far logs go. All of that is soft: whoever takes over
starts anew and finds by itself what its predecessor left half done. A departure it was about to write is found again
because the broker is still gone, an arrival because partitions have no leader.

By the clock, while active: brokers not heard of are fenced, leaders go back to the preferred replicas. A lost connection
to a broker is looked into at once (`broker_watch`).
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol

from ottla.base.clock import Clock
from ottla.base.errors import ApiError, ErrorCode, invariant
from ottla.base.owned_tasks import OwnedTasks
from ottla.base.types import NodeId
from ottla.broker.broker_watch import BrokerWatch
from ottla.broker.callers import Callers
from ottla.broker.log_comparison import ComparedLogs, compare_logs
from ottla.broker.peers import Peers
from ottla.metadata.configs import BrokerConfig
from ottla.metadata.controller.alter_partition import decide_alter_partition
from ottla.metadata.controller.broker_partitions import plan_log_comparison
from ottla.metadata.controller.brokers import (
    decide_fence_broker,
    decide_register_broker,
    decide_register_controller,
    decide_unregister_broker,
)
from ottla.metadata.controller.configs import decide_record_min_isr
from ottla.metadata.controller.decision import ControllerSettings, Decision
from ottla.metadata.controller.directories import decide_assign_replicas_to_dirs
from ottla.metadata.controller.elections import (
    decide_balance_leaders,
    decide_elect_leaders,
    decide_elect_where_leaderless,
)
from ottla.metadata.controller.heartbeats import decide_heartbeat
from ottla.metadata.controller.producer_ids import ProducerIdBlock, decide_allocate_producer_ids
from ottla.metadata.controller.reassignments import decide_alter_reassignments, decide_list_reassignments
from ottla.metadata.controller.sessions import BrokerSessions
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataImage
from ottla.metadata.image_parts import PartitionRef
from ottla.metadata.runtime import ControllerRuntime
from ottla.raft.lease import SilentLeader
from ottla.wire import api

logger = logging.getLogger(__name__)

Chore = Callable[[], Coroutine[Any, Any, None]]

LOOKS_PER_SESSION: Final = 18  # A silent broker is fenced at most so much of its session late.
BALANCE_PAUSE_SECONDS: Final = 1.0  # Between two portions: clients look up their leaders anew.
RETRY_SECONDS: Final = 1.0
PARTITIONS_NAMED_MAX: Final = 20


class Leadership(Protocol):
    """What the quorum knows of this node's own leadership (`raft/lease`)."""

    @property
    def is_followed(self) -> bool: ...

    @property
    def silent_leader(self) -> SilentLeader | None: ...


class ActiveController:
    def __init__(
        self,
        *,
        runtime: ControllerRuntime,
        config: BrokerConfig,
        settings: ControllerSettings,
        cluster_id: str,
        clock: Clock,
        peers: Peers,
        leadership: Leadership,
        callers: Callers,
    ) -> None:
        self._runtime = runtime
        self._config = config
        self._settings = settings
        self._static_configs = settings.static_broker_configs
        self._cluster_id = cluster_id
        self._clock = clock
        self._peers = peers
        self._leadership = leadership
        self._callers = callers
        self._is_active = False
        self.unclean_election_count = 0
        """Since this process began, whoever was the controller (Kafka's UncleanLeaderElectionsPerSec)."""
        self._sessions = self._new_sessions()
        self._watch = self._new_watch()
        self._election_due = asyncio.Event()
        self._tasks = OwnedTasks()
        self._chores: list[asyncio.Task[None]] = []
        runtime.listen(self)

    @property
    def is_active(self) -> bool:
        return self._is_active

    def take_over(self) -> None:
        """This node leads the quorum, and its image holds the whole log."""
        invariant(not self._is_active, "a controller takes over once")
        self._is_active = True
        self._sessions = self._new_sessions()
        if (silent := self._leadership.silent_leader) is not None:
            self._sessions.on_silence(self._runtime.image, silent.leader_id, silent.heard_ms)
        self._watch = self._new_watch()
        self._watch.follow(self._runtime.image.brokers)
        session_seconds = self._config.integer("broker.session.timeout.ms") / 1000
        self._begin(self._repeat(self.fence_silent_brokers, session_seconds / LOOKS_PER_SESSION), "fence brokers")
        self._begin(self._record_min_isr(), "record min.insync.replicas")
        self._election_due.set()
        self._begin(self._elect_when_due(), "elect leaders")
        if self._config.flag("auto.leader.rebalance.enable"):
            seconds = self._config.integer("leader.imbalance.check.interval.seconds")
            self._begin(self._repeat(self.balance_leaders, seconds), "balance leaders")
        logger.info("node %d is the active controller", self._settings.node_id)

    def step_down(self) -> None:
        """Another leads, or nobody. May be called again."""
        if self._is_active:
            logger.info("node %d is the active controller no more", self._settings.node_id)
        self._is_active = False
        self._watch.close()
        for chore in self._chores:
            chore.cancel()
        self._chores.clear()

    async def close(self) -> None:
        self.step_down()
        await self._tasks.settle()

    def on_metadata(self, delta: MetadataDelta, image: MetadataImage) -> None:
        unclean = delta.unclean_elections
        self.unclean_election_count += len(unclean)
        if not self._is_active:
            return
        if unclean:
            logger.warning("unclean elections: %d partitions are led by replicas that may lack committed records: %s",
                           len(unclean), ", ".join(map(str, unclean[:PARTITIONS_NAMED_MAX])))  # fmt: skip
        if empty := delta.begun_empty:
            logger.warning("%d of them begin empty, all they held is lost with a disk that was replaced: %s",
                           len(empty), ", ".join(map(str, empty[:PARTITIONS_NAMED_MAX])))  # fmt: skip
        if delta.brokers_changed:
            self._watch.follow(image.brokers)
        if delta.brokers_changed or delta.configs_changed:  # One came, or unclean elections are allowed now.
            self._election_due.set()

    # -- what brokers ask for ----------------------------------------------------------------------------------------

    async def register_broker(self, request: api.BrokerRegistrationRequest) -> int:
        """The broker's epoch."""
        self._check_active()
        return await self._runtime.submit(lambda image: self._decide_register(image, request))

    async def heartbeat(self, request: api.BrokerHeartbeatRequest) -> api.BrokerHeartbeatResponse:
        self._check_active()
        self._check_followed()
        return await self._runtime.submit(lambda image: self._decide_heartbeat(image, request))

    async def register_controller(self, request: api.ControllerRegistrationRequest) -> None:
        await self._runtime.submit(lambda image: decide_register_controller(image, request))

    async def alter_partition(self, request: api.AlterPartitionRequest) -> api.AlterPartitionResponse:
        return await self._runtime.submit(
            lambda image: decide_alter_partition(
                image, request, static_configs=self._static_configs, refusing=self._sessions.refusing_ids
            )
        )

    async def assign_replicas_to_dirs(
        self, request: api.AssignReplicasToDirsRequest
    ) -> api.AssignReplicasToDirsResponse:
        return await self._runtime.submit(lambda image: decide_assign_replicas_to_dirs(image, request))

    async def allocate_producer_ids(self, request: api.AllocateProducerIdsRequest) -> ProducerIdBlock:
        return await self._runtime.submit(
            lambda image: decide_allocate_producer_ids(image, request.broker_id, request.broker_epoch)
        )

    def _decide_register(self, image: MetadataImage, request: api.BrokerRegistrationRequest) -> Decision[int]:
        existing = image.brokers.get(request.broker_id)
        is_alive = (
            existing is not None
            and existing.id != self._settings.node_id  # An earlier incarnation of ours ended before this process began.
            and self._sessions.is_in_contact(existing, self._now_ms())
        )
        return decide_register_broker(
            image, request, static_configs=self._static_configs, cluster_id=self._cluster_id, is_alive=is_alive
        )

    def _decide_heartbeat(
        self, image: MetadataImage, request: api.BrokerHeartbeatRequest
    ) -> Decision[api.BrokerHeartbeatResponse]:
        if self._sessions.on_heartbeat(image, request, self._now_ms()):
            self._election_due.set()  # What it says of its disks may be all that a partition waits for.
        return decide_heartbeat(image, request, self._sessions, static_configs=self._static_configs)

    # -- what administrators ask for ---------------------------------------------------------------------------------

    async def elect_leaders(self, request: api.ElectLeadersRequest) -> api.ElectLeadersResponse:
        return await self._runtime.submit(
            lambda image: decide_elect_leaders(
                image,
                request,
                static_configs=self._static_configs,
                offline_directories=self._sessions.offline_directories(image),
            )
        )

    async def alter_reassignments(
        self, request: api.AlterPartitionReassignmentsRequest
    ) -> api.AlterPartitionReassignmentsResponse:
        return await self._runtime.submit(
            lambda image: decide_alter_reassignments(image, request, static_configs=self._static_configs)
        )

    async def list_reassignments(
        self, request: api.ListPartitionReassignmentsRequest
    ) -> api.ListPartitionReassignmentsResponse:
        return await self._runtime.submit(lambda image: decide_list_reassignments(image, request))

    async def unregister_broker(self, request: api.UnregisterBrokerRequest) -> api.UnregisterBrokerResponse:
        return await self._runtime.submit(
            lambda image: decide_unregister_broker(image, request, static_configs=self._static_configs)
        )

    # -- brokers that are gone ---------------------------------------------------------------------------------------

    async def fence_silent_brokers(self) -> None:
        silent = await self._runtime.submit(
            lambda image: Decision(records=[], reply=self._sessions.expired(image, self._now_ms()))
        )
        await asyncio.gather(*(self._fence_unless_alive(broker.id, broker.epoch) for broker in silent))

    async def _fence_unless_alive(self, broker_id: NodeId, broker_epoch: int) -> None:
        await self._runtime.submit(lambda image: self._decide_fence(image, broker_id, broker_epoch))

    def _decide_fence(self, image: MetadataImage, broker_id: NodeId, broker_epoch: int) -> Decision[None]:
        broker = image.brokers.get(broker_id)
        if broker is None or broker.epoch != broker_epoch or broker.fenced:
            return Decision(records=[], reply=None)
        if self._sessions.is_alive(broker, self._now_ms()):
            return Decision(records=[], reply=None)
        logger.warning("broker %d with epoch %d is gone, others take over what it led", broker_id, broker_epoch)
        return decide_fence_broker(image, broker_id, broker_epoch, static_configs=self._static_configs)

    def _on_gone(self, broker_id: NodeId, broker_epoch: int) -> None:
        self._begin(self._fence_gone(broker_id, broker_epoch), f"fence {broker_id}")

    async def _fence_gone(self, broker_id: NodeId, broker_epoch: int) -> None:
        def decide(image: MetadataImage) -> Decision[None]:
            self._sessions.on_gone(image, broker_id, broker_epoch, self._now_ms())
            return self._decide_fence(image, broker_id, broker_epoch)

        await self._runtime.submit(decide)

    # -- leaders -----------------------------------------------------------------------------------------------------

    async def balance_leaders(self) -> None:
        is_more_left = True
        while is_more_left:
            is_more_left = await self._runtime.submit(
                lambda image: decide_balance_leaders(image, static_configs=self._static_configs)
            )
            if is_more_left:
                await asyncio.sleep(BALANCE_PAUSE_SECONDS)

    async def elect_where_leaderless(self) -> bool:
        """False: logs have to be compared, and not every broker that has one says how far it goes."""
        waiting, broker_epochs = await self._runtime.submit(_look_for_log_comparison)
        compared = await compare_logs(self._peers, waiting, broker_epochs)
        elected = await self._runtime.submit(lambda image: self._decide_elect(image, compared))
        if elected:
            logger.info("%d partitions that had no leader have one again", elected)
        return not waiting or not (await self._runtime.submit(_look_for_log_comparison))[0]

    def _decide_elect(self, image: MetadataImage, compared: ComparedLogs) -> Decision[int]:
        return decide_elect_where_leaderless(
            image,
            static_configs=self._static_configs,
            log_ends=compared.valid_in(image),
            offline_directories=self._sessions.offline_directories(image),
        )

    async def _elect_when_due(self) -> None:
        """When something changed that partitions may wait for, and now and then."""
        seconds = self._config.integer("unclean.leader.election.interval.ms") / 1000
        while True:
            try:
                async with asyncio.timeout(seconds):
                    await self._election_due.wait()
            except TimeoutError:
                pass
            self._election_due.clear()
            try:
                is_done = await self.elect_where_leaderless()
            except ApiError as error:
                logger.info("leaders are elected again later: %s", error)
                is_done = False
            if not is_done:
                await asyncio.sleep(RETRY_SECONDS)
                self._election_due.set()

    async def _record_min_isr(self) -> None:
        while True:
            try:
                text = await self._runtime.submit(lambda image: decide_record_min_isr(image, self._settings))
                if text is not None:
                    logger.info("min.insync.replicas=%s of this node's settings is that of the whole cluster now", text)
                return
            except ApiError as error:
                logger.info("min.insync.replicas is recorded later: %s", error)
            await asyncio.sleep(RETRY_SECONDS)

    # -- the clock ---------------------------------------------------------------------------------------------------

    def _begin(self, chore: Coroutine[Any, Any, None], name: str) -> None:
        self._chores = [task for task in self._chores if not task.done()]
        self._chores.append(self._tasks.spawn(chore, name=name))

    async def _repeat(self, chore: Chore, seconds: float) -> None:
        task = asyncio.current_task()
        # Asked, not waited for: the office may end within what a chore has begun, and `gather` tells its refusal alone.
        while task is not None and not task.cancelling():
            await asyncio.sleep(seconds)
            try:
                await chore()
            except ApiError as error:  # The metadata log does not take it now, or it is not ours any more.
                logger.info("%s is tried again: %s", chore.__name__, error)

    def _now_ms(self) -> int:
        """By a clock that nobody sets: a session does not end because the date was put right."""
        return int(self._clock.monotonic() * 1000)

    def _check_active(self) -> None:
        if not self._is_active:
            raise ApiError(ErrorCode.NOT_CONTROLLER, "This node is not the active controller.")

    def _check_followed(self) -> None:
        """Another may be elected by now, whose sessions began before this heartbeat: it must not prolong anybody's lease."""
        if not self._leadership.is_followed:
            raise ApiError(ErrorCode.NOT_CONTROLLER, "This node may not be the active controller any more.")

    def _new_sessions(self) -> BrokerSessions:
        return BrokerSessions(self._config.integer("broker.session.timeout.ms"), self._now_ms())

    def _new_watch(self) -> BrokerWatch:
        return BrokerWatch(
            own_id=self._settings.node_id,
            peers=self._peers,
            callers=self._callers,
            on_cut=lambda broker_id, epoch: self._sessions.on_cut(broker_id, epoch),
            on_gone=self._on_gone,
        )


def _look_for_log_comparison(image: MetadataImage) -> Decision[tuple[list[PartitionRef], dict[NodeId, int]]]:
    epochs = {broker.id: broker.epoch for broker in image.brokers.values()}
    return Decision(records=[], reply=(plan_log_comparison(image), epochs))
