"""The simulated network: bytes in order however they are cut, back-pressure, broken connections."""

import asyncio
from struct import pack

import pytest

from sim.network import NetworkFaults, SimulatedTransport
from sim.world import World


class Echo:
    """Answers every size-prefixed frame with itself."""

    def __init__(self, transport: SimulatedTransport) -> None:
        self.transport = transport
        self.received = bytearray()
        self.buffer = memoryview(bytearray(64))
        self.room_count = 0
        self.closed = False

    def get_buffer(self) -> memoryview:
        return self.buffer

    def buffer_updated(self, count: int) -> None:
        self.received += self.buffer[:count]
        while len(self.received) >= 4 and len(self.received) >= 4 + int.from_bytes(self.received[:4], "big"):
            end = 4 + int.from_bytes(self.received[:4], "big")
            self.transport.write([bytes(self.received[:end])])
            del self.received[:end]

    def on_room(self) -> None:
        self.room_count += 1

    def on_closed(self) -> None:
        self.closed = True


def framed(payload: bytes) -> bytes:
    return pack(">i", len(payload)) + payload


@pytest.mark.parametrize("seed", range(20))
def test_frames_come_back_whole_and_in_order(seed: int) -> None:
    world = World(seed, faults=NetworkFaults(piece_bytes_max=7))
    payloads = [b"%d" % number * number for number in range(40)]

    async def main() -> list[bytes]:
        client = world.network.connect(Echo)
        for payload in payloads:
            client.send(framed(payload))
        return [await client.receive() for _ in payloads]

    assert world.run(main()) == payloads
    assert world.clock.monotonic() > 0


def test_a_paused_reader_gets_its_bytes_later() -> None:
    world = World(1)
    echoes: list[Echo] = []

    def accept(transport: SimulatedTransport) -> Echo:
        echoes.append(Echo(transport))
        return echoes[-1]

    async def main() -> bytes:
        client = world.network.connect(accept)
        echoes[0].transport.pause_reading()
        client.send(framed(b"held back"))
        await asyncio.sleep(10)
        assert not echoes[0].received
        echoes[0].transport.resume_reading()
        answer = await client.receive()
        assert echoes[0].transport.backlog_bytes() == 0
        assert echoes[0].room_count > 0
        return answer

    assert world.run(main()) == b"held back"


def test_a_reset_reaches_both_ends() -> None:
    world = World(5, faults=NetworkFaults(reset_probability=1.0))
    echoes: list[Echo] = []

    def accept(transport: SimulatedTransport) -> Echo:
        echoes.append(Echo(transport))
        return echoes[-1]

    async def main() -> None:
        client = world.network.connect(accept)
        client.send(framed(b"lost"))
        with pytest.raises(ConnectionResetError):
            await client.receive()
        with pytest.raises(ConnectionResetError):
            client.send(framed(b"too late"))

    world.run(main())
    assert echoes[0].closed


def test_a_seed_gives_the_same_trace() -> None:
    def digest(seed: int) -> str:
        world = World(seed, faults=NetworkFaults(piece_bytes_max=11, reset_probability=0.02))

        async def client() -> None:
            connection = world.network.connect(Echo)
            try:
                for number in range(20):
                    connection.send(framed(b"%d" % number))
                    await connection.receive()
            except ConnectionResetError:
                pass

        async def main() -> None:
            await asyncio.gather(*(client() for _ in range(5)))

        world.run(main())
        return world.digest()

    assert [digest(seed) for seed in range(10)] == [digest(seed) for seed in range(10)]
    assert len({digest(seed) for seed in range(10)}) == 10
