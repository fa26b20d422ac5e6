"""A whole node in the simulated world: the broker's own start, dispatch and housekeeping, over simulated ports.

`kill` is a process or a machine that ends between two instructions: its tasks never run again, its connections break,
its disk keeps what `kept` says. `die_at` lets that happen inside a disk call.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import Context, copy_context
from posixpath import join
from typing import Final
from uuid import UUID

from ottla.broker.dispatch import Dispatcher
from ottla.broker.housekeeping import Housekeeping
from ottla.broker.node import ConnectPeers
from ottla.broker.node import World as Ports
from ottla.broker.request import Peer
from ottla.broker.start import AdvertisedListener, OpenNode, close_node, prepare_node, start_node
from ottla.log import clean_shutdown
from ottla.log.handles import HandleCache
from ottla.metadata.configs import BrokerConfig
from ottla.raft.voters import ReplicaKey
from ottla.server.connection import Connection, Service
from ottla.server.request_memory import RequestMemory, Scratch
from sim.disk_nodes import Kept
from sim.loop import HOST, Host
from sim.network import SimulatedSocket, SimulatedTransport
from sim.world import Machine

DATA: Final = "/data/logs"
LISTENER: Final = "PLAINTEXT"
PORT: Final = 9092
SLOW_SECONDS_MAX: Final = 0.5  # Of one disk call, while the disk is slow.
REQUEST_BYTES_MAX: Final = 10_000_000
SETTINGS: Final = {
    "process.roles": "controller,broker",
    "node.id": "1",
    "log.dirs": DATA,
    "log.retention.check.interval.ms": "60000",
    "log.flush.offset.checkpoint.interval.ms": "20000",
    "metadata.log.max.record.bytes.between.snapshots": "1500",
}


class SimulatedNode:
    """Implements `Member` of sim/peer_network.py."""

    def __init__(
        self,
        machine: Machine,
        settings: dict[str, str] | None = None,
        connect_peers: ConnectPeers = lambda node_id, loopback, address_of: loopback,
        on_death: Callable[[], None] = lambda: None,
        name: str = "node",
    ) -> None:
        self.machine = machine
        self._name = name
        self._on_gone = on_death
        self._connect_peers = connect_peers
        self._settings = SETTINGS | {"listeners": f"{LISTENER}://{name}:{PORT}"} | (settings or {})
        self._config = BrokerConfig(self._settings)
        self.node_id = self._config.integer("node.id")
        self._chance = machine.stream("node")
        self._power_chance = machine.stream("power after a stop")
        self._host = Host(name)
        self._host.is_alive = False
        self.is_silent = False
        """Whether not even a kernel is left to refuse connections."""
        self.context: Context | None = None
        self._opened: OpenNode | None = None
        self.run_count = 0
        self._usual_latency_seconds_max = machine.workers.latency_seconds_max
        self._housekeeping: Housekeeping | None = None
        self._dispatcher: Dispatcher | None = None
        self._is_ready = False
        self._scratch = Scratch()
        self._memory = RequestMemory(REQUEST_BYTES_MAX)
        self._connections: dict[Connection, None] = {}  # A set's order would differ from run to run.
        self._connection_count = 0
        self._death: asyncio.Future[None] = machine.loop.create_future()
        machine.disk.on_death = self._on_death
        self._make_directory()

    def _make_directory(self) -> None:
        disk = self.machine.disk
        disk.make_directory(DATA)
        disk.sync_directory("/data")
        disk.sync_directory("/")

    @property
    def is_serving(self) -> bool:
        """Whether its start has come to its end."""
        return self._host.is_alive and self._is_ready

    @property
    def is_alive(self) -> bool:
        return self._host.is_alive

    @property
    def service(self) -> Service | None:
        return self._dispatcher if self._host.is_alive else None

    @property
    def has_opened(self) -> bool:
        return self._opened is not None

    @property
    def opened(self) -> OpenNode:
        assert self._opened is not None
        return self._opened

    @property
    def replica_key(self) -> ReplicaKey:
        """What it is as a voter: a node with its directory."""
        return ReplicaKey(self.node_id, self.opened.directories[0].directory_id)

    # -- life and death ----------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Returns when the node serves. Dies like any other part of it if the machine does."""
        self.is_silent = False
        self.run_count += 1
        self._opened, self._is_ready = None, False
        self._host = Host(self._name)
        token = HOST.set(self._host)
        self.context = copy_context()
        HOST.reset(token)
        self._scratch, self._memory, self._connections = Scratch(), RequestMemory(REQUEST_BYTES_MAX), {}
        started = self.context.run(self.machine.loop.create_task, self._start(), name="start node")
        self._death = self.machine.loop.create_future()
        await asyncio.wait((started, self._death), return_when=asyncio.FIRST_COMPLETED)
        if self._host.is_alive:
            await started
        elif started.done():
            started.exception()  # It died of the crash; that is told by `is_serving`.

    async def _start(self) -> None:
        machine = self.machine
        ports = Ports(
            clock=machine.clock,
            workers=machine.workers,
            disk=machine.disk,
            new_uuid=lambda: UUID(int=self._chance.getrandbits(128), version=4),
            new_session_id=lambda: self._chance.randint(1, 2**31 - 1),
            chance=self._chance.random,
            connect_peers=self._connect_peers,
        )
        listeners = [AdvertisedListener(name=LISTENER, host=self._name, port=PORT)]
        self._opened = await prepare_node(ports, self._config, listeners, HandleCache(16))
        self._dispatcher = Dispatcher(self._opened.node)
        await start_node(self._opened)
        self._housekeeping = Housekeeping(self._opened)
        self._housekeeping.start()
        self._is_ready = True
        machine.trace.add(self._name, "serves")

    async def stop(self) -> None:
        """A clean shutdown."""
        assert self.context is not None
        await self.context.run(self.machine.loop.create_task, self._stop(), name="stop node")
        self._host.is_alive = False
        self.machine.loop.bury(self._host)  # The process ends, whatever it was still doing.
        self._on_gone()

    def maybe_lose_power(self) -> bool:
        """Of a node that was stopped: a clean stop has left nothing that could be lost with the machine."""
        disk = self.machine.disk
        if not disk.exists(join(DATA, clean_shutdown.FILE_NAME)) or self._power_chance.random() < 0.5:
            return False
        disk.crash(Kept.NOTHING)
        return True

    async def _stop(self) -> None:
        assert self._housekeeping is not None
        node = self.opened.node
        await node.quorum.resign()
        self._dispatcher, self._is_ready = None, False
        node.stopping = True
        node.fetch_sessions.interrupt_all()
        for connection in tuple(self._connections):
            connection.close()
        await self._housekeeping.stop()
        await close_node(self.opened)
        self.machine.trace.add(self._name, "stopped")

    def kill(self, kept: Kept, *, is_silent: bool = False) -> None:
        """Ends it between two instructions, if a disk call has not ended it already; `is_silent`: and its machine too."""
        self.is_silent = is_silent
        if self._host.is_alive:
            self._on_death()
        self.machine.disk.crash(kept)

    def wipe(self, settings: Mapping[str, str]) -> None:
        """Of a dead one: its directory is empty when it starts again, with `settings` over those it had."""
        self.machine.disk.wipe()
        self._make_directory()
        self._settings = {**self._settings, **settings}
        self._config = BrokerConfig(self._settings)

    def pause(self) -> None:
        self.machine.loop.pause(self._host)

    def resume(self) -> None:
        self.machine.loop.resume(self._host)

    @property
    def is_paused(self) -> bool:
        return self._host.is_paused

    @contextmanager
    def slow_disk(self) -> Iterator[None]:
        workers = self.machine.workers
        workers.latency_seconds_max = SLOW_SECONDS_MAX
        yield
        workers.latency_seconds_max = self._usual_latency_seconds_max

    def die_at(self, change: int) -> None:
        """The machine goes before the disk change number `change` from now. `kill` decides then what is kept."""
        self.machine.disk.crash_at(change)

    def live(self) -> None:
        """What `die_at` has announced does not happen."""
        self.machine.disk.crash_at(None)

    def _on_death(self) -> None:
        self.machine.trace.add(self._name, "dies")
        self._host.is_alive = False
        self._dispatcher = None
        self.machine.loop.bury(self._host)
        self.machine.network.abandon_all()
        self._on_gone()
        if not self._death.done():
            self._death.set_result(None)

    # -- clients -----------------------------------------------------------------------------------------------------

    def connect(self) -> SimulatedSocket:
        if self.service is None:
            raise ConnectionRefusedError("the node is not there")
        return self.machine.network.connect(self._accept, self.context)

    def _accept(self, transport: SimulatedTransport) -> Connection:
        assert self._dispatcher is not None
        self._connection_count += 1
        connection = Connection(
            transport=transport,
            service=self._dispatcher,
            peer=Peer(host="client", port=self._connection_count, listener=LISTENER),
            clock=self.machine.clock,
            scratch=self._scratch,
            memory=self._memory,
            request_bytes_max=REQUEST_BYTES_MAX,
            on_closed=lambda closed: self._connections.pop(closed, None),
        )
        self._connections[connection] = None
        return connection
