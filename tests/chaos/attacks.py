"""Hostile peers, one function each, run in a process of their own: `python -m tests.chaos.attacks NAME PORT SEED`.

An attack is a generator: every step does some harm and yields, with the seconds to wait until the next. It goes on until
standard input closes, then the process prints what it did as JSON. Connections that the broker closes are opened again.
"""

import contextlib
import itertools
import json
import random
import resource
import select
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterator
from typing import Final

from ottla.wire import api
from ottla.wire.apis import API_INFO, ApiKey
from ottla.wire.frame import decode_response, encode_request
from tests.chaos.hostile_batches import LIES, bomb, honest_batch
from tests.chaos.raw_client import (
    CLIENT_ID,
    SIZE,
    Target,
    api_versions_frame,
    fetch_frame,
    is_closed,
    produce_error_of,
    produce_frame,
    read_frame,
)
from tests.unit.wire.message_values import ValueMaker

IDLE_CONNECTIONS: Final = 5_000
LORIS_CONNECTIONS: Final = 300
SILENT_CONNECTIONS: Final = 20
SILENT_FETCHES: Final = 30  # Of up to 50 MB each, on one connection.
DECLARED_BYTES: Final = (100 << 20) - 1  # Just what the broker lets a request have.
DECLARING_CONNECTIONS: Final = 200
BOMBS_AT_ONCE: Final = 4
CHURN_CONNECTIONS: Final = 10_000
CHURN_PER_STEP: Final = 10
MUTATIONS_PER_STEP: Final = 20
Step = float


# -- attacks on the frames ---------------------------------------------------------------------------------------------


def garbage(target: Target) -> Iterator[Step]:
    """Bytes that are nothing at all."""
    while True:
        with target.connect() as sock:
            for _ in range(target.chance.randrange(1, 5)):
                target.send(sock, target.chance.randbytes(target.chance.randrange(1, 4096)))
        yield 0.005


def truncated_frames(target: Target) -> Iterator[Step]:
    """A request that stops in the middle, and a peer that goes away."""
    whole = api_versions_frame() + encode_request(
        ApiKey.METADATA, 12, 2, CLIENT_ID, api.MetadataRequest(topics=None, allow_auto_topic_creation=False)
    )
    while True:
        with target.connect() as sock:
            target.send(sock, whole[: target.chance.randrange(len(whole))])
        yield 0.005


def impossible_sizes(target: Target) -> Iterator[Step]:
    """Frames that declare 2 GB, nothing, or less than nothing, and go on as if that were true."""
    sizes = (2**31 - 1, 2**31 - 100, 105 << 20, -1, -(2**31), 0, 1, 7)
    for size in itertools.cycle(sizes):
        with target.connect() as sock:
            while target.send(sock, SIZE.pack(size) + bytes(1 << 16)) and not is_closed(sock):
                pass
        yield 0.01


def large_declarations(target: Target) -> Iterator[Step]:
    """Many requests of 100 MB that are begun and never finished."""
    socks = [target.connect() for _ in range(DECLARING_CONNECTIONS)]
    for sock in socks:
        target.send(sock, SIZE.pack(DECLARED_BYTES) + bytes(1_000))
        sock.setblocking(False)
    filling = bytes(1 << 14)
    while True:
        for sock in target.chance.sample(socks, 50):
            with contextlib.suppress(OSError):
                sock.send(filling)
        yield 0.02


def slow_loris(target: Target) -> Iterator[Step]:
    """A byte a second on each of many connections; counts those that the broker closed."""
    frame = api_versions_frame()
    socks = {target.connect(): 0 for _ in range(LORIS_CONNECTIONS)}
    while True:
        for sock, sent in list(socks.items()):
            if sent < len(frame) - 1:  # The last byte never comes: the request stays unfinished for ever.
                target.send(sock, frame[sent : sent + 1])
            if is_closed(sock):
                target.count("closed")
                del socks[sock]
            else:
                socks[sock] = sent + 1
        yield 1.0


# -- attacks by being there --------------------------------------------------------------------------------------------


