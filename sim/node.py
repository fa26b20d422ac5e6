"""A whole node in the simulated world: the broker's own start, dispatch and housekeeping, over simulated ports.

`kill` is a process or a machine that ends between two instructions: its tasks never run again, its connections break,
its disk keeps what `kept` says. `die_at` lets that happen inside a disk call.
"""

import asyncio
from collections.abc import Callable
from contextvars import Context, copy_context
from typing import Final
from uuid import UUID

from ottla.broker.dispatch import Dispatcher
from ottla.broker.housekeeping import Housekeeping
from ottla.broker.node import World as Ports
from ottla.broker.peers import Peers
from ottla.broker.request import Peer
from ottla.broker.start import AdvertisedListener, OpenNode, close_node, open_node
from ottla.log.handles import HandleCache
from ottla.metadata.configs import BrokerConfig
from ottla.server.connection import Connection
from ottla.server.request_memory import RequestMemory, Scratch
from sim.disk_nodes import Kept
from sim.loop import HOST, Host
from sim.network import SimulatedSocket, SimulatedTransport
from sim.world import World

DATA: Final = "/data/logs"
LISTENER: Final = "PLAINTEXT"
REQUEST_BYTES_MAX: Final = 10_000_000
SETTINGS: Final = {
    "process.roles": "controller,broker",
    "node.id": "1",
    "log.dirs": DATA,
    "listeners": f"{LISTENER}://node:9092",
    "log.retention.check.interval.ms": "60000",
    "log.flush.offset.checkpoint.interval.ms": "20000",
    "metadata.log.max.record.bytes.between.snapshots": "1500",
}


class SimulatedNode:
    def __init__(
        self,
        world: World,
        settings: dict[str, str] | None = None,
        wrap_peers: Callable[[Peers], Peers] = lambda peers: peers,
    ) -> None:
        self._world = world
        self._wrap_peers = wrap_peers
        self._config = BrokerConfig(SETTINGS | (settings or {}))
        self._chance = world.stream("node")
        self._host = Host("node")
        self._host.is_alive = False
        self._context: Context | None = None
        self._opened: OpenNode | None = None
        self._housekeeping: Housekeeping | None = None
        self._dispatcher: Dispatcher | None = None
        self._scratch = Scratch()
        self._memory = RequestMemory(REQUEST_BYTES_MAX)
        self._connections: dict[Connection, None] = {}  # A set's order would differ from run to run.
        self._connection_count = 0
        self._death: asyncio.Future[None] = world.loop.create_future()
        world.disk.on_death = self._on_death
        world.disk.make_directory(DATA)
        world.disk.sync_directory("/data")
        world.disk.sync_directory("/")

    @property
    def is_serving(self) -> bool:
        return self._host.is_alive and self._dispatcher is not None

    @property
    def opened(self) -> OpenNode:
        assert self._opened is not None
        return self._opened

    # -- life and death ----------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Returns when the node serves. Dies like any other part of it if the machine does."""
        self._host = Host("node")
        token = HOST.set(self._host)
        self._context = copy_context()
        HOST.reset(token)
        self._scratch, self._memory, self._connections = Scratch(), RequestMemory(REQUEST_BYTES_MAX), {}
        started = self._context.run(self._world.loop.create_task, self._start(), name="start node")
        self._death = self._world.loop.create_future()
        await asyncio.wait((started, self._death), return_when=asyncio.FIRST_COMPLETED)
        if self._host.is_alive:
            await started
        elif started.done():
            started.exception()  # It died of the crash; that is told by `is_serving`.

    async def _start(self) -> None:
        world = self._world
        ports = Ports(
            clock=world.clock,
            workers=world.workers,
            disk=world.disk,
            new_uuid=lambda: UUID(int=self._chance.getrandbits(128), version=4),
            new_session_id=lambda: self._chance.randint(1, 2**31 - 1),
            wrap_peers=self._wrap_peers,
        )
        listeners = [AdvertisedListener(name=LISTENER, host="node", port=9092)]
        self._opened = await open_node(ports, self._config, listeners, HandleCache(16))
        self._housekeeping = Housekeeping(self._opened)
        self._housekeeping.start()
        self._dispatcher = Dispatcher(self._opened.node)
        world.trace.add("node serves")

    async def stop(self) -> None:
        """A clean shutdown."""
        assert self._context is not None
        await self._context.run(self._world.loop.create_task, self._stop(), name="stop node")
        self._host.is_alive = False
        self._world.loop.bury(self._host)  # The process ends, whatever it was still doing.

    async def _stop(self) -> None:
        assert self._housekeeping is not None
        self._dispatcher = None
        for connection in tuple(self._connections):
            connection.close()
        await self._housekeeping.stop()
        await close_node(self.opened)
        self._world.trace.add("node stopped")

    def kill(self, kept: Kept) -> None:
        """Ends it between two instructions, if a disk call has not ended it already."""
        if self._host.is_alive:
            self._on_death()
        self._world.disk.crash(kept)

    def die_at(self, change: int) -> None:
        """The machine goes before the disk change number `change` from now. `kill` decides then what is kept."""
        self._world.disk.crash_at(change)

    def _on_death(self) -> None:
        self._world.trace.add("node dies")
        self._host.is_alive = False
        self._dispatcher = None
        self._world.loop.bury(self._host)
        self._world.network.abandon_all()
        if not self._death.done():
            self._death.set_result(None)

    # -- clients -----------------------------------------------------------------------------------------------------

    def connect(self) -> SimulatedSocket:
        if not self.is_serving:
            raise ConnectionRefusedError("the node is not there")
        return self._world.network.connect(self._accept, self._context)

    def _accept(self, transport: SimulatedTransport) -> Connection:
        assert self._dispatcher is not None
        self._connection_count += 1
        connection = Connection(
            transport=transport,
            service=self._dispatcher,
            peer=Peer(host="client", port=self._connection_count, listener=LISTENER),
            clock=self._world.clock,
            scratch=self._scratch,
            memory=self._memory,
            request_bytes_max=REQUEST_BYTES_MAX,
            on_closed=lambda closed: self._connections.pop(closed, None),
        )
        self._connections[connection] = None
        return connection
