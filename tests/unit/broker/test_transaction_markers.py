"""WriteTxnMarkers: whose word ends a transaction on a partition, and whose comes too late."""

from pathlib import Path

from ottla.base.errors import ErrorCode
from ottla.coordinator.machine import ProducerIdentity
from ottla.wire import api
from ottla.wire.apis import ApiKey
from tests.unit.broker.real_node import RealNode, play
from tests.unit.broker.transactional_client import VERSION_1, TransactionalClient, fetch, read

GROUP_TOPIC = "__consumer_offsets"
TRANSACTION_TOPIC = "__transaction_state"


async def write_marker(
    node: RealNode,
    producer: ProducerIdentity,
    *,
    topic: str = "orders",
    index: int = 0,
    is_commit: bool = False,
    coordinator_epoch: int = 0,
    transaction_version: int = 0,
    version: int = 2,
) -> ErrorCode:
    marker = api.WriteTxnMarkersRequest.WritableTxnMarker(
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        transaction_result=is_commit,
        topics=[api.WriteTxnMarkersRequest.WritableTxnMarkerTopic(name=topic, partition_indexes=[index])],
        coordinator_epoch=coordinator_epoch,
        transaction_version=transaction_version,
    )
    answer = await node.ask(ApiKey.WRITE_TXN_MARKERS, api.WriteTxnMarkersRequest(markers=[marker]), version)
    (result,) = answer.markers
    assert result.producer_id == producer.producer_id
    return ErrorCode(result.topics[0].partitions[0].error_code)


def test_nobody_but_its_coordinator_writes_to_the_log_of_transactions(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        client = await opened(node)
        for index in range(50):
            code = await write_marker(node, ProducerIdentity(12345, 0), topic=TRANSACTION_TOPIC, index=index)
            assert code is ErrorCode.INVALID_TOPIC_EXCEPTION
        await client.end()

    play(tmp_path, scene)


def raised(producer: ProducerIdentity, by: int = 1) -> ProducerIdentity:
    return ProducerIdentity(producer.producer_id, producer.epoch + by)


async def opened(node: RealNode, **more: dict[str, int]) -> TransactionalClient:
    await node.create_topic("orders")
    client = TransactionalClient(node, **more)
    await client.init()
    await client.produce("orders", b"a")
    return client


def test_an_administrator_aborts_a_transaction_that_hangs(tmp_path: Path) -> None:
    """KIP-664: with the producer's own epoch, as DescribeProducers tells it."""

    async def scene(node: RealNode) -> None:
        client = await opened(node)
        request = api.DescribeProducersRequest(
            topics=[api.DescribeProducersRequest.TopicRequest(name="orders", partition_indexes=[0])]
        )
        (hanging,) = (await node.ask(ApiKey.DESCRIBE_PRODUCERS, request)).topics[0].partitions[0].active_producers
        assert hanging.current_txn_start_offset == 0
        assert (hanging.producer_id, hanging.producer_epoch) == client.identity
        assert await write_marker(node, client.identity, version=1) is ErrorCode.NONE
        answer = await fetch(node, "orders")
        assert answer.last_stable_offset == answer.high_watermark == 2
        assert await read(node, "orders") == []

    play(tmp_path, scene)


def test_a_marker_that_comes_twice_is_written_once(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        client = await opened(node)
        for _ in range(2):
            code = await write_marker(node, raised(client.identity), is_commit=True, transaction_version=2)
            assert code is ErrorCode.NONE
        assert (await fetch(node, "orders")).high_watermark == 2

    play(tmp_path, scene)


def test_a_late_marker_does_not_end_a_later_transaction(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        client = await opened(node)
        first = client.identity
        await client.end()
        await client.produce("orders", b"b")
        code = await write_marker(node, raised(first), is_commit=True, transaction_version=2)
        assert code is ErrorCode.INVALID_PRODUCER_EPOCH
        assert await write_marker(node, first, is_commit=True) is ErrorCode.INVALID_PRODUCER_EPOCH
        assert (await fetch(node, "orders")).last_stable_offset == 2

    play(tmp_path, scene)


def test_version_1_the_window_a_late_marker_does_end_a_later_transaction(tmp_path: Path) -> None:
    """docs/decisions/0004: between brokers it takes a repeated request that outlives its connection."""

    async def scene(node: RealNode) -> None:
        client = await opened(node, versions=VERSION_1)
        await client.end()
        await client.produce("orders", b"b")
        assert await write_marker(node, client.identity, is_commit=True) is ErrorCode.NONE
        assert await read(node, "orders") == [b"a", b"b"]

    play(tmp_path, scene)


def test_a_coordinator_that_was_replaced_is_fenced(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        client = await opened(node)
        assert await write_marker(node, raised(client.identity), coordinator_epoch=7) is ErrorCode.NONE
        late = await write_marker(node, raised(client.identity, 2), coordinator_epoch=6)
        assert late is ErrorCode.TRANSACTION_COORDINATOR_FENCED

    play(tmp_path, scene)


def test_a_marker_fences_what_was_never_written(tmp_path: Path) -> None:
    """A write that is on its way while its transaction ends: the marker's epoch keeps it out."""

    async def scene(node: RealNode) -> None:
        await node.create_topic("orders")
        client = TransactionalClient(node)
        await client.init()
        await client.add("orders")
        late = client.batch("orders", b"late")
        await client.end(is_commit=False)
        assert (await fetch(node, "orders")).high_watermark == 1
        assert (await client.send(late)).error_code == ErrorCode.INVALID_PRODUCER_EPOCH

    play(tmp_path, scene)


def test_unknown_partitions_are_told(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        code = await write_marker(node, ProducerIdentity(1, 0), topic="nowhere")
        assert code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    play(tmp_path, scene)
