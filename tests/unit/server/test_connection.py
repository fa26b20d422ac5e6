"""A connection as a conversation: bytes in, answers out, whatever the cuts between them."""

import asyncio
import gc
import random
from collections.abc import Callable, Coroutine
from struct import Struct
from typing import Any

import pytest

from ottla.base.errors import ApiError, ErrorCode, NotServed, ProtocolError
from ottla.broker.request import Parts, Peer, RequestContext
from ottla.server.connection import IN_FLIGHT_MAX, OUTPUT_BACKLOG_BYTES_MAX, Connection
from ottla.server.receiving_connection import FIRST_READ_BYTES, LARGE_REQUEST_BYTES, PROGRESS_BYTES_MIN
from ottla.server.request_memory import RequestMemory, Scratch

HEAD = Struct(">hhi")
PRODUCE, FETCH, OFFSET_COMMIT, BROKEN = 0, 1, 8, 99
REQUEST_BYTES_MAX = 4 << 20


class FakeClock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def now_ms(self) -> int:
        return int(self.seconds * 1000)

    def monotonic(self) -> float:
        return self.seconds


class FakeTransport:
    def __init__(self) -> None:
        self.written = bytearray()
        self.reading = True
        self.closed = False
        self.unsent = 0
        self.soon: list[Callable[[], None]] = []
        self.connection: Connection | None = None

    def write(self, parts: Parts) -> None:
        for part in parts:
            assert isinstance(part, bytes | bytearray)
            self.written += part

    def backlog_bytes(self) -> int:
        return self.unsent

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.soon.append(callback)

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            assert self.connection is not None
            self.connection.on_closed()


class EchoService:
    """Answers with the request's body; waits on `gates[correlation id]` first, where there is one. The answer is held
    until `commits[correlation id]` is done, where there is one."""

    def __init__(self) -> None:
        self.gates: dict[int, asyncio.Future[None]] = {}
        self.commits: dict[int, asyncio.Future[None]] = {}
        self.started: list[int] = []
        self.cancelled: list[int] = []

    def begin(self, frame: memoryview, peer: Peer) -> RequestContext:
        api_key, version, correlation_id = HEAD.unpack_from(frame)
        if api_key == BROKEN:
            raise ProtocolError("api key 99 is not served")
        return RequestContext(api_key, version, correlation_id, None, peer, HEAD.size, holds_frame=api_key == PRODUCE)

    def answer(self, context: RequestContext, frame: memoryview) -> Coroutine[Any, Any, Parts | None]:
        return self._answer(context, frame)

    async def _answer(self, context: RequestContext, frame: memoryview) -> Parts | None:
        self.started.append(context.correlation_id)
        gate = self.gates.get(context.correlation_id)
        try:
            if gate is not None:
                await gate
        except asyncio.CancelledError:
            self.cancelled.append(context.correlation_id)
            raise
        context.committed = self.commits.get(context.correlation_id)
        return [bytes(frame)]


class World:
    def __init__(self, memory_bytes: int = 1 << 30) -> None:
        self.transport = FakeTransport()
        self.service = EchoService()
        self.clock = FakeClock()
        self.memory = RequestMemory(memory_bytes)
        self.scratch = Scratch()
        self.connection = Connection(
            transport=self.transport,
            service=self.service,
            peer=Peer(host="10.0.0.9", port=5, listener="PLAINTEXT"),
            clock=self.clock,
            scratch=self.scratch,
            memory=self.memory,
            request_bytes_max=REQUEST_BYTES_MAX,
            on_closed=lambda connection: None,
        )
        self.transport.connection = self.connection

    def receive(self, data: bytes, step: int | None = None) -> None:
        """As a socket would: at most what the buffer takes, at most `step` bytes a read."""
        view = memoryview(data)
        while len(view) and not self.transport.closed:
            assert self.transport.reading, "read while paused"
            buffer = self.connection.get_buffer()
            count = min(len(buffer), len(view), step or len(view))
            buffer[:count] = view[:count]
            self.connection.buffer_updated(count)
            view = view[count:]

    def scribble(self) -> None:
        """Another connection uses the shared buffer."""
        self.scratch.view[:] = b"\xee" * len(self.scratch.view)


def request(correlation_id: int, body: bytes = b"", api_key: int = PRODUCE) -> bytes:
    frame = HEAD.pack(api_key, 1, correlation_id) + body
    return len(frame).to_bytes(4, "big") + frame


def run(scene: Coroutine[Any, Any, None]) -> None:
    asyncio.run(scene)


