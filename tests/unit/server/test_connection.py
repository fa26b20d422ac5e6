"""A connection as a conversation: bytes in, answers out, whatever the cuts between them."""

import asyncio
import gc
import random

import pytest

from ottla.base.errors import ApiError, ErrorCode, NotServed, ProtocolError
from ottla.base.outcome import Outcome
from ottla.broker.peers import CLIENT_ID_PREFIX
from ottla.broker.request import Parts, Peer, RequestContext
from ottla.server.connection import IN_FLIGHT_MAX, OUTPUT_BACKLOG_BYTES_MAX
from ottla.server.receiving_connection import FIRST_READ_BYTES
from tests.unit.server.connection_world import (
    BROKEN,
    FETCH,
    OFFSET_COMMIT,
    REQUEST_BYTES_MAX,
    EchoService,
    World,
    request,
    run,
)


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
            world.clock.advance(0.002)
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


@pytest.mark.parametrize("is_closed_by_peer", [False, True])
def test_a_connection_that_closes_is_cut_for_whoever_looks(is_closed_by_peer: bool) -> None:
    world = World()
    world.receive(request(1))
    assert not world.connection.peer.lifeline.is_cut
    if is_closed_by_peer:
        world.connection.on_closed()
    else:
        world.connection.close()
    assert world.connection.peer.lifeline.is_cut


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


@pytest.mark.parametrize(
    ("client_id", "is_waiting", "is_closed"),
    [
        ("app", True, True),
        ("app", False, True),
        (None, True, True),
        (f"{CLIENT_ID_PREFIX}2", True, False),
        (f"{CLIENT_ID_PREFIX}2", False, False),
    ],
)
def test_clients_are_sent_away_and_other_nodes_are_not(
    client_id: str | None, is_waiting: bool, is_closed: bool
) -> None:
    async def scene() -> None:
        world = World()
        world.service.client_id = client_id
        if is_waiting:
            world.service.gates = {2: asyncio.get_running_loop().create_future()}
        world.receive(request(1) + request(2))
        world.connection.send_away()
        assert world.transport.closed == is_closed
        assert bytes(world.transport.written) == answers(request(1) + (b"" if is_waiting else request(2)))

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
        first, second = Outcome(), Outcome()
        world.service.commits = {1: first, 2: first, 3: second}
        world.receive(commits(1, 2, 3))
        assert world.service.started == [1, 2, 3]
        second.tell(None)
        assert not world.transport.written, "answers keep their order"
        assert world.connection.busy
        first.tell(None)
        assert bytes(world.transport.written) == answers(commits(1, 2, 3))
        assert not world.connection.busy

    run(scene())


def test_what_follows_a_commit_that_waits_is_started_when_that_is_answered() -> None:
    async def scene() -> None:
        world = World()
        committed = Outcome()
        world.service.commits = {1: committed}
        world.receive(commits(1) + request(2, api_key=FETCH) + commits(3))
        assert world.service.started == [1]
        committed.tell(None)
        assert world.service.started == [1, 2, 3]
        assert bytes(world.transport.written) == answers(commits(1) + request(2, api_key=FETCH) + commits(3))

    run(scene())


def test_commits_that_fail_are_refused_in_their_place() -> None:
    async def scene() -> None:
        world = World()
        committed = Outcome()
        world.service.commits = {2: committed, 3: committed}
        world.receive(commits(1, 2, 3, 4))
        committed.tell(ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "not known to be committed"))
        await asyncio.sleep(0)
        assert not world.transport.closed
        assert bytes(world.transport.written) == answers(commits(1)) + b"refused" * 2 + answers(commits(4))

    run(scene())


def test_an_answer_that_cannot_be_refused_closes_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(context: RequestContext, parts: Parts, error: ApiError) -> Parts:
        raise ZeroDivisionError

    async def scene() -> None:
        world = World()
        committed = Outcome()
        world.service.commits = {2: committed}
        monkeypatch.setattr(world.service, "refused", refused)
        world.receive(commits(1, 2, 3))
        committed.tell(ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "not known to be committed"))
        assert world.transport.closed, "its client would wait for ever"
        assert bytes(world.transport.written) == answers(commits(1))

    run(scene())


def test_a_commit_that_had_to_wait_before_it_was_decided_is_held_like_others() -> None:
    async def scene() -> None:
        world = World()
        gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        committed = Outcome()
        world.service.gates, world.service.commits = {1: gate}, {1: committed}
        world.receive(commits(1, 2))
        gate.set_result(None)
        await asyncio.sleep(0.01)
        assert world.service.started == [1], "nothing overtakes what is not decided"
        assert not world.transport.written
        committed.tell(None)
        assert bytes(world.transport.written) == answers(commits(1, 2))

    run(scene())


def test_a_connection_that_closes_leaves_its_commits_alone() -> None:
    async def scene() -> None:
        world = World()
        committed = Outcome()
        world.service.commits = {1: committed}
        world.receive(commits(1))
        world.connection.close()
        assert not committed.is_known, "others wait for it, too"
        committed.tell(None)
        assert not world.transport.written

    run(scene())
