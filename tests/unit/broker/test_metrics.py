"""What a node tells of itself: prepared transactions and their age, replicas, the controller."""

from pathlib import Path

from ottla.base.errors import ErrorCode
from ottla.broker.metrics import metrics_of
from tests.unit.broker.real_node import RealNode, play
from tests.unit.broker.transactional_client import TransactionalClient

HOUR_SECONDS = 3_600


def figures(node: RealNode) -> dict[str, float]:
    return {metric.name: metric.value for metric in metrics_of(node.node)}


def test_the_age_of_the_oldest_prepared_transaction_grows_until_it_is_decided(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        await node.create_topic("orders")
        clients = [TransactionalClient(node, transactional_id) for transactional_id in ("first", "second")]
        for client in clients:
            assert await client.init(is_two_phase=True) is ErrorCode.NONE
            assert await client.produce("orders", b"a") is ErrorCode.NONE
            node.clock.advance(HOUR_SECONDS)
        assert figures(node)["ottla_transactions_prepared"] == 2
        assert figures(node)["ottla_transactions_prepared_age_seconds"] == 2 * HOUR_SECONDS
        assert await clients[0].end() is ErrorCode.NONE
        assert figures(node)["ottla_transactions_prepared_age_seconds"] == HOUR_SECONDS
        assert await clients[1].end() is ErrorCode.NONE
        assert figures(node)["ottla_transactions_prepared_age_seconds"] == 0

    play(tmp_path, scene)


def test_a_transaction_that_ends_with_its_producer_is_none_of_them(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        await node.create_topic("orders")
        client = TransactionalClient(node)
        assert await client.init() is ErrorCode.NONE
        assert await client.produce("orders", b"a") is ErrorCode.NONE
        assert figures(node)["ottla_transactions_prepared"] == 0

    play(tmp_path, scene)


def test_one_node_leads_what_it_has_and_is_the_controller(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        before = figures(node)
        await node.create_topic("orders", 3)
        told = figures(node)
        assert told["kafka_server_replicamanager_leadercount"] - before["kafka_server_replicamanager_leadercount"] == 3
        assert told["kafka_server_replicamanager_underreplicatedpartitions"] == 0
        assert told["kafka_controller_kafkacontroller_activecontrollercount"] == 1
        assert told["kafka_log_logmanager_offlinelogdirectorycount"] == 0

    play(tmp_path, scene)