def test_requests_are_answered_in_place() -> None:
    world = World()
    world.receive(request(1, b"a") + request(2, b"b", FETCH) + request(3))
    assert bytes(world.transport.written) == request(1, b"a")[4:] + request(2, b"b", FETCH)[4:] + request(3)[4:]
    assert world.memory.used_bytes == 0


def test_who_pipelines_much_work_takes_turns_with_others() -> None:
    """A few bytes can ask for a second of work: every five milliseconds other connections get on."""
    world = World()

    class Slow(EchoService):
        def begin(self, frame: memoryview, peer: Peer) -> RequestContext:
            world.clock.seconds += 0.002
            return super().begin(frame, peer)

    world.connection._service = Slow()  # type: ignore[assignment]
    world.receive(b"".join(request(number) for number in range(10)))
    turns = 1
    while world.transport.soon:
        assert not world.transport.reading
        world.connection.on_room()  # The output drained meanwhile: no reason to go on before one's turn.
        assert len(world.transport.soon) == 1
        world.transport.soon.pop()()
        turns += 1
    assert bytes(world.transport.written) == b"".join(request(number)[4:] for number in range(10))
    assert turns == 4
    assert world.transport.reading


def test_what_comes_before_nonsense_is_answered() -> None:
    world = World()
    world.receive(request(1, b"good") + request(2, api_key=BROKEN))
    assert world.transport.closed
    assert bytes(world.transport.written) == request(1, b"good")[4:]


@pytest.mark.parametrize("seed", range(20))
def test_any_cut_gives_the_same_answers(seed: int) -> None:
    random_ = random.Random(seed)
    world = World()
    stream, expected = b"", b""
    for number in range(30):
        body = random_.randbytes(random_.choice([0, 3, 900, FIRST_READ_BYTES - 16, FIRST_READ_BYTES, 300_000]))
        stream += request(number, body)
        expected += request(number, body)[4:]
    while stream:
        count = random_.choice([1, 3, 7, 5_000, 70_000, 1_000_000])
        world.receive(stream[:count])
        stream = stream[count:]
        world.scribble()
    assert bytes(world.transport.written) == expected


def test_a_declared_size_reserves_nothing() -> None:
    world = World()
    world.receive((REQUEST_BYTES_MAX).to_bytes(4, "big") + b"x" * 10)
    assert world.memory.used_bytes <= 1024


def test_without_leave_to_grow_a_connection_holds_no_more_than_a_first_read() -> None:
    async def scene() -> None:
        world = World()
        world.service.gates = {1: asyncio.get_running_loop().create_future()}
        held_back = request(2, bytes(FIRST_READ_BYTES), api_key=FETCH)
        world.receive((request(1, api_key=FETCH) + held_back)[:FIRST_READ_BYTES])
        assert world.memory.used_bytes <= FIRST_READ_BYTES
        world.connection.close()

    run(scene())