def idle_connections(target: Target) -> Iterator[Step]:
    """Thousands of connections that ask one thing and then nothing more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, IDLE_CONNECTIONS + 500)), hard))
    socks = []
    for number in range(IDLE_CONNECTIONS):
        socks.append(target.connect())
        target.send(socks[-1], api_versions_frame())
        assert read_frame(socks[-1]) is not None
        if number % 100 == 0:
            yield 0.0
    target.count("all connected")
    print("ready", flush=True)
    while True:
        yield 0.1


def never_reads(target: Target) -> Iterator[Step]:
    """Asks for all the data there is, again and again, and leaves the answers where they are."""
    fetch = fetch_frame("bulk")
    socks = []
    for _ in range(SILENT_CONNECTIONS):
        sock = target.connect(receive_buffer_bytes=4096)
        sock.setblocking(False)
        socks.append(sock)
    for _ in range(SILENT_FETCHES):
        for sock in socks:
            target.frames += 1
            with contextlib.suppress(OSError):
                sock.send(fetch)
        yield 0.02
    while True:
        yield 0.1


def churn(target: Target) -> Iterator[Step]:
    """Connections that come and go, ten thousand and more: some ask something, some reset, some just leave."""
    reset = struct.pack("ii", 1, 0)  # SO_LINGER with no time: closing sends RST.
    while True:
        for _ in range(CHURN_PER_STEP):
            with target.connect() as sock:
                match target.chance.randrange(4):
                    case 0:
                        target.send(sock, api_versions_frame())
                        assert read_frame(sock) is not None
                    case 1:
                        target.send(sock, api_versions_frame() + fetch_frame("steady", max_wait_ms=5_000, min_bytes=1))
                    case 2:
                        target.send(sock, api_versions_frame())
                        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
            if target.connections == CHURN_CONNECTIONS:
                print("ready", flush=True)
        yield 0.005


def greedy_reader(target: Target) -> Iterator[Step]:
    """Reads all there is, as fast as it comes, again and again."""
    sock = target.connect()
    print("ready", flush=True)
    while True:
        target.send(sock, fetch_frame("bulk"))
        assert read_frame(sock) is not None
        yield 0.0


def greedy_writer(target: Target) -> Iterator[Step]:
    """Writes large batches one after the other."""
    sock = target.connect()
    frame = produce_frame("bulk", bytes(honest_batch(record_count=9, value_bytes=100_000)), acks=1)
    print("ready", flush=True)
    while True:
        target.send(sock, frame)
        assert read_frame(sock) is not None
        yield 0.02


# -- attacks on the records --------------------------------------------------------------------------------------------


def lying_batches(target: Target) -> Iterator[Step]:
    """Every lie in turn, to a topic that stores batches as they come and to one that re-compresses them."""
    for lie, topic, acks in itertools.cycle(itertools.product(LIES, ("liars", "recompressed"), (-1, 1, 0))):
        with target.connect() as sock:
            for _ in range(5):
                batch = lie(honest_batch(), target.chance)
                if not target.send(sock, produce_frame(topic, bytes(batch), acks)) or acks == 0:
                    continue
                answer = read_frame(sock)
                target.count(f"{lie.__name__}: {'closed' if answer is None else f'error {produce_error_of(answer)}'}")
        yield 0.005


def bombs(target: Target) -> Iterator[Step]:
    """Small batches that unpack to a gigabyte each, several at once, to topics that must unpack them."""
    frames = [produce_frame(f"recompressed-{number}", bytes(bomb()), -1) for number in range(BOMBS_AT_ONCE)]
    while True:
        with contextlib.ExitStack() as stack:
            socks = [stack.enter_context(target.connect()) for _ in frames]
            for sock, frame in zip(socks, frames, strict=True):
                target.send(sock, frame)
            for sock in socks:
                answer = read_frame(sock)
                target.count("closed" if answer is None else f"error {produce_error_of(answer)}")
        yield 0.2


# -- attacks on the messages -------------------------------------------------------------------------------------------


def mutations(target: Target) -> Iterator[Step]:
    """Requests of every API and version that is served, with some bytes changed, at a high rate."""
    makers = [ValueMaker(target.chance.getrandbits(32), richness) for richness in (0.3, 0.8, 0.95)]
    apis = list(served_apis(target))
    sock = target.connect()
    while True:
        for _ in range(MUTATIONS_PER_STEP):
            key, version = target.chance.choice(apis)
            request = target.chance.choice(makers).message(API_INFO[key].request, version)
            frame = mutated(encode_request(key, version, 1, CLIENT_ID, request), target.chance)
            if not target.send(sock, frame) or is_closed(sock):
                sock.close()
                sock = target.connect()
        yield 0.01


def served_apis(target: Target) -> Iterator[tuple[int, int]]:
    """As the broker says itself, with each version."""
    with target.connect() as sock:
        target.send(sock, api_versions_frame())
        answer = read_frame(sock)
        assert answer is not None
        _, response = decode_response(ApiKey.API_VERSIONS, 0, memoryview(answer))
        assert isinstance(response, api.ApiVersionsResponse)
        for one in response.api_keys:
            low, high = API_INFO[one.api_key].versions
            for version in range(max(one.min_version, low), min(one.max_version, high) + 1):
                yield one.api_key, version


def mutated(frame: bytes, chance: random.Random) -> bytes:
    """Some bytes changed, put in or taken out behind the size, which then mostly fits again."""
    data = bytearray(frame[SIZE.size :])
    for _ in range(chance.choice((0, 1, 1, 2, 5))):
        at = chance.randrange(len(data) + 1)
        match chance.randrange(5):
            case 0:
                data[at : at + 1] = chance.randbytes(1)
            case 1:
                number = chance.choice((b"\xff" * 4, b"\x7f\xff\xff\xff", b"\xff" * 8, b"\x80", b"\0", b"\xff\xff"))
                data[at : at + len(number)] = number
            case 2:
                data[at:at] = chance.randbytes(chance.randrange(1, 9))
            case 3:
                del data[at : at + chance.randrange(1, 9)]
            case 4:
                del data[at:]
    size = len(data) if chance.random() < 0.95 else chance.randrange(-10, 2 * len(data) + 10)
    return SIZE.pack(size) + data


ATTACKS: Final[dict[str, Callable[[Target], Iterator[Step]]]] = {
    attack.__name__: attack
    for attack in (
        garbage,
        truncated_frames,
        impossible_sizes,
        large_declarations,
        slow_loris,
        idle_connections,
        never_reads,
        churn,
        greedy_reader,
        greedy_writer,
        lying_batches,
        bombs,
        mutations,
    )
}


def main(name: str, port: str, seed: str) -> None:
    target = Target(int(port), int(seed))
    steps = ATTACKS[name](target)
    deadline = time.monotonic()
    while not select.select([sys.stdin], [], [], max(deadline - time.monotonic(), 0))[0]:
        deadline = time.monotonic() + next(steps)
    print(json.dumps(target.outcome()), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
