"""Asking other brokers over real sockets: what is answered, what is lost, and what never waits for what."""

import asyncio
import socket
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import uvloop

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.types import NodeId
from ottla.broker.dispatch import Dispatcher
from ottla.broker.peers import PeerLost, Watch
from ottla.raft.wire_requests import TOPIC_ID as METADATA_TOPIC_ID
from ottla.server import peer_connection
from ottla.server.connection_limit import ConnectionLimit
from ottla.server.peer_connection import FRAME_BYTES_MAX
from ottla.server.peer_connections import PeerConnections
from ottla.server.socket_server import SocketServer
from ottla.wire import api
from ottla.wire.apis import ApiKey
from ottla.wire.frame import encode_response
from ottla.wire.message import Message
from tests.unit.broker.real_node import RealNode, values_of
from tests.unit.server.scripted_broker import Answers, RequestHead, ScriptedBroker

ME, PEER = 1, 2
HEARTBEAT = api.HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
HEARTBEAT_VERSION = 4
FETCH_VERSION = 17

Scene = Callable[[], Coroutine[Any, Any, None]]


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def play(request: pytest.FixtureRequest) -> Callable[[Scene], None]:
    """Runs a scene on each kind of loop that a node may run on."""

    def run(scene: Scene) -> None:
        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(asyncio.wait_for(scene(), 20))

    return run


class Echo:
    """In the place of the node itself."""

    async def ask(
        self,
        node_id: NodeId,
        api_key: ApiKey,
        api_version: int,
        request: Message,
        *,
        timeout_seconds: float | None = None,
    ) -> Any:
        return request

    def watch(self, node_id: NodeId, on_lost: Callable[[], None]) -> Watch:
        raise AssertionError("nobody watches itself here")

    def close(self) -> None:
        raise AssertionError("the node is not ours to close")


def peers_at(*ports: int) -> PeerConnections:
    """The peers 2, 3, … at these ports."""
    addresses = {PEER + number: ("127.0.0.1", port) for number, port in enumerate(ports)}
    return PeerConnections(node_id=ME, loopback=Echo(), address_of=addresses.get)


def throttled_by_generation(head: RequestHead, request: Any) -> Message:
    """Answers a Heartbeat with a number of its own."""
    return api.HeartbeatResponse(throttle_time_ms=request.generation_id)


def only_to(*api_keys: ApiKey) -> Answers:
    def answers(head: RequestHead, request: Any) -> Message | None:
        return api.HeartbeatResponse() if head.api_key in api_keys else None

    return answers


async def beat(peers: PeerConnections, number: int = 1, **options: Any) -> Any:
    request = api.HeartbeatRequest(group_id="g", generation_id=number, member_id="m")
    return await peers.ask(PEER, ApiKey.HEARTBEAT, HEARTBEAT_VERSION, request, **options)


def fetch_request(*topics: Any) -> Message:
    return api.FetchRequest(max_wait_ms=500, min_bytes=1, topics=list(topics))


def unused_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


# -- answers ----------------------------------------------------------------------------------------------------------


def test_every_request_gets_its_own_answer_over_one_connection(play: Callable[[Scene], None]) -> None:
    async def scene() -> None:
        broker = await ScriptedBroker(throttled_by_generation).start()
        peers = peers_at(broker.port)
        answers = await asyncio.gather(*(beat(peers, number) for number in range(200)))
        assert [answer.throttle_time_ms for answer in answers] == list(range(200))
        assert len(broker.writers) == 1
        assert {head.client_id for head in broker.heads} == {"__ottla_node_1"}
        peers.close()

    play(scene)


