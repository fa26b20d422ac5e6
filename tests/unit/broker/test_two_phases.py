"""Two-phase commit on a whole node (KIP-939): prepare, disappear, come back, and let the decision be visible once."""

import asyncio
from pathlib import Path

import pytest

from ottla.base.errors import ErrorCode
from ottla.wire import api
from ottla.wire.apis import ApiKey
from tests.unit.broker.real_node import RealNode, play
from tests.unit.broker.transactional_client import NOBODY, TransactionalClient, fetch, read
from tests.unit.fakes import FakeClock

HOUR_SECONDS = 3_600


async def prepare(node: RealNode, *values: bytes) -> TransactionalClient:
    await node.create_topic("orders")
    client = TransactionalClient(node)
    assert await client.init(is_two_phase=True) is ErrorCode.NONE
    assert await client.produce("orders", *values) is ErrorCode.NONE
    return client


async def pass_time(node: RealNode, seconds: float) -> None:
    node.clock.advance(seconds)
    await node.node.transactions.abort_overdue()
    await node.node.transactions.wait_finished("tx")


def test_a_prepared_transaction_waits_for_its_decision(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        client = await prepare(node, b"a")
        await pass_time(node, 24 * HOUR_SECONDS)
        assert await read(node, "orders") == []
        handle = client.identity
        assert await TransactionalClient(node).end(identity=handle) is ErrorCode.NONE
        assert await read(node, "orders") == [b"a"]
        assert await TransactionalClient(node).end(identity=handle) is ErrorCode.NONE
        assert await TransactionalClient(node).end(identity=handle, is_commit=False) is ErrorCode.INVALID_TXN_STATE
        assert await read(node, "orders") == [b"a"]

    play(tmp_path, scene)


@pytest.mark.parametrize("is_commit", [True, False])
def test_its_client_comes_back_after_a_restart_and_decides(tmp_path: Path, is_commit: bool) -> None:
    async def main() -> None:
        clock = FakeClock()
        node = await RealNode.open(tmp_path, {}, clock)
        dead = await prepare(node, b"a", b"b")
        await node.close()
        node = await RealNode.open(tmp_path, {}, clock)
        while node.node.coordinators.transactions.is_loading:
            await asyncio.sleep(0)
        back = TransactionalClient(node)
        assert await back.init(is_two_phase=True, keeps_open=True) is ErrorCode.NONE
        assert back.left_open == dead.identity
        dead.node = node
        assert await dead.end() is ErrorCode.PRODUCER_FENCED
        assert await back.produce("orders", b"too late") is not ErrorCode.NONE
        assert await back.end(is_commit=is_commit) is ErrorCode.NONE
        assert await read(node, "orders") == ([b"a", b"b"] if is_commit else [])
        assert await back.produce("orders", b"c") is ErrorCode.NONE
        assert await back.end() is ErrorCode.NONE
        assert await read(node, "orders") == ([b"a", b"b"] if is_commit else []) + [b"c"]
        await node.close()

    asyncio.run(main())


def test_nothing_left_open_is_told_as_nobody(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        client = TransactionalClient(node)
        assert await client.init(is_two_phase=True, keeps_open=True) is ErrorCode.NONE
        assert client.left_open == NOBODY

    play(tmp_path, scene)


def test_it_is_given_up_after_our_own_limit(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        client = await prepare(node, b"a")
        await pass_time(node, HOUR_SECONDS - 1)
        assert (await fetch(node, "orders")).last_stable_offset == 0
        await pass_time(node, 1)
        answer = await fetch(node, "orders")
        assert answer.last_stable_offset == answer.high_watermark == 2
        assert await client.end() is ErrorCode.PRODUCER_FENCED

    play(tmp_path, scene, ottla_transaction_prepared_max_ms=str(HOUR_SECONDS * 1000))


def test_whoever_starts_anew_aborts_it(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        await prepare(node, b"a")
        heir = TransactionalClient(node)
        assert await heir.init() is ErrorCode.NONE
        assert await heir.produce("orders", b"b") is ErrorCode.NONE
        assert await heir.end() is ErrorCode.NONE
        assert await read(node, "orders") == [b"b"]

    play(tmp_path, scene)


def test_its_description_says_that_it_has_no_time_out_of_its_own(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        client = await prepare(node, b"a")
        await TransactionalClient(node).init(is_two_phase=True, keeps_open=True)
        request = api.DescribeTransactionsRequest(transactional_ids=["tx"])
        [found] = (await node.ask(ApiKey.DESCRIBE_TRANSACTIONS, request)).transaction_states
        assert (found.transaction_state, found.transaction_timeout_ms) == ("Ongoing", 2**31 - 1)
        assert (found.producer_id, found.producer_epoch) == client.identity

    play(tmp_path, scene)


def test_it_can_be_switched_off(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        client = TransactionalClient(node)
        assert await client.init(is_two_phase=True) is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        assert await client.init(keeps_open=True) is ErrorCode.NONE

    play(tmp_path, scene, transaction_two_phase_commit_enable="false")


def test_who_keeps_what_is_open_has_no_identity_yet(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        client = TransactionalClient(node)
        await client.init()
        assert await client.init(is_named=True, keeps_open=True) is ErrorCode.INVALID_REQUEST

    play(tmp_path, scene)


def test_it_takes_epochs_that_every_end_raises(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        update = api.UpdateFeaturesRequest.FeatureUpdateKey(
            feature="transaction.version", max_version_level=1, upgrade_type=2
        )
        answer = await node.ask(ApiKey.UPDATE_FEATURES, api.UpdateFeaturesRequest(feature_updates=[update]))
        assert answer.error_code == ErrorCode.NONE
        assert await TransactionalClient(node).init(keeps_open=True) is ErrorCode.UNSUPPORTED_VERSION

    play(tmp_path, scene)
