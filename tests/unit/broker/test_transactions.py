"""Transactions on a whole node: what producers may do, what readers see, what survives (scenes 34 and 35)."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.types import NodeId
from ottla.broker.peers import Peers
from ottla.coordinator.machine import ProducerIdentity
from ottla.wire import api
from ottla.wire.apis import ApiKey
from ottla.wire.message import Message
from tests.unit.broker.real_node import RealNode, play
from tests.unit.broker.transactional_client import VERSION_1, VERSION_2, TransactionalClient, fetch, read, visible
from tests.unit.fakes import FakeClock

BOTH = pytest.mark.parametrize("versions", [VERSION_1, VERSION_2], ids=["version 1", "version 2"])


@BOTH
def test_nothing_is_visible_before_the_commit_and_all_after_it(tmp_path: Path, versions: dict[str, int]) -> None:
    """Scene 34: orders and inventory, together or not at all."""

    async def scene(node: RealNode) -> None:
        await node.create_topic("orders")
        await node.create_topic("inventory", partitions=2)
        await node.produce("orders", b"before")
        client = TransactionalClient(node, versions=versions)
        assert await client.init() is ErrorCode.NONE
        assert await client.produce("orders", b"order") is ErrorCode.NONE
        assert await client.produce("inventory", b"stock", index=1) is ErrorCode.NONE
        await node.produce("orders", b"after")
        assert await read(node, "orders") == [b"before"]
        assert await read(node, "inventory", index=1) == []
        answer = await fetch(node, "orders")
        assert (answer.last_stable_offset, answer.high_watermark) == (1, 3)
        uncommitted = await fetch(node, "orders", committed=False)
        assert visible(uncommitted) == [b"before", b"order", b"after"]
        assert uncommitted.aborted_transactions is None
        assert await client.end() is ErrorCode.NONE
        assert await read(node, "orders") == [b"before", b"order", b"after"]
        assert await read(node, "inventory", index=1) == [b"stock"]
        assert (await fetch(node, "orders")).last_stable_offset == 4

    play(tmp_path, scene)


@BOTH
def test_an_abort_is_never_visible(tmp_path: Path, versions: dict[str, int]) -> None:
    async def scene(node: RealNode) -> None:
        await node.create_topic("orders")
        client = TransactionalClient(node, versions=versions)
        await client.init()
        for number in range(6):
            assert await client.produce("orders", b"%d" % number) is ErrorCode.NONE
            assert await client.end(is_commit=number % 2 == 0) is ErrorCode.NONE
        assert await read(node, "orders") == [b"0", b"2", b"4"]
        answer = await fetch(node, "orders")
        assert [one.first_offset for one in answer.aborted_transactions] == [2, 6, 10]
        assert visible(await fetch(node, "orders", offset=8)) == [b"4"]

    play(tmp_path, scene)


def test_readers_are_told_only_of_aborts_that_touch_what_they_get(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        await node.create_topic("orders", internal_segment_bytes="400")
        client = TransactionalClient(node)
        await client.init()
        for number in range(12):
            assert await client.produce("orders", b"%02d" % number * 20) is ErrorCode.NONE
            assert await client.end(is_commit=number % 3 == 0) is ErrorCode.NONE
        offset, seen = 0, []
        end = (await fetch(node, "orders")).last_stable_offset
        while offset < end:
            answer = await fetch(node, "orders", offset=offset, max_bytes=300)
            assert len(answer.aborted_transactions) <= 3
            seen += visible(answer)
            offset += 2 * max(1, len(bytes(answer.records)) // 230)
        assert {bytes(value[:2]) for value in seen if value} == {b"00", b"03", b"06", b"09"}

    play(tmp_path, scene)


@pytest.mark.parametrize("version", range(4))
def test_no_producer_adds_an_internal_topic(tmp_path: Path, version: int) -> None:
    async def scene(node: RealNode) -> None:
        await node.ask(ApiKey.FIND_COORDINATOR, api.FindCoordinatorRequest(coordinator_keys=["g"]))
        client = TransactionalClient(node)
        await client.init()
        forbidden = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert await client.add("__consumer_offsets", 0, 99, version=version) == [forbidden, forbidden]
        assert await client.add("__transaction_state", version=version) == [forbidden]

    play(tmp_path, scene)


def test_interleaved_transactions_hold_back_each_other(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        await node.create_topic("orders")
        early, late = TransactionalClient(node, "early"), TransactionalClient(node, "late")
        await early.init()
        await late.init()
        await early.produce("orders", b"early")
        await late.produce("orders", b"late")
        await late.end()
        assert await read(node, "orders") == []
        await early.end(is_commit=False)
        assert await read(node, "orders") == [b"late"]

    play(tmp_path, scene)


def test_a_waiting_reader_is_woken_by_the_marker(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        await node.create_topic("orders")
        client = TransactionalClient(node)
        await client.init()
        await client.produce("orders", b"x" * 500)
        waiting = asyncio.ensure_future(fetch(node, "orders", max_wait_ms=60_000, min_bytes=400))
        await asyncio.sleep(0)
        assert not waiting.done()
        await client.end()
        assert visible(await asyncio.wait_for(waiting, 5)) == [b"x" * 500]

    play(tmp_path, scene)


def test_list_offsets_ends_for_each_isolation_level(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        await node.create_topic("orders")
        await node.produce("orders", b"a")
        client = TransactionalClient(node)
        await client.init()
        node.clock.advance(10)
        await client.produce("orders", b"b")

        async def latest(isolation_level: int, timestamp: int = -1) -> int:
            wanted = api.ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=timestamp)
            topic = api.ListOffsetsRequest.ListOffsetsTopic(name="orders", partitions=[wanted])
            request = api.ListOffsetsRequest(isolation_level=isolation_level, topics=[topic])
            offset: int = (await node.ask(ApiKey.LIST_OFFSETS, request)).topics[0].partitions[0].offset
            return offset

        assert [await latest(0), await latest(1)] == [2, 1]
        assert [await latest(level, node.clock.now_ms()) for level in (0, 1)] == [1, -1]

    play(tmp_path, scene)


# -- fencing (scene 35) -----------------------------------------------------------------------------------------------


@BOTH
def test_a_zombie_is_fenced_and_nothing_of_it_is_visible(tmp_path: Path, versions: dict[str, int]) -> None:
    async def scene(node: RealNode) -> None:
        await node.create_topic("orders")
        zombie = TransactionalClient(node, versions=versions)
        await zombie.init()
        await zombie.produce("orders", b"undead")
        heir = TransactionalClient(node, versions=versions)
        assert await heir.init() is ErrorCode.NONE
        late = await zombie.send(zombie.batch("orders", b"later"))
        assert late.error_code == ErrorCode.INVALID_PRODUCER_EPOCH
        assert await zombie.end() is ErrorCode.PRODUCER_FENCED
        assert await heir.produce("orders", b"alive") is ErrorCode.NONE
        assert await heir.end() is ErrorCode.NONE
        assert await read(node, "orders") == [b"alive"]

    play(tmp_path, scene)


def test_old_clients_are_fenced_in_words_they_know(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        await node.create_topic("orders")
        zombie = TransactionalClient(node, versions={"produce": 7, "end": 1})
        await zombie.init()
        await TransactionalClient(node).init()
        assert await zombie.add("orders", version=1) == [ErrorCode.INVALID_PRODUCER_EPOCH]
        assert await zombie.add("orders", version=2) == [ErrorCode.PRODUCER_FENCED]
        assert await zombie.end() is ErrorCode.INVALID_PRODUCER_EPOCH
        assert await zombie.init(is_named=True, version=3) is ErrorCode.INVALID_PRODUCER_EPOCH
        assert await zombie.init(is_named=True, version=4) is ErrorCode.PRODUCER_FENCED

    play(tmp_path, scene)


def test_init_checks_what_it_is_told(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        client = TransactionalClient(node)
        assert await client.init(timeout_ms=0) is ErrorCode.INVALID_TRANSACTION_TIMEOUT
        assert await client.init(timeout_ms=900_001) is ErrorCode.INVALID_TRANSACTION_TIMEOUT
        client.identity = ProducerIdentity(5, -1)
        assert await client.init(is_named=True) is ErrorCode.INVALID_REQUEST
        client.transactional_id = ""
        assert await client.init() is ErrorCode.INVALID_REQUEST

    play(tmp_path, scene)


# -- verification (KIP-890) -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("version", "code"), [(9, ErrorCode.INVALID_TXN_STATE), (11, ErrorCode.TRANSACTION_ABORTABLE)])
def test_a_partition_that_was_not_announced_takes_nothing(tmp_path: Path, version: int, code: ErrorCode) -> None:
    async def scene(node: RealNode) -> None:
        await node.create_topic("orders", partitions=2)
        client = TransactionalClient(node, versions={"produce": version, "end": 3})
        await client.init()
        await client.add("orders", 0)
        assert (await client.send(client.batch("orders", b"a", index=1))).error_code == code
        assert (await client.send(client.batch("orders", b"a", index=0))).error_code == ErrorCode.NONE

    play(tmp_path, scene)


def test_a_transaction_that_has_ended_takes_nothing(tmp_path: Path) -> None:
    """Version 2: its epoch is over. Version 1: it is not announced any more."""

    async def scene(node: RealNode) -> None:
        await node.create_topic("orders")
        for versions, code in (
            (VERSION_2, ErrorCode.INVALID_PRODUCER_EPOCH),
            ({"produce": 11, "end": 4}, ErrorCode.TRANSACTION_ABORTABLE),
        ):
            client = TransactionalClient(node, f"tx-{versions['end']}", versions=versions)
            await client.init()
            await client.produce("orders", b"a")
            late = client.batch("orders", b"late")
            await client.end()
            assert (await client.send(late)).error_code == code
        answer = await fetch(node, "orders")
        assert answer.last_stable_offset == answer.high_watermark

    play(tmp_path, scene)


def test_unknown_partitions_are_not_announced(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        await node.create_topic("orders", partitions=2)
        client = TransactionalClient(node)
        await client.init()
        assert await client.add("orders", 0, 5) == [
            ErrorCode.OPERATION_NOT_ATTEMPTED,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ]

    play(tmp_path, scene)


def test_the_first_sequence_of_an_epoch_is_zero(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        await node.create_topic("orders")
        client = TransactionalClient(node)
        await client.init()
        client.batch("orders", b"lost on the way")
        assert await client.produce("orders", b"second") is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    play(tmp_path, scene)


# -- the way back from the dead ---------------------------------------------------------------------------------------


@BOTH
def test_open_transactions_survive_a_restart(tmp_path: Path, versions: dict[str, int]) -> None:
    async def main() -> None:
        clock = FakeClock()
        node = await RealNode.open(tmp_path, {}, clock)
        await node.create_topic("orders")
        client = TransactionalClient(node, versions=versions)
        await client.init()
        await client.produce("orders", b"a")
        await node.close()
        client.node = node = await RealNode.open(tmp_path, {}, clock)
        await loaded(node)
        assert await read(node, "orders") == []
        assert (await client.send(client.batch("orders", b"b"))).error_code == ErrorCode.NONE
        assert await client.end() is ErrorCode.NONE
        assert await read(node, "orders") == [b"a", b"b"]
        await node.close()
        node = await RealNode.open(tmp_path, {}, clock)
        assert await read(node, "orders") == [b"a", b"b"]
        await node.close()

    asyncio.run(main())


def test_aborts_are_known_after_a_restart(tmp_path: Path) -> None:
    async def main() -> None:
        node = await RealNode.open(tmp_path, {})
        await node.create_topic("orders")
        client = TransactionalClient(node)
        await client.init()
        await client.produce("orders", b"aborted")
        await client.end(is_commit=False)
        await node.close()
        node = await RealNode.open(tmp_path, {})
        assert await read(node, "orders") == []
        await node.close()

    asyncio.run(main())


async def loaded(node: RealNode) -> None:
    while node.node.coordinators.transactions.is_loading:
        await asyncio.sleep(0)


# -- time -------------------------------------------------------------------------------------------------------------


def test_a_transaction_that_is_open_too_long_is_aborted(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        await node.create_topic("orders")
        client = TransactionalClient(node)
        await client.init(timeout_ms=5_000)
        await client.produce("orders", b"a")
        node.clock.advance(4)
        await node.node.transactions.abort_overdue()
        assert (await fetch(node, "orders")).last_stable_offset == 0
        node.clock.advance(1)
        await node.node.transactions.abort_overdue()
        await node.node.transactions.wait_finished("tx")
        answer = await fetch(node, "orders")
        assert answer.last_stable_offset == answer.high_watermark == 2
        assert await client.end() is ErrorCode.PRODUCER_FENCED

    play(tmp_path, scene)


def test_an_idle_transactional_id_is_forgotten(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        await TransactionalClient(node).init()
        node.clock.advance(9)
        await node.node.transactions.expire_ids()
        assert await states(node) == {"tx": "Empty"}
        node.clock.advance(1)
        await node.node.transactions.expire_ids()
        assert await states(node) == {}

    play(tmp_path, scene, transactional_id_expiration_ms="10000")


async def states(node: RealNode, **filters: object) -> dict[str, str]:
    answer = await node.ask(ApiKey.LIST_TRANSACTIONS, api.ListTransactionsRequest(**filters))  # type: ignore[arg-type]
    assert answer.error_code == 0
    return {one.transactional_id: one.transaction_state for one in answer.transaction_states}


# -- looking at them --------------------------------------------------------------------------------------------------


def test_transactions_are_listed_and_described(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        await node.create_topic("orders", partitions=3)
        client = TransactionalClient(node)
        await client.init()
        await TransactionalClient(node, "idle").init()
        await client.produce("orders", b"a", index=2)
        await client.produce("orders", b"a", index=0)
        assert await states(node) == {"tx": "Ongoing", "idle": "Empty"}
        assert await states(node, state_filters=["Ongoing"]) == {"tx": "Ongoing"}
        assert await states(node, transactional_id_pattern="i.*") == {"idle": "Empty"}
        request = api.ListTransactionsRequest(state_filters=["Odd"])
        assert (await node.ask(ApiKey.LIST_TRANSACTIONS, request)).unknown_state_filters == ["Odd"]
        request = api.ListTransactionsRequest(transactional_id_pattern="(")
        refused = await node.ask(ApiKey.LIST_TRANSACTIONS, request)
        assert refused.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
        request = api.DescribeTransactionsRequest(transactional_ids=["tx", "nobody", ""])
        found, unknown, empty = (await node.ask(ApiKey.DESCRIBE_TRANSACTIONS, request)).transaction_states
        assert (found.transaction_state, found.transaction_timeout_ms) == ("Ongoing", 60_000)
        assert ProducerIdentity(found.producer_id, found.producer_epoch) == client.identity
        assert [(one.topic, one.partitions) for one in found.topics] == [("orders", [2, 0])]
        assert unknown.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        assert empty.error_code == ErrorCode.INVALID_REQUEST

    play(tmp_path, scene)


def test_a_topic_that_is_deleted_does_not_hold_up_its_transaction(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        await node.create_topic("orders")
        await node.create_topic("gone")
        client = TransactionalClient(node)
        await client.init()
        await client.produce("orders", b"a")
        await client.produce("gone", b"a")
        await node.delete_topic("gone")
        assert await client.end() is ErrorCode.NONE
        assert await states(node) == {"tx": "CompleteCommit"}
        assert await read(node, "orders") == [b"a"]

    play(tmp_path, scene)


# -- between coordinator and leaders ----------------------------------------------------------------------------------


class FailingPeers:
    """Loses the first requests for markers, or their answers."""

    def __init__(self, inner: Peers, failure_count: int, *, is_answer_lost: bool) -> None:
        self._inner = inner
        self._failure_count = failure_count
        self._is_answer_lost = is_answer_lost
        self.marker_request_count = 0

    async def ask(self, broker_id: NodeId, api_key: ApiKey, api_version: int, request: Message) -> Any:
        if api_key is not ApiKey.WRITE_TXN_MARKERS:
            return await self._inner.ask(broker_id, api_key, api_version, request)
        self.marker_request_count += 1
        fails = self.marker_request_count <= self._failure_count
        if self._is_answer_lost or not fails:
            answer = await self._inner.ask(broker_id, api_key, api_version, request)
        if fails:
            raise ApiError(ErrorCode.NETWORK_EXCEPTION, "lost on purpose")
        return answer


@BOTH
@pytest.mark.parametrize("is_answer_lost", [False, True])
def test_markers_are_asked_for_until_they_are_written(
    tmp_path: Path, versions: dict[str, int], is_answer_lost: bool
) -> None:
    async def scene(node: RealNode) -> None:
        await node.create_topic("orders")
        client = TransactionalClient(node, versions=versions)
        await client.init()
        await client.produce("orders", b"a")
        peers = node.node.peers = FailingPeers(node.node.peers, 2, is_answer_lost=is_answer_lost)
        assert await client.end() is ErrorCode.NONE
        while await states(node) != {"tx": "CompleteCommit"}:
            await node.node.transactions.wait_finished("tx")
        assert peers.marker_request_count == 3
        assert await read(node, "orders") == [b"a"]

    play(tmp_path, scene)


def test_a_decision_outlives_the_node(tmp_path: Path) -> None:
    """The node stops between the decision and its markers; the next one writes them."""

    async def main() -> None:
        node = await RealNode.open(tmp_path, {})
        await node.create_topic("orders")
        client = TransactionalClient(node)
        await client.init()
        await client.produce("orders", b"a")
        node.node.peers = FailingPeers(node.node.peers, 1_000_000, is_answer_lost=False)
        assert await client.end() is ErrorCode.NONE
        assert await states(node) == {"tx": "PrepareCommit"}
        await node.close()
        node = await RealNode.open(tmp_path, {})
        await loaded(node)
        while await states(node) != {"tx": "CompleteCommit"}:
            await node.node.transactions.wait_finished("tx")
        assert await read(node, "orders") == [b"a"]
        await node.close()

    asyncio.run(main())
