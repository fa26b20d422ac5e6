"""A node: the metadata it decides and follows, the partitions it holds, what its handlers ask for.

Start: log directories, metadata log, registration, partitions, then requests. Committed metadata is applied to the
partitions in order by one task; a request that changed metadata is answered once its own change is applied here, so that
a topic just created can be written to.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar
from uuid import UUID

from ottla.base.clock import Clock
from ottla.base.disk import Disk
from ottla.base.errors import ApiError, ErrorCode, InvariantViolation, invariant
from ottla.base.owned_tasks import OwnedTasks
from ottla.base.types import NodeId, Offset, ProducerId
from ottla.base.workers import Workers
from ottla.broker.advertised import AdvertisedAddresses
from ottla.broker.coordinators import Coordinators
from ottla.broker.fetch_session import FetchSessions
from ottla.broker.peers import Peers
from ottla.broker.transactions import Transactions
from ottla.broker.verification import Verification
from ottla.metadata.config_key import ConfigValue
from ottla.metadata.configs import BrokerConfig, broker_key, resolve_broker_config
from ottla.metadata.controller.decision import ControllerSettings, Decision, broker_layers
from ottla.metadata.controller.producer_ids import ProducerIdBlock, decide_allocate_producer_ids
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataImage
from ottla.metadata.runtime import ControllerRuntime
from ottla.metadata.topic_names import INTERNAL_TOPICS, METADATA_TOPIC
from ottla.replica.partitions import Partitions
from ottla.replica.storage import Storage

logger = logging.getLogger(__name__)

Reply = TypeVar("Reply")


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """The ports: everything a node knows of the outside."""

    clock: Clock
    workers: Workers
    disk: Disk
    new_uuid: Callable[[], UUID]
    new_session_id: Callable[[], int]
    wrap_peers: Callable[[Peers], Peers] = lambda peers: peers
    """The simulator's way between brokers."""


class Node:
    def __init__(
        self,
        *,
        world: World,
        config: BrokerConfig,
        cluster_id: str,
        broker_epoch: int,
        runtime: ControllerRuntime,
        settings: ControllerSettings,
        storages: Sequence[Storage],
        partitions: Partitions,
        make_room: Callable[[], Awaitable[bool]],
        connect_peers: "Callable[[Node], Peers]",
    ) -> None:
        self.clock = world.clock
        self.workers = world.workers
        self.disk = world.disk
        self.config = config
        self.cluster_id = cluster_id
        self.node_id: NodeId = config.integer("node.id")
        self.broker_epoch = broker_epoch
        self.runtime = runtime
        self.settings = settings
        self.directories = storages
        self.partitions = partitions
        self._make_room = make_room
        self.fetch_sessions = FetchSessions(
            world.new_session_id, config.integer("max.incremental.fetch.session.cache.slots")
        )
        self.advertised = AdvertisedAddresses()
        self.stopping = False
        self._producer_ids: ProducerIdBlock | None = None
        self._next_producer_id: ProducerId = 0
        self._producer_id_lock = asyncio.Lock()
        self._deltas: deque[tuple[Offset, MetadataDelta]] = deque()
        self._applied_offset: Offset = runtime.image.offset
        self._applying = False
        self._tasks = OwnedTasks()
        self._apply_waiters: list[tuple[Offset, asyncio.Future[None]]] = []
        self.peers = connect_peers(self)
        self.transactions = Transactions(self)
        self.verification = Verification(self)
        self.coordinators = Coordinators(
            partitions=partitions,
            image=runtime.image,
            config=config,
            settings=settings,
            clock=self.clock,
            workers=self.workers,
            submit_metadata=self.submit,
            new_transaction_machine=self.transactions.new_machine,
            new_uuid=world.new_uuid,
        )
        runtime.listen(self)

    # -- metadata ----------------------------------------------------------------------------------------------------

    @property
    def image(self) -> MetadataImage:
        """What is committed. Handlers read it; only replay changes it."""
        return self.runtime.image

    async def submit(self, decide: Callable[[MetadataImage], Decision[Reply]]) -> Reply:
        """Decides, commits and applies here; then the reply is true for whoever asks this node next."""
        try:
            reply = await self.runtime.submit(decide)
        except ApiError as error:
            # The change that frees a full disk must not fail for want of the few bytes that record it.
            if error.code is not ErrorCode.KAFKA_STORAGE_ERROR or not await self._make_room():
                raise
            reply = await self.runtime.submit(decide)
        await self._wait_applied(self.image.offset)
        return reply

    def on_metadata(self, delta: MetadataDelta, image: MetadataImage) -> None:
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
                block = self._producer_ids = await self.runtime.submit(
                    lambda image: decide_allocate_producer_ids(image, self.node_id, self.broker_epoch)
                )
                self._next_producer_id = block.first
            producer_id = self._next_producer_id
            self._next_producer_id += 1
            invariant(producer_id < block.end, "a producer id is of our block", producer_id=producer_id)
            return producer_id

    def is_internal(self, topic: str) -> bool:
        return topic in INTERNAL_TOPICS or topic == METADATA_TOPIC

    def may_delete_records(self, topic: str) -> bool:
        partitions = self.partitions.of_topic(topic)
        return not partitions or partitions[0].log.config.deletes
