"""A node as a process: event loop, ports, signals; start and stop in order.

SIGTERM and SIGINT drain: no new connection, what is under way is answered, logs are closed cleanly. A second signal, or a
bug (`InvariantViolation`), ends the process at once, as a crash would; recovery is made for that.
"""

import asyncio
import fcntl
import gc
import json
import logging
import os
import random
import resource
import signal
import socket
import sys
import uuid
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Final

from ottla import __version__
from ottla.base.errors import InvariantViolation
from ottla.broker.dispatch import Dispatcher
from ottla.broker.housekeeping import Housekeeping
from ottla.broker.metrics import metrics_of
from ottla.broker.node import World
from ottla.broker.start import AdvertisedListener, StartRefused, close_node, log_dirs, prepare_node, start_node
from ottla.log.handles import HandleCache
from ottla.log.meta_properties import WrongDirectory
from ottla.metadata.configs import BrokerConfig
from ottla.server.cleaner_process import CleanerProcess
from ottla.server.connection_limit import connection_limit, segment_files_of
from ottla.server.listeners import Address, advertised_of, listeners_of
from ottla.server.metrics_page import MetricsPage
from ottla.server.peer_connections import PeerConnections
from ottla.server.reachability import start_reachability_check
from ottla.server.real_clock import RealClock
from ottla.server.real_disk import RealDisk
from ottla.server.real_workers import RealWorkers
from ottla.server.settings import SettingsError
from ottla.server.socket_server import SocketServer

logger = logging.getLogger(__name__)

DRAIN_SECONDS_MAX: Final = 5.0
HAND_OVER_SECONDS_MAX: Final = 5.0  # Others then lead what this node led.
REQUEST_MEMORY_BYTES: Final = 256 << 20  # queued.max.request.bytes=-1: the node chooses.
EXIT_OK, EXIT_FAILED, EXIT_REFUSED, EXIT_BUG = 0, 1, 2, 70


def run_node(config: BrokerConfig, *, ready_fd: int | None = None) -> int:
    """Runs until it is told to stop; returns the exit code."""
    gc.disable()  # Loading makes objects that stay, by the hundred thousand; looking for garbage among them is wasted.
    loop = _new_loop()
    asyncio.set_event_loop(loop)
    loop.set_exception_handler(_on_loop_error)
    try:
        return loop.run_until_complete(_run(loop, config, ready_fd))
    except (SettingsError, StartRefused, WrongDirectory) as error:
        print(f"ottla: {error}", file=sys.stderr)
        return EXIT_REFUSED
    except OSError as error:
        print(f"ottla: cannot start: {error}", file=sys.stderr)
        return EXIT_FAILED
    finally:
        loop.close()


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


async def _run(loop: asyncio.AbstractEventLoop, config: BrokerConfig, ready_fd: int | None) -> int:
    addresses = listeners_of(config)
    locks = [_lock_directory(path) for path in log_dirs(config)]
    workers = RealWorkers(loop, config.integer("num.io.threads"))
    stop = asyncio.Event()
    _on_signals(loop, stop)
    clock = RealClock()
    world = World(
        clock=clock,
        workers=workers,
        disk=RealDisk(),
        new_uuid=uuid.uuid4,
        new_session_id=lambda: int.from_bytes(os.urandom(4), "big") & 0x7FFFFFFF,
        chance=random.random,
        connect_peers=lambda node_id, loopback, address_of: PeerConnections(
            node_id=node_id, loopback=loopback, address_of=address_of
        ),
    )
    open_files_max = _raise_open_files_limit()
    server = SocketServer(
        loop=loop,
        clock=clock,
        workers=workers,
        request_bytes_max=config.integer("socket.request.max.bytes"),
        request_memory_bytes=_request_memory_bytes(config),
        idle_seconds_max=config.integer("connections.max.idle.ms") / 1000,
        connection_limit=connection_limit(config.integer("max.connections"), open_files_max),
        send_buffer_bytes=_if_set(config, "socket.send.buffer.bytes"),
        receive_buffer_bytes=_if_set(config, "socket.receive.buffer.bytes"),
    )
    bound = [_bind(server, address) for address in addresses]
    advertised = advertised_of(config, bound)
    config = _effective(config, bound, advertised)
    opened = await prepare_node(world, config, advertised, HandleCache(segment_files_of(open_files_max)))
    server.serve(Dispatcher(opened.node))  # Only the quorum's requests are answered until the node is ready.
    opened.node.lifecycle.on_lease_over = lambda: server.send_clients_away() if opened.node.is_cut_off else None
    housekeeping = Housekeeping(opened, CleanerProcess)
    metrics_port = config.integer("ottla.metrics.port")
    page = MetricsPage(loop, lambda: metrics_of(opened.node))
    close_page = page.serve(bound[0].host, metrics_port) if metrics_port else lambda: None
    if await _unless_stopped(start_node(opened), stop):
        housekeeping.start()
        _freeze_garbage()
        _tell_ready(config, bound, advertised, ready_fd)
        start_reachability_check(bound, advertised)
        await stop.wait()

    logger.info("stopping: answering what is under way")
    await opened.node.lifecycle.controlled_shutdown(HAND_OVER_SECONDS_MAX)
    await opened.node.quorum.resign()
    server.stop_listening()
    opened.node.stopping = True
    opened.node.fetch_sessions.interrupt_all()
    opened.node.coordinators.groups.close()  # Members that wait for others are told to look elsewhere.
    await server.drain(DRAIN_SECONDS_MAX)
    await housekeeping.stop()
    await asyncio.to_thread(close_page)  # A scrape under way asks this loop.
    await close_node(opened)
    workers.close()
    for lock in locks:
        os.close(lock)
    logger.info("stopped cleanly")
    return EXIT_OK