@pytest.mark.parametrize("size", [0, 100, 65_000, 65_536, 3_000_000])
@pytest.mark.parametrize("piece_bytes", [None, 7_919])
def test_records_are_views_of_an_answer_that_may_be_kept(
    play: Callable[[Scene], None], size: int, piece_bytes: int | None
) -> None:
    def answers(head: RequestHead, request: Any) -> Message:
        partition = api.FetchResponse.PartitionData(partition_index=0, records=bytes([head.correlation_id]) * size)
        return api.FetchResponse(
            responses=[api.FetchResponse.FetchableTopicResponse(topic_id=METADATA_TOPIC_ID, partitions=[partition])]
        )

    async def scene() -> None:
        broker = await ScriptedBroker(answers, piece_bytes=piece_bytes).start()
        peers = peers_at(broker.port)
        fetches = (peers.ask(PEER, ApiKey.FETCH, FETCH_VERSION, fetch_request()) for _ in range(3))
        kept = [answer.responses[0].partitions[0].records for answer in await asyncio.gather(*fetches)]
        assert all(isinstance(records, memoryview) for records in kept)
        assert kept == [bytes([number]) * size for number in range(3)]
        peers.close()

    play(scene)


@pytest.mark.parametrize("piece_bytes", [1, 2, 5])
def test_answers_may_come_in_any_pieces(play: Callable[[Scene], None], piece_bytes: int) -> None:
    async def scene() -> None:
        broker = await ScriptedBroker(throttled_by_generation, piece_bytes=piece_bytes).start()
        peers = peers_at(broker.port)
        answers = await asyncio.gather(*(beat(peers, number) for number in range(20)))
        assert [answer.throttle_time_ms for answer in answers] == list(range(20))
        peers.close()

    play(scene)


def test_a_long_poll_delays_nothing_else(play: Callable[[Scene], None]) -> None:
    quorum_topic = api.FetchRequest.FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=[])

    def answers(head: RequestHead, request: Any) -> Message | None:
        if head.api_key == ApiKey.FETCH:
            return api.FetchResponse(session_id=7) if request.topics else None
        return api.HeartbeatResponse()

    async def scene() -> None:
        broker = await ScriptedBroker(answers).start()
        peers = peers_at(broker.port)
        polling = asyncio.ensure_future(peers.ask(PEER, ApiKey.FETCH, FETCH_VERSION, fetch_request()))
        await broker.wait_asked(1)
        await beat(peers)
        of_quorum = await peers.ask(PEER, ApiKey.FETCH, FETCH_VERSION, fetch_request(quorum_topic))
        assert of_quorum.session_id == 7
        assert not polling.done()
        peers.close()
        with pytest.raises(ApiError):
            await polling

    play(scene)


def test_asking_oneself_is_loopback(play: Callable[[Scene], None]) -> None:
    async def scene() -> None:
        assert await peers_at().ask(ME, ApiKey.HEARTBEAT, HEARTBEAT_VERSION, HEARTBEAT) is HEARTBEAT

    play(scene)


# -- losses -----------------------------------------------------------------------------------------------------------


def test_a_refused_connection_is_a_lost_peer_and_the_next_request_tries_again_at_once(
    play: Callable[[Scene], None],
) -> None:
    async def scene() -> None:
        port = unused_port()
        peers = peers_at(port)
        for _ in range(3):
            with pytest.raises(PeerLost, match="refused"):
                await beat(peers)
        await ScriptedBroker(throttled_by_generation).start(port)
        assert (await beat(peers, 5)).throttle_time_ms == 5
        peers.close()

    play(scene)


