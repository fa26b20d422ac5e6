"""A node: the metadata it decides and follows, the partitions it holds, what its handlers ask for.

Start: log directories, metadata log, registration, partitions, then requests. Committed metadata is applied to the
partitions in order by one task; a request that changed metadata is answered once its own change is applied here, so that
a topic just created can be written to.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar
from uuid import UUID

from ottla.base.clock import Clock
from ottla.base.disk import Disk
from ottla.base.errors import ApiError, ErrorCode, InvariantViolation, invariant
from ottla.base.owned_tasks import OwnedTasks
from ottla.base.types import NodeId, Offset, ProducerId
from ottla.base.workers import Workers
from ottla.broker.active_controller import ActiveController
from ottla.broker.advertised import AdvertisedAddresses
from ottla.broker.callers import Callers
from ottla.broker.controller_channel import ControllerChannel
from ottla.broker.coordinators import Coordinators
from ottla.broker.fetch_session import FetchSessions
from ottla.broker.lifecycle import BrokerLifecycle
from ottla.broker.neighbours import Neighbours
from ottla.broker.peers import Peers
from ottla.broker.quorum.driver import Quorum
from ottla.broker.refused_batches import RefusedBatches
from ottla.broker.registration import NodeIdentity
from ottla.broker.transactions import Transactions
from ottla.broker.verification import Verification
from ottla.metadata.config_key import ConfigValue
from ottla.metadata.configs import BrokerConfig, broker_key, resolve_broker_config
from ottla.metadata.controller.decision import ControllerSettings, Decision, broker_layers
from ottla.metadata.controller.producer_ids import ProducerIdBlock
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataImage
from ottla.metadata.topic_names import INTERNAL_TOPICS, METADATA_TOPIC
from ottla.replica.isr_changes import ALTER_PARTITION_VERSION
from ottla.replica.leader_session import FETCH_VERSION
from ottla.replica.partitions import Partitions
from ottla.replica.replication import Replication
from ottla.replica.storage import Storage
from ottla.wire import api
from ottla.wire.apis import ApiKey
from ottla.wire.message import Message

logger = logging.getLogger(__name__)

Reply = TypeVar("Reply")

LEADER_SECONDS_MAX: Final = 5.0  # Beyond what a fetch waits for by itself.
CATCH_UP_LOOKS_MAX: Final = 500
CATCH_UP_LOOK_SECONDS: Final = 0.003
REPLACED_SECONDS: Final = 0.1  # The other process, if it lives, serves by then, and this one is told to wait.

AddressOf = Callable[[NodeId], tuple[str, int] | None]
ConnectPeers = Callable[[NodeId, Peers, AddressOf], Peers]


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """The ports: everything a node knows of the outside."""

    clock: Clock
    workers: Workers
    disk: Disk
    new_uuid: Callable[[], UUID]
    new_session_id: Callable[[], int]
    chance: Callable[[], float]
    """A number between 0 and 1, drawn anew."""
    connect_peers: ConnectPeers = lambda node_id, loopback, address_of: loopback
    """The way to other nodes, and to itself."""


class Node:
    def __init__(
        self,
        *,
        world: World,
        config: BrokerConfig,
        cluster_id: str,
        quorum: Quorum,
        settings: ControllerSettings,
        identity: NodeIdentity,
        storages: Sequence[Storage],
        partitions: Partitions,
        connect_peers: "Callable[[Node], Peers]",
    ) -> None:
        self.clock = world.clock
        self.workers = world.workers
        self.disk = world.disk
        self.config = config
        self.cluster_id = cluster_id
        self.node_id: NodeId = config.integer("node.id")
        self.quorum = quorum
        self.runtime = runtime = quorum.runtime
        self.settings = settings
        self.directories = storages
        self.partitions = partitions
        self.fetch_sessions = FetchSessions(
            world.new_session_id, config.integer("max.incremental.fetch.session.cache.slots")
        )
        self.refused_batches = RefusedBatches(world.clock)
        self.advertised = AdvertisedAddresses()
        self.stopping = False
        self._producer_ids: ProducerIdBlock | None = None
        self._next_producer_id: ProducerId = 0
        self._producer_id_lock = asyncio.Lock()
        self._deltas: deque[tuple[Offset, MetadataDelta]] = deque()
        self._applied_offset: Offset = runtime.image.offset
        self._applying = False
        self._is_following = False
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._line_end = self._ready
        self._tasks = OwnedTasks()
        self._apply_waiters: list[tuple[Offset, asyncio.Future[None]]] = []
        self.peers = connect_peers(self)
        self.callers = Callers(runtime.image)
        self._controller = ControllerChannel(quorum, self.peers, self.clock)
        self.active_controller = ActiveController(
            runtime=runtime,
            config=config,
            settings=settings,
            cluster_id=cluster_id,
            clock=self.clock,
            peers=self.peers,
            leadership=quorum,
            callers=self.callers,
        )
        self.lifecycle = BrokerLifecycle(
            identity=identity,
            config=config,
            ask_controller=self.ask_controller,
            applied_offset=lambda: self.applied_offset,
            offline_directories=self._offline_directories,
            unconfirmed_seconds=lambda: quorum.unconfirmed_ms / 1000,
        )
        self.replication = Replication(
            node_id=self.node_id,
            broker_epoch=lambda: self.broker_epoch,
            partitions=partitions,
            config=config,
            ask=self._ask_leader,
            ask_controller=lambda request: self.ask_controller(
                ApiKey.ALTER_PARTITION, ALTER_PARTITION_VERSION, request
            ),
        )
        self.neighbours = Neighbours(self.node_id, runtime.image, self.peers, self.clock)
        self.transactions = Transactions(self)
        self.verification = Verification(self)
        self.coordinators = Coordinators(
            partitions=partitions,
            image=runtime.image,
            config=config,
            clock=self.clock,
            workers=self.workers,
            neighbours=self.neighbours,
            change_metadata=self.change_metadata,
            new_transaction_machine=self.transactions.new_machine,
            new_uuid=world.new_uuid,
            is_blind=quorum.is_blind,
        )
        for storage in storages:
            storage.on_changed = self.lifecycle.hurry
        runtime.listen(self)
        runtime.listen(self.neighbours)
        quorum.on_role_changed(self._on_role_changed)

    # -- metadata ----------------------------------------------------------------------------------------------------

    @property
    def image(self) -> MetadataImage:
        """What is committed. Handlers read it; only replay changes it."""
        return self.runtime.image

    async def submit(self, decide: Callable[[MetadataImage], Decision[Reply]]) -> Reply:
        """Decides, commits and applies here; then the reply is true for whoever asks this node next."""
        reply = await self.runtime.submit(decide)
        await self._wait_applied(self.image.offset)
        return reply

    async def wait_registered(self) -> None:
        """Until the image has this broker as it registered: roles from before are not ours, whatever our logs have lost.

        Another process may have taken the place since: a request of the one before us, long dead, can come after ours.
        """
        while not self._is_registered:
            if self.image.offset < self.lifecycle.broker_epoch:
                await asyncio.sleep(CATCH_UP_LOOK_SECONDS)
            else:
                await asyncio.sleep(REPLACED_SECONDS)
                await asyncio.sleep(await self.lifecycle.register_again())

    @property
    def _is_registered(self) -> bool:
        me = self.image.brokers.get(self.node_id)
        return me is not None and me.epoch == self.lifecycle.broker_epoch

    async def load(self) -> None:
        """Opens the partitions that the image gives this broker; from here on they follow it."""
        self._is_following = self._applying = True
        self._applied_offset = self.image.offset
        layers = broker_layers(self.image, self.settings, self.node_id)
        await self.partitions.load(self.image, layers, is_current=self._is_registered)
        self.replication.start()
        self.coordinators.follow()
        await self._apply_deltas()

    @property
    def is_ready(self) -> bool:
        return self._line_end.done()

    async def wait_ready(self) -> None:
        """In the order of the calls: who comes next goes on when the one before has done all that it does at once."""
        before = self._line_end
        mine = self._line_end = asyncio.get_running_loop().create_future()
        try:
            await asyncio.shield(before)
        finally:
            before.add_done_callback(lambda _: mine.set_result(None))

    def on_ready(self) -> None:
        """It has all it needs to serve clients."""
        if not self._ready.done():
            self._ready.set_result(None)

    def on_metadata(self, delta: MetadataDelta, image: MetadataImage) -> None:
        if not self._is_following:
            return
        self._deltas.append((image.offset, delta))
        if not self._applying:
            self._applying = True
            self._tasks.spawn(self._apply_deltas(), name="apply metadata")

    async def _apply_deltas(self) -> None:
        try:
            while self._deltas:
                offset, delta = self._deltas.popleft()
                layers = broker_layers(self.image, self.settings, self.node_id)
                await self.partitions.apply(self.image, delta, layers)
                self.coordinators.follow()
                self.coordinators.on_topics_deleted(topic.name for topic in delta.topics_deleted)
                self._on_applied(offset)
                self.lifecycle.on_applied(delta, self.image)
        except Exception as error:
            # A node that no longer follows the metadata would serve what is not true: it stops and is started anew.
            raise InvariantViolation(f"committed metadata cannot be applied: {error}") from error
        finally:
            self._applying = False

    def _on_applied(self, offset: Offset) -> None:
        self._applied_offset = offset
        waiting, self._apply_waiters = self._apply_waiters, []
        for wanted, future in waiting:
            if wanted > offset:
                self._apply_waiters.append((wanted, future))
            elif not future.done():
                future.set_result(None)

    async def _wait_applied(self, offset: Offset) -> None:
        if not self._deltas and not self._applying:
            return
        last = self._deltas[-1][0] if self._deltas else offset
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._apply_waiters.append((min(last, offset), future))
        await future

    @property
    def broker_epoch(self) -> int:
        """Of the present registration; a broker that was forgotten registers anew."""
        return self.lifecycle.broker_epoch

    @property
    def is_cut_off(self) -> bool:
        """Others lead by now what this node believes to lead. Its clients had better ask them."""
        return len(self.image.brokers) > 1 and self.lifecycle.is_broker and self.lifecycle.is_unheard

    def _on_role_changed(self) -> None:
        if self.quorum.is_leader and not self.active_controller.is_active:
            self.active_controller.take_over()
        elif not self.quorum.is_leader:
            self.active_controller.step_down()

    def _offline_directories(self) -> list[UUID]:
        """Those whose replicas others should lead. Where there is nobody else this node goes on with what can be read.

        A full one among others is not told: to the controller a directory that was gone once is gone until a restart.
        """
        if len(self.image.brokers) == 1:
            return []
        is_helpless = all(storage.is_refusing for storage in self.directories)
        return [one.directory.directory_id for one in self.directories if is_helpless or one.has_failed]

    @property
    def controller_id(self) -> NodeId:
        """The active controller, as far as this node knows; NO_NODE while there is none."""
        return self.quorum.leader_id

    @property
    def is_active_controller(self) -> bool:
        return self.controller_id == self.node_id

    async def ask_controller(self, api_key: ApiKey, api_version: int, request: Message) -> Any:
        return await self._controller.ask(api_key, api_version, request)

    async def _ask_leader(self, leader_id: NodeId, request: api.FetchRequest) -> api.FetchResponse:
        seconds = request.max_wait_ms / 1000 + LEADER_SECONDS_MAX
        response: api.FetchResponse = await self.peers.ask(
            leader_id, ApiKey.FETCH, FETCH_VERSION, request, timeout_seconds=seconds
        )
        return response

    async def change_metadata(self, api_key: ApiKey, api_version: int, request: Message) -> Any:
        """As `ask_controller`; and what the answer tells of is applied here, so that it is true for who asks next."""
        response = await self.ask_controller(api_key, api_version, request)
        if not self.is_active_controller:
            await self._catch_up()
        return response

    async def _catch_up(self) -> None:
        """Until this node has applied what the controller has committed by now; not for ever."""
        kind = api.DescribeQuorumRequest
        topic = kind.TopicData(topic_name=METADATA_TOPIC, partitions=[kind.PartitionData(partition_index=0)])
        described = await self.ask_controller(ApiKey.DESCRIBE_QUORUM, 2, kind(topics=[topic]))
        end_offset = described.topics[0].partitions[0].high_watermark
        for _ in range(CATCH_UP_LOOKS_MAX):
            if self.applied_offset >= end_offset - 1:
                return
            await asyncio.sleep(CATCH_UP_LOOK_SECONDS)

    @property
    def applied_offset(self) -> Offset:
        """Up to where (inclusive) this broker's partitions and coordinators follow the metadata log."""
        return self._applied_offset if self._deltas or self._applying else self.image.offset

    # -- what handlers ask -------------------------------------------------------------------------------------------

    def live_setting(self, name: str) -> ConfigValue:
        """A broker setting that may change while the node runs, as it is in force now."""
        layers = broker_layers(self.image, self.settings, self.node_id)
        return resolve_broker_config(broker_key(name), layers).value

    async def next_producer_id(self) -> ProducerId:
        """From this broker's block; a new block is recorded in the metadata before any of its ids is given out."""
        async with self._producer_id_lock:
            block = self._producer_ids
            if block is None or self._next_producer_id >= block.end:
                block = self._producer_ids = await self._allocate_producer_ids()
                self._next_producer_id = block.first
            producer_id = self._next_producer_id
            self._next_producer_id += 1
            invariant(producer_id < block.end, "a producer id is of our block", producer_id=producer_id)
            return producer_id

    async def _allocate_producer_ids(self) -> ProducerIdBlock:
        request = api.AllocateProducerIdsRequest(broker_id=self.node_id, broker_epoch=self.broker_epoch)
        try:
            answer = await self.ask_controller(ApiKey.ALLOCATE_PRODUCER_IDS, 0, request)
            if answer.error_code:
                raise ApiError(ErrorCode(answer.error_code), "")
        except ApiError as error:
            reason = f"no producer ids from the controller just now: {error.code.name}"
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, reason) from error
        return ProducerIdBlock(answer.producer_id_start, answer.producer_id_start + answer.producer_id_len)

    def is_internal(self, topic: str) -> bool:
        return topic in INTERNAL_TOPICS or topic == METADATA_TOPIC

    def may_delete_records(self, topic: str) -> bool:
        partitions = self.partitions.of_topic(topic)
        return not partitions or partitions[0].log.config.deletes