async def _unless_stopped(work: Coroutine[Any, Any, None], stop: asyncio.Event) -> bool:
    """Whether it came to its end."""
    working, stopping = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
    if working.done():
        stopping.cancel()
        working.result()
        return True
    working.cancel()
    await asyncio.wait({working})
    return False


# -- before serving ---------------------------------------------------------------------------------------------------


def _bind(server: SocketServer, address: Address) -> Address:
    try:
        return Address(name=address.name, host=address.host, port=server.bind(address.name, address.host, address.port))
    except (socket.gaierror, UnicodeError):
        raise StartRefused(
            f"cannot listen on {address.host}:{address.port}: {address.host} does not resolve to an address of this machine"
        ) from None
    except OSError as error:
        raise StartRefused(
            f"cannot listen on {address.host}:{address.port}: {error.strerror}; is another broker running? Try --port"
        ) from error


def _effective(config: BrokerConfig, bound: list[Address], advertised: list[AdvertisedListener]) -> BrokerConfig:
    """The settings as they turned out, for those who ask: ports that the system chose, addresses that clients are told."""
    return BrokerConfig(
        {
            **config.texts,
            "broker.id": str(config.integer("node.id")),
            "listeners": ",".join(f"{one.name}://{one.host}:{one.port}" for one in bound),
            "advertised.listeners": ",".join(f"{one.name}://{one.host}:{one.port}" for one in advertised),
        }
    )


def _lock_directory(path: str) -> int:
    """Two nodes on one directory would destroy it: the lock is the kernel's, so a crash releases it."""
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise StartRefused(f"{path} is a file: name a directory for the data") from None
    except OSError as error:
        raise StartRefused(f"cannot make the directory {path}: {error.strerror}") from None
    descriptor = os.open(Path(path) / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise StartRefused(
            f"{path} is in use by another process: choose another directory or stop that broker"
        ) from None
    return descriptor


def _request_memory_bytes(config: BrokerConfig) -> int:
    configured = config.integer("queued.max.request.bytes")
    return configured if configured > 0 else REQUEST_MEMORY_BYTES


def _if_set(config: BrokerConfig, name: str) -> int | None:
    """The kernel's own tuning is better than Kafka's default; only what a user asked for is set."""
    return config.integer(name) if name in config.texts and config.integer(name) > 0 else None


def _raise_open_files_limit() -> int:
    """Asks for all the descriptors we may have; connection_limit.py shares them out."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = min(hard, 1 << 16) if hard != resource.RLIM_INFINITY else 1 << 16
    if soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
        except (ValueError, OSError):
            logger.warning("the limit of open files stays at %d", soft)
    return soft


def _freeze_garbage() -> None:
    """What is loaded now stays: the collector need not look at it again, and runs rarely after."""
    gc.freeze()
    gc.enable()
    gc.set_threshold(50_000, 20, 100)


def _tell_ready(
    config: BrokerConfig, bound: list[Address], advertised: list[AdvertisedListener], ready_fd: int | None
) -> None:
    where = ", ".join(f"{one.host}:{one.port}" for one in advertised)
    data = ", ".join(log_dirs(config))
    print(
        f"Ottla {__version__} is ready: bootstrap.servers={where} (node {config.integer('node.id')}, data in {data})",
        flush=True,
    )
    if ready_fd is not None:
        os.write(ready_fd, json.dumps({"port": bound[0].port, "pid": os.getpid()}).encode() + b"\n")
        os.close(ready_fd)


# -- signals and bugs -------------------------------------------------------------------------------------------------


def _on_signals(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> None:
    def on_signal() -> None:
        if stop.is_set():
            logger.warning("second signal: ending now")
            os._exit(EXIT_FAILED)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)


def _on_loop_error(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    error = context.get("exception")
    if isinstance(error, InvariantViolation):
        logger.critical("a bug of Ottla's, please report it: %s", error, exc_info=error)
        os._exit(EXIT_BUG)  # Nothing here can be trusted any more; recovery can.
    loop.default_exception_handler(context)