@pytest.mark.parametrize("lose", [ScriptedBroker.close_connections, ScriptedBroker.reset_connections])
def test_a_connection_that_ends_loses_every_unanswered_request(
    play: Callable[[Scene], None], lose: Callable[[ScriptedBroker], None]
) -> None:
    async def scene() -> None:
        broker = await ScriptedBroker(only_to(ApiKey.VOTE)).start()
        peers = peers_at(broker.port)
        asked = [asyncio.ensure_future(beat(peers)) for _ in range(5)]
        await broker.wait_asked(5)
        lose(broker)
        outcomes = await asyncio.gather(*asked, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [PeerLost] * 5
        peers.close()

    play(scene)


def test_a_connection_that_ended_idle_is_made_anew(play: Callable[[Scene], None]) -> None:
    async def scene() -> None:
        broker = await ScriptedBroker(throttled_by_generation).start()
        peers = peers_at(broker.port)
        lost = asyncio.Event()
        peers.watch(PEER, lost.set)
        await beat(peers)
        while len(broker.writers) < 2:  # That of the watch and that of the heartbeat.
            await asyncio.sleep(0)
        broker.close_connections()
        await lost.wait()
        assert (await beat(peers, 6)).throttle_time_ms == 6
        peers.close()

    play(scene)


def test_a_time_out_is_no_lost_peer_and_does_not_jam_those_that_come_after(play: Callable[[Scene], None]) -> None:
    async def scene() -> None:
        is_silent = False
        broker = await ScriptedBroker(lambda head, _: None if is_silent else api.HeartbeatResponse()).start()
        peers = peers_at(broker.port)
        await beat(peers)
        is_silent = True
        behind = asyncio.ensure_future(beat(peers))
        with pytest.raises(ApiError, match="no answer in time") as raised:
            await beat(peers, timeout_seconds=0.01)
        assert raised.value.code is ErrorCode.NETWORK_EXCEPTION
        assert not isinstance(raised.value, PeerLost)
        with pytest.raises(ApiError, match="no answer in time"):
            await behind
        is_silent = False
        await beat(peers)
        assert len(broker.writers) == 2
        peers.close()

    play(scene)


def test_a_later_deadline_holds_though_an_earlier_one_was_met(play: Callable[[Scene], None]) -> None:
    async def scene() -> None:
        broker = await ScriptedBroker(
            lambda head, _: api.HeartbeatResponse() if head.correlation_id == 0 else None
        ).start()
        peers = peers_at(broker.port)
        await beat(peers, timeout_seconds=0.05)
        with pytest.raises(ApiError, match="no answer in time"):
            await beat(peers, timeout_seconds=0.1)
        peers.close()

    play(scene)


def test_nobody_who_accepts_is_a_time_out(play: Callable[[Scene], None]) -> None:
    """A full backlog drops further attempts, as a cut network does."""

    async def scene() -> None:
        with socket.socket() as listening:
            listening.bind(("127.0.0.1", 0))
            listening.listen(0)
            queued = [socket.socket() for _ in range(4)]
            for sock in queued:
                sock.setblocking(False)
                sock.connect_ex(listening.getsockname())
            peers = peers_at(listening.getsockname()[1])
            with pytest.raises(ApiError, match="in time") as raised:
                await beat(peers, timeout_seconds=0.05)
            assert not isinstance(raised.value, PeerLost)
            for sock in queued:
                sock.close()
            peers.close()

    play(scene)


def test_who_gives_up_and_asks_again_does_not_wait_for_the_old_answer(play: Callable[[Scene], None]) -> None:
    async def scene() -> None:
        broker = await ScriptedBroker(
            lambda head, request: api.HeartbeatResponse() if request.generation_id else None
        ).start()
        peers = peers_at(broker.port)
        given_up = asyncio.ensure_future(beat(peers, 0))
        await broker.wait_asked(1)
        given_up.cancel()
        await asyncio.gather(given_up, return_exceptions=True)
        await beat(peers, 1)
        assert len(broker.writers) == 2
        peers.close()

    play(scene)


def test_a_request_given_up_leaves_the_others_their_connection(play: Callable[[Scene], None]) -> None:
    async def scene() -> None:
        broker = await ScriptedBroker(throttled_by_generation).start()
        broker.hold()
        peers = peers_at(broker.port)
        asked = [asyncio.ensure_future(beat(peers, number)) for number in range(3)]
        await broker.wait_asked(1)
        asked[0].cancel()
        broker.release()
        outcomes = await asyncio.gather(*asked, return_exceptions=True)
        assert [getattr(outcome, "throttle_time_ms", None) for outcome in outcomes] == [None, 1, 2]
        assert len(broker.writers) == 1
        peers.close()

    play(scene)


@pytest.mark.parametrize(
    "frame",
    [
        (FRAME_BYTES_MAX + 1).to_bytes(4, "big"),
        b"\xff\xff\xff\xff",
        encode_response(ApiKey.HEARTBEAT, HEARTBEAT_VERSION, 77, api.HeartbeatResponse()),
        b"\0\0\0\x05\0\0\0\0\x09",
        b"\0\0\0\x04\0\0\0\0",
    ],
    ids=["too large", "negative", "of another request", "cut tags", "no body"],
)
def test_nonsense_ends_the_connection_and_says_nothing_of_the_peer(play: Callable[[Scene], None], frame: bytes) -> None:
    async def scene() -> None:
        broker = await ScriptedBroker(lambda head, request: frame if request.generation_id else None).start()
        peers = peers_at(broker.port)
        with pytest.raises(ApiError) as raised:
            await beat(peers, 1)
        assert raised.value.code is ErrorCode.NETWORK_EXCEPTION
        assert not isinstance(raised.value, PeerLost)
        asked = asyncio.ensure_future(beat(peers, 0))
        await broker.wait_asked(2)
        assert len(broker.writers) == 2
        peers.close()
        with pytest.raises(ApiError):
            await asked

    play(scene)


def test_too_much_unanswered_is_refused(play: Callable[[Scene], None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_connection, "UNANSWERED_COUNT_MAX", 3)

    async def scene() -> None:
        broker = await ScriptedBroker(lambda head, request: None).start()
        peers = peers_at(broker.port)
        asked = [asyncio.ensure_future(beat(peers)) for _ in range(3)]
        await broker.wait_asked(3)
        with pytest.raises(ApiError, match="unanswered"):
            await beat(peers)
        peers.close()
        outcomes = await asyncio.gather(*asked, return_exceptions=True)
        assert all(isinstance(outcome, ApiError) for outcome in outcomes)

    play(scene)


# -- addresses --------------------------------------------------------------------------------------------------------


def test_a_peer_that_moved_is_asked_where_it_is_now(play: Callable[[Scene], None]) -> None:
    async def scene() -> None:
        old = await ScriptedBroker(throttled_by_generation).start()
        new = await ScriptedBroker(throttled_by_generation).start()
        addresses = {PEER: ("127.0.0.1", old.port)}
        peers = PeerConnections(node_id=ME, loopback=Echo(), address_of=addresses.get)
        await beat(peers)
        addresses[PEER] = ("127.0.0.1", new.port)
        await beat(peers)
        assert (len(old.heads), len(new.heads)) == (1, 1)
        del addresses[PEER]
        with pytest.raises(ApiError, match="not known") as raised:
            await beat(peers)
        assert not isinstance(raised.value, PeerLost)
        peers.close()

    play(scene)


def test_a_host_of_several_addresses_refuses_where_none_accepts(play: Callable[[Scene], None]) -> None:
    async def scene() -> None:
        port = unused_port()
        addresses = {PEER: ("localhost", port)}
        peers = PeerConnections(node_id=ME, loopback=Echo(), address_of=addresses.get)
        with pytest.raises(PeerLost):
            await beat(peers)
        await ScriptedBroker(throttled_by_generation).start(port)
        await beat(peers)
        addresses[PEER] = ("host.invalid", port)
        with pytest.raises(ApiError) as raised:
            await beat(peers)
        assert not isinstance(raised.value, PeerLost)
        peers.close()

    play(scene)


# -- watching ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lose", [ScriptedBroker.close_connections, ScriptedBroker.reset_connections])
def test_a_watched_peer_that_ends_is_told_once(
    play: Callable[[Scene], None], lose: Callable[[ScriptedBroker], None]
) -> None:
    async def scene() -> None:
        broker = await ScriptedBroker(throttled_by_generation).start()
        peers = peers_at(broker.port)
        losses: list[str] = []
        lost = asyncio.Event()

        def on_lost() -> None:
            losses.append("lost")
            lost.set()

        peers.watch(PEER, on_lost)
        closed = peers.watch(PEER, lambda: losses.append("closed"))
        await beat(peers)
        await beat(peers)
        assert not losses
        closed.close()
        lose(broker)
        await lost.wait()
        await beat(peers)
        assert losses == ["lost"]
        peers.close()

    play(scene)


def test_a_watched_peer_that_cannot_be_reached_is_told(play: Callable[[Scene], None]) -> None:
    async def scene() -> None:
        peers = peers_at(unused_port())
        for node_id in (PEER, PEER + 1):  # Of the second nobody knows the address.
            lost = asyncio.Event()
            peers.watch(node_id, lost.set)
            await lost.wait()

    play(scene)


# -- closing ----------------------------------------------------------------------------------------------------------


def test_closing_ends_everything_and_calls_nobody_lost(play: Callable[[Scene], None]) -> None:
    async def scene() -> None:
        broker = await ScriptedBroker(only_to(ApiKey.HEARTBEAT)).start()
        peers = peers_at(broker.port)
        losses: list[str] = []
        watch = peers.watch(PEER, lambda: losses.append("lost"))
        opening = asyncio.ensure_future(beat(peers))
        asked = asyncio.ensure_future(peers.ask(PEER, ApiKey.FETCH, FETCH_VERSION, fetch_request()))
        await broker.wait_asked(2)
        peers.watch(PEER, lambda: losses.append("lost while it opened"))
        peers.close()
        for future in (asked, asyncio.ensure_future(beat(peers))):
            with pytest.raises(ApiError, match="stopping") as raised:
                await future
            assert not isinstance(raised.value, PeerLost)
        await asyncio.gather(opening, return_exceptions=True)
        watch.close()
        assert not losses
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not [task for task in left if task.get_name().startswith("connect to") and not task.cancelling()]

    play(scene)


# -- a real broker ----------------------------------------------------------------------------------------------------


def test_a_broker_of_ours_answers(play: Callable[[Scene], None], tmp_path: Path) -> None:
    async def scene() -> None:
        node = await RealNode.open(tmp_path, {})
        server = SocketServer(
            loop=asyncio.get_running_loop(),
            clock=node.clock,
            workers=node.workers,
            request_bytes_max=1 << 20,
            request_memory_bytes=1 << 24,
            idle_seconds_max=600,
            connection_limit=ConnectionLimit(count=100, setting="max.connections"),
        )
        peers = peers_at(server.bind("PLAINTEXT", "127.0.0.1", 0))
        server.serve(Dispatcher(node.node))
        lost = asyncio.Event()
        peers.watch(PEER, lost.set)
        topic_id = await node.create_topic("orders")
        await node.produce("orders", b"a" * 200_000, b"b")
        versions = await peers.ask(PEER, ApiKey.API_VERSIONS, 4, api.ApiVersionsRequest())
        assert versions.error_code == 0
        partition = api.FetchRequest.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
        topic = api.FetchRequest.FetchTopic(topic_id=topic_id, partitions=[partition])
        request = api.FetchRequest(max_wait_ms=500, min_bytes=1, session_epoch=-1, topics=[topic])
        fetched = await peers.ask(PEER, ApiKey.FETCH, FETCH_VERSION, request)
        assert values_of(fetched.responses[0].partitions[0].records) == [b"a" * 200_000, b"b"]
        server.stop_listening()
        await server.drain(1)
        await lost.wait()
        with pytest.raises(PeerLost):
            await peers.ask(PEER, ApiKey.API_VERSIONS, 4, api.ApiVersionsRequest())
        peers.close()
        await node.close()

    play(scene)
