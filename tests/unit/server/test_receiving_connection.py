"""What a connection receives: where its bytes lie, what they count, who keeps them."""

import asyncio

import pytest

from ottla.server.receiving_connection import FIRST_READ_BYTES, LARGE_REQUEST_BYTES, PROGRESS_BYTES_MIN
from tests.unit.server.connection_world import FETCH, REQUEST_BYTES_MAX, FakeTransport, World, request, run


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
        world.clock.advance(seconds - world.clock.monotonic())
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
    world.clock.advance(5)
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


def test_a_closed_connection_holds_no_buffer() -> None:
    world = World()
    world.receive(request(1, b"x" * 500_000)[:400_000])
    world.connection.close()
    assert world.connection._view.obj is world.scratch.view.obj
    assert world.memory.used_bytes == 0


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
