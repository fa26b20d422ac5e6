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
from typing import Any, Final

from ottla.wire import api
from ottla.wire.apis import API_INFO, ApiKey
from ottla.wire.frame import decode_response, encode_request
from tests.chaos.hostile_batches import LIES, bomb, honest_batch
from tests.unit.wire.message_values import ValueMaker

LOOPBACK: Final = "127.0.0.1"
ANSWER_SECONDS_MAX: Final = 10.0
IDLE_CONNECTIONS: Final = 5_000
LORIS_CONNECTIONS: Final = 300
SILENT_CONNECTIONS: Final = 20
SILENT_FETCHES: Final = 30  # Of up to 50 MB each, on one connection.
DECLARED_BYTES: Final = (100 << 20) - 1  # Just what the broker lets a request have.
DECLARING_CONNECTIONS: Final = 200
BOMBS_AT_ONCE: Final = 4
MUTATIONS_PER_STEP: Final = 20
SIZE: Final = struct.Struct(">i")
Step = float


class Target:
    """The broker's port, and a count of what was done to it."""

    def __init__(self, port: int, seed: int) -> None:
        self._port = port
        self.chance = random.Random(seed)
        self.connections = 0
        self.frames = 0
        self.answers: dict[str, int] = {}

    def connect(self, *, receive_buffer_bytes: int | None = None) -> socket.socket:
        sock = socket.socket()
        if receive_buffer_bytes is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        sock.settimeout(ANSWER_SECONDS_MAX)
        sock.connect((LOOPBACK, self._port))
        self.connections += 1
        return sock

    def send(self, sock: socket.socket, data: bytes) -> bool:
        """Whether the connection took it."""
        self.frames += 1
        try:
            sock.sendall(data)
        except OSError:
            return False
        return True

    def count(self, answer: str) -> None:
        self.answers[answer] = self.answers.get(answer, 0) + 1

    def outcome(self) -> dict[str, Any]:
        return {"connections": self.connections, "frames": self.frames, "answers": self.answers}


def read_frame(sock: socket.socket) -> bytes | None:
    """One answer, or None where the connection is closed."""
    try:
        size = _read_exactly(sock, SIZE.size)
        return None if size is None else _read_exactly(sock, SIZE.unpack(size)[0])
    except OSError:
        return None


def _read_exactly(sock: socket.socket, count: int) -> bytes | None:
    data = bytearray()
    while len(data) < count:
        received = sock.recv(count - len(data))
        if not received:
            return None
        data += received
    return bytes(data)


def is_closed(sock: socket.socket) -> bool:
    readable, _, _ = select.select([sock], [], [], 0)
    if not readable:
        return False
    try:
        return not sock.recv(1 << 16)
    except OSError:
        return True


def api_versions(correlation_id: int = 1) -> bytes:
    return encode_request(ApiKey.API_VERSIONS, 0, correlation_id, "hostile", api.ApiVersionsRequest())


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
    whole = api_versions() + encode_request(
        ApiKey.METADATA, 12, 2, "hostile", api.MetadataRequest(topics=None, allow_auto_topic_creation=False)
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
    frame = api_versions()
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
        target.send(socks[-1], api_versions())
        assert read_frame(socks[-1]) is not None
        if number % 100 == 0:
            yield 0.0
    target.count("all connected")
    print("ready", flush=True)
    while True:
        yield 0.1


def never_reads(target: Target) -> Iterator[Step]:
    """Asks for all the data there is, again and again, and leaves the answers where they are."""
    fetch = encode_request(ApiKey.FETCH, 12, 1, "hostile", fetch_everything("bulk"))
    socks = []
    for _ in range(SILENT_CONNECTIONS):
        sock = target.connect(receive_buffer_bytes=4096)
        sock.setblocking(False)
        socks.append(sock)
    for _ in range(SILENT_FETCHES):
        for sock in socks:
            target.frames += 1
            with contextlib.suppress(BlockingIOError):
                sock.send(fetch)
        yield 0.02
    while True:
        yield 0.1


def fetch_everything(topic: str) -> api.FetchRequest:
    partition = api.FetchRequest.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=50 << 20)
    return api.FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=50 << 20,
        session_id=0,
        session_epoch=-1,
        topics=[api.FetchRequest.FetchTopic(topic=topic, partitions=[partition])],
    )


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
                target.count(f"{lie.__name__}: {'closed' if answer is None else _error_of(answer)}")
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
                target.count("closed" if answer is None else _error_of(answer))
        yield 0.2


def produce_frame(topic: str, batch: bytes, acks: int, version: int = 9) -> bytes:
    partition = api.ProduceRequest.PartitionProduceData(index=0, records=batch)
    request = api.ProduceRequest(
        acks=acks,
        timeout_ms=1_000,
        topic_data=[api.ProduceRequest.TopicProduceData(name=topic, partition_data=[partition])],
    )
    return encode_request(ApiKey.PRODUCE, version, 1, "hostile", request)


def _error_of(answer: bytes, version: int = 9) -> str:
    _, response = decode_response(ApiKey.PRODUCE, version, memoryview(answer))
    assert isinstance(response, api.ProduceResponse)
    return f"error {response.responses[0].partition_responses[0].error_code}"


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
            frame = mutated(encode_request(key, version, 1, "hostile", request), target.chance)
            if not target.send(sock, frame) or is_closed(sock):
                sock.close()
                sock = target.connect()
        yield 0.01


def served_apis(target: Target) -> Iterator[tuple[int, int]]:
    """As the broker says itself, with each version."""
    with target.connect() as sock:
        target.send(sock, api_versions())
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