@pytest.mark.parametrize("step", [FIRST_READ_BYTES // 4, FIRST_READ_BYTES])
def test_only_a_large_request_asks_for_leave_to_grow(step: int) -> None:
    for size, asks in ((LARGE_REQUEST_BYTES - 12, False), (LARGE_REQUEST_BYTES + 1, True)):
        world, data, asked = World(), request(1, bytes(size)), False
        for position in range(0, len(data), step):
            asked |= world.connection.must_grow
            world.receive(data[position : position + step])
        assert world.service.started == [1]
        assert asked is asks


def test_half_a_request_is_one_until_it_is_whole() -> None:
    world = World()
    data = request(1, bytes(1000))
    assert not world.connection.holds_half_request
    world.receive(data[:500])
    assert world.connection.holds_half_request
    world.receive(data[500:])
    assert not world.connection.holds_half_request


def test_a_request_that_waits_for_an_earlier_answer_is_no_half_request() -> None:
    async def scene() -> None:
        world = World()
        world.service.gates = {1: asyncio.get_running_loop().create_future()}
        world.receive(request(1, api_key=FETCH) + request(2, bytes(1000), api_key=FETCH))
        assert world.memory.used_bytes > 1000
        assert not world.connection.holds_half_request
        world.connection.close()

    run(scene())


def test_a_large_request_keeps_a_connection_active_as_far_as_it_gets_on() -> None:
    world = World()
    world.receive(REQUEST_BYTES_MAX.to_bytes(4, "big"))
    for seconds, arrived, active in ((1, 4, 0), (2, PROGRESS_BYTES_MIN, 2), (3, 4, 2), (4, PROGRESS_BYTES_MIN - 4, 4)):
        world.clock.seconds = seconds
        world.receive(bytes(arrived))
        world.connection.note_progress()
        assert world.connection.last_active == active


def test_the_progress_of_a_request_is_not_measured_against_an_earlier_one() -> None:
    world = World()
    first, second = (request(number, bytes(8 * PROGRESS_BYTES_MIN)) for number in (1, 2))
    world.receive(first[:-1])
    world.connection.note_progress()
    world.receive(first[-1:] + second[:1000])
    world.connection.note_progress()
    world.clock.seconds = 5
    world.receive(second[1000 : 1000 + PROGRESS_BYTES_MIN])
    world.connection.note_progress()
    assert world.connection.last_active == 5


def test_the_buffer_grows_with_what_arrives_and_goes_when_idle() -> None:
    world = World()
    body = b"y" * (1 << 20)
    data = request(1, body)
    world.receive(data[:100_000])
    assert world.memory.used_bytes <= 4 * 100_000
    world.receive(data[100_000:])
    assert world.transport.written == data[4:]
    assert world.memory.used_bytes >= 1 << 20  # kept for the next large request
    world.connection.release_idle_buffer()
    assert world.memory.used_bytes == 0


def test_a_large_request_is_received_where_it_stays_and_counted_as_it_arrives() -> None:
    world = World()
    data = request(1, b"z" * (REQUEST_BYTES_MAX - 8))
    places, received = set(), 0
    while received < len(data):
        if received > FIRST_READ_BYTES:
            places.add(id(world.connection.get_buffer().obj))
            assert world.memory.used_bytes <= 2 * received + FIRST_READ_BYTES
        world.receive(data[received : received + 50_000])
        received += 50_000
    assert world.transport.written == data[4:]
    assert len(places) == 1


def test_a_kept_buffer_takes_a_larger_request() -> None:
    world = World()
    for size in (100_000, 150_000, 1_000_000, 200_000, REQUEST_BYTES_MAX - 8):
        world.transport.written.clear()
        world.receive(request(1, bytes([size % 251]) * size), step=70_001)
        assert world.transport.written == request(1, bytes([size % 251]) * size)[4:]
    world.connection.release_idle_buffer()
    assert world.memory.used_bytes == 0


@pytest.mark.parametrize("size", [-1, 0, 7, REQUEST_BYTES_MAX + 1, 2**31 - 1])
def test_an_impossible_size_closes_the_connection(size: int) -> None:
    world = World()
    world.receive(request(1) + (size & 0xFFFFFFFF).to_bytes(4, "big") + b"1234567890")
    assert world.transport.closed


@pytest.mark.parametrize(("error", "is_told"), [(ProtocolError("nonsense"), True), (NotServed("ask another"), False)])
def test_a_closed_connection_is_told_unless_nobody_is_served(
    error: ProtocolError, is_told: bool, caplog: pytest.LogCaptureFixture
) -> None:
    world = World()

    async def refuse(context: RequestContext, frame: memoryview) -> Parts | None:
        raise error

    world.service._answer = refuse  # type: ignore[method-assign]
    world.receive(request(1, api_key=FETCH))
    assert world.transport.closed
    assert bool([one for one in caplog.records if one.levelname == "WARNING"]) is is_told


def test_a_request_that_is_none_closes_the_connection() -> None:
    world = World()
    world.receive(request(1, api_key=BROKEN))
    assert world.transport.closed


def test_answers_keep_the_order_of_requests() -> None:
    async def scene() -> None:
        world = World()
        loop = asyncio.get_running_loop()
        world.service.gates = {1: loop.create_future(), 2: loop.create_future()}
        world.receive(request(1, b"one") + request(2, b"two") + request(3, b"three"))
        assert world.service.started == [1, 2, 3]
        assert not world.transport.written
        world.service.gates[2].set_result(None)
        await asyncio.sleep(0.01)
        assert not world.transport.written
        world.service.gates[1].set_result(None)
        await asyncio.sleep(0.01)
        assert world.transport.written == request(1, b"one")[4:] + request(2, b"two")[4:] + request(3, b"three")[4:]

    run(scene())


@pytest.mark.parametrize("size", [10, 200_000])
def test_a_waiting_produce_keeps_its_bytes(size: int) -> None:
    async def scene() -> None:
        world = World()
        world.service.gates = {1: asyncio.get_running_loop().create_future()}
        first, second = request(1, b"a" * size), request(2, b"b" * size)
        world.receive(first + second)
        world.scribble()
        world.receive(request(3, b"c" * size))
        world.service.gates[1].set_result(None)
        await asyncio.sleep(0.01)
        assert world.transport.written == first[4:] + second[4:] + request(3, b"c" * size)[4:]

    run(scene())


@pytest.mark.parametrize("size", [10, 200_000])
def test_what_a_waiting_handler_keeps_is_counted_until_it_is_done(size: int) -> None:
    async def scene() -> None:
        world = World()
        loop = asyncio.get_running_loop()
        world.service.gates = {number: loop.create_future() for number in range(4)}
        for number in range(4):
            world.receive(request(number, b"a" * size))
        assert world.memory.used_bytes >= 4 * size
        for gate in list(world.service.gates.values())[:3]:
            gate.set_result(None)
        await asyncio.sleep(0.01)
        assert size <= world.memory.used_bytes <= 2 * max(size, FIRST_READ_BYTES)
        world.connection.close()
        await asyncio.sleep(0.01)
        assert world.memory.used_bytes == 0

    run(scene())


def test_a_request_that_waits_passes_its_privilege_on() -> None:
    async def scene() -> None:
        world = World(memory_bytes=100_000)
        world.memory.reserve(200_000)
        world.service.gates = {1: asyncio.get_running_loop().create_future()}
        assert world.memory.admit(world.transport)
        other = FakeTransport()
        other.reading = False
        assert not world.memory.admit(other)
        world.receive(request(1, b"x" * 500_000))
        assert other.reading
        world.connection.close()

    run(scene())


def test_only_produces_overtake_the_wait() -> None:
    async def scene() -> None:
        world = World()
        world.service.gates = {1: asyncio.get_running_loop().create_future()}
        world.receive(request(1, api_key=FETCH) + request(2))
        assert world.service.started == [1]
        assert not world.transport.reading
        world.service.gates[1].set_result(None)
        await asyncio.sleep(0.01)
        assert world.service.started == [1, 2]
        assert world.transport.reading

    run(scene())


def test_requests_in_flight_are_bounded() -> None:
    async def scene() -> None:
        world = World()
        gate = asyncio.get_running_loop().create_future()
        world.service.gates = dict.fromkeys(range(200), gate)
        world.receive(b"".join(request(number) for number in range(200)))
        assert len(world.service.started) == IN_FLIGHT_MAX
        gate.set_result(None)
        await asyncio.sleep(0.05)
        assert world.service.started == list(range(200))

    run(scene())


def test_a_client_that_does_not_read_is_not_served_on() -> None:
    world = World()
    world.transport.unsent = OUTPUT_BACKLOG_BYTES_MAX + 1
    world.receive(request(1))
    assert world.service.started == []
    assert not world.transport.reading
    world.transport.unsent = 0
    world.connection.on_room()
    assert world.service.started == [1]
    assert world.transport.reading


def test_only_large_requests_need_memory_and_one_at_a_time_is_let_through() -> None:
    world = World(memory_bytes=100_000)
    world.memory.reserve(200_000)
    world.receive(request(1, b"small") + request(2, b"x" * 30_000))
    assert not world.connection.must_grow
    assert world.service.started == [1, 2]
    data = request(3, b"y" * 500_000)
    position = 0
    while not world.connection.must_grow:
        buffer = world.connection.get_buffer()
        count = min(len(buffer), len(data) - position)
        buffer[:count] = data[position : position + count]
        world.connection.buffer_updated(count)
        position += count
    first, second = FakeTransport(), FakeTransport()
    assert world.memory.admit(first)
    second.reading = False
    assert not world.memory.admit(second)
    assert world.memory.is_waiting(second)
    world.memory.finished(first)
    assert second.reading and not world.memory.is_waiting(second)
    assert world.memory.admit(second)


def test_what_a_gone_client_waited_for_may_fail_unheard() -> None:
    async def scene() -> None:
        loop = asyncio.get_running_loop()
        complaints: list[object] = []
        loop.set_exception_handler(lambda loop, context: complaints.append(context))
        world = World()
        gate = loop.create_future()
        world.service.gates = {1: gate}
        world.receive(request(1))
        world.connection.close()  # Before the request's task has taken its first step.
        await asyncio.sleep(0.01)
        assert gate.cancelled()
        del gate
        world.service.gates.clear()
        gc.collect()
        assert complaints == []

    run(scene())


def test_a_closed_connection_holds_no_buffer() -> None:
    world = World()
    world.receive(request(1, b"x" * 500_000)[:400_000])
    world.connection.close()
    assert world.connection._view.obj is world.scratch.view.obj
    assert world.memory.used_bytes == 0


def test_closing_cancels_what_waits() -> None:
    async def scene() -> None:
        world = World()
        gate = asyncio.get_running_loop().create_future()
        world.service.gates = {1: gate}
        world.receive(request(1, b"z" * 100_000))
        world.connection.close()
        await asyncio.sleep(0.01)
        assert world.service.cancelled == [1]
        assert world.memory.used_bytes == 0

    run(scene())


def test_a_buffer_that_a_worker_may_be_reading_is_not_used_again_after_closing() -> None:
    async def scene() -> None:
        world = World()
        world.service.gates = {1: asyncio.get_running_loop().create_future()}
        shared = world.scratch.view.obj
        world.receive(request(1, b"kept") + b"\xff" * 4)
        assert world.transport.closed
        assert world.scratch.view.obj is not shared
        await asyncio.sleep(0.01)
        assert world.memory.used_bytes == 0

    run(scene())


def test_draining_answers_what_is_under_way_and_takes_no_more() -> None:
    async def scene() -> None:
        world = World()
        world.service.gates = {1: asyncio.get_running_loop().create_future()}
        world.receive(request(1))
        world.connection.drain()
        assert world.connection.busy
        world.service.gates[1].set_result(None)
        await asyncio.sleep(0.01)
        assert world.transport.written == request(1)[4:]
        assert not world.connection.busy
        assert not world.transport.reading

    run(scene())


# -- answers that wait for a commit --------------------------------------------------------------------------------


def commits(*correlation_ids: int) -> bytes:
    return b"".join(request(number, api_key=OFFSET_COMMIT) for number in correlation_ids)


def answers(data: bytes) -> bytes:
    """What the service says to these requests: each without its size."""
    return b"".join(data[start + 4 : start + 12] for start in range(0, len(data), 12))


def test_commits_are_taken_in_while_earlier_ones_wait_and_answered_together() -> None:
    async def scene() -> None:
        world = World()
        first, second = (asyncio.get_running_loop().create_future() for _ in range(2))
        world.service.commits = {1: first, 2: first, 3: second}
        world.receive(commits(1, 2, 3))
        assert world.service.started == [1, 2, 3]
        second.set_result(None)
        await asyncio.sleep(0)
        assert not world.transport.written, "answers keep their order"
        assert world.connection.busy
        first.set_result(None)
        await asyncio.sleep(0)
        assert bytes(world.transport.written) == answers(commits(1, 2, 3))
        assert not world.connection.busy

    run(scene())


def test_what_follows_a_commit_that_waits_is_started_when_that_is_answered() -> None:
    async def scene() -> None:
        world = World()
        committed = asyncio.get_running_loop().create_future()
        world.service.commits = {1: committed}
        world.receive(commits(1) + request(2, api_key=FETCH) + commits(3))
        assert world.service.started == [1]
        committed.set_result(None)
        await asyncio.sleep(0)
        assert world.service.started == [1, 2, 3]
        assert bytes(world.transport.written) == answers(commits(1) + request(2, api_key=FETCH) + commits(3))

    run(scene())


def test_a_commit_that_fails_ends_the_connection_without_its_answer() -> None:
    async def scene() -> None:
        world = World()
        committed = asyncio.get_running_loop().create_future()
        world.service.commits = {2: committed}
        world.receive(commits(1, 2))
        committed.set_exception(ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "not known to be committed"))
        await asyncio.sleep(0)
        assert world.transport.closed
        assert bytes(world.transport.written) == answers(commits(1))

    run(scene())


def test_a_commit_that_had_to_wait_before_it_was_decided_is_held_like_others() -> None:
    async def scene() -> None:
        world = World()
        gate, committed = (asyncio.get_running_loop().create_future() for _ in range(2))
        world.service.gates, world.service.commits = {1: gate}, {1: committed}
        world.receive(commits(1, 2))
        gate.set_result(None)
        await asyncio.sleep(0.01)
        assert world.service.started == [1], "nothing overtakes what is not decided"
        assert not world.transport.written
        committed.set_result(None)
        await asyncio.sleep(0)
        assert bytes(world.transport.written) == answers(commits(1, 2))

    run(scene())


def test_a_connection_that_closes_leaves_its_commits_alone() -> None:
    async def scene() -> None:
        world = World()
        committed = asyncio.get_running_loop().create_future()
        world.service.commits = {1: committed}
        world.receive(commits(1))
        world.connection.close()
        assert not committed.done(), "others wait for it, too"
        committed.set_result(None)
        await asyncio.sleep(0)
        assert not world.transport.written

    run(scene())
