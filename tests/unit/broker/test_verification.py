"""The first write of a transaction waits for the coordinator; order is kept, and what ends meanwhile is not reopened."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.types import NodeId
from ottla.broker.peers import Peers
from ottla.wire import api
from ottla.wire.apis import ApiKey
from ottla.wire.message import Message
from tests.unit.broker.real_node import RealNode, play, values_of
from tests.unit.broker.test_transaction_markers import write_marker
from tests.unit.broker.transactional_client import VERSION_1, VERSION_2, TransactionalClient, fetch


class SlowPeers:
    """Keeps questions to coordinators until they are let go; each of `failures` answers one of them instead."""

    def __init__(self, inner: Peers) -> None:
        self._inner = inner
        self._gate = asyncio.Event()
        self.asked: list[Message] = []
        self.failures: list[ErrorCode] = []

    async def ask(self, broker_id: NodeId, api_key: ApiKey, api_version: int, request: Message) -> Any:
        if api_key is ApiKey.ADD_PARTITIONS_TO_TXN:
            self.asked.append(request)
            failure = self.failures.pop(0) if self.failures else None
            await self._gate.wait()
            if failure is not None:
                raise ApiError(failure, "on purpose")
        return await self._inner.ask(broker_id, api_key, api_version, request)

    def let_go(self) -> None:
        self._gate.set()


async def prepared(
    node: RealNode, *, versions: dict[str, int] = VERSION_2, **configs: str
) -> tuple[SlowPeers, TransactionalClient]:
    await node.create_topic("orders", partitions=2, **configs)
    client = TransactionalClient(node, versions=versions)
    await client.init()
    peers = SlowPeers(node.node.peers)
    node.node.peers = peers
    return peers, client


async def turns(count: int = 20) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def test_later_writes_of_the_producer_do_not_overtake_the_one_that_waits(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        peers, client = await prepared(node)
        writes = []
        for number in range(3):
            writes.append(asyncio.ensure_future(client.send(client.batch("orders", b"%d" % number))))
            await turns()
        assert not any(write.done() for write in writes)
        assert (await node.produce("orders", b"of somebody else")).base_offset == 0
        peers.let_go()
        assert [(one.error_code, one.base_offset) for one in await asyncio.gather(*writes)] == [(0, 1), (0, 2), (0, 3)]
        assert len(peers.asked) == 1

    play(tmp_path, scene)


def test_writes_behind_the_first_are_appended_where_others_write_in_line(tmp_path: Path) -> None:
    """A topic with a codec of its own: appends wait for a worker. The coordinator is asked once all the same."""

    async def scene(node: RealNode) -> None:
        peers, client = await prepared(node, compression_type="gzip")
        writes = [asyncio.ensure_future(client.send(client.batch("orders", b"%d" % number))) for number in range(4)]
        await turns()

        async def write_on() -> None:
            while not all(write.done() for write in writes):
                await node.produce("orders", b"of somebody else")

        crowd = [asyncio.ensure_future(write_on()) for _ in range(3)]
        peers.let_go()
        assert [one.error_code for one in await asyncio.gather(*writes)] == [ErrorCode.NONE] * 4
        await asyncio.gather(*crowd)
        assert len(peers.asked) == 1
        assert await client.end() is ErrorCode.NONE

    play(tmp_path, scene)


def test_writes_of_an_open_transaction_are_in_line_together(tmp_path: Path) -> None:
    """Also those that had to wait for the first one: none waits until the one before it is written."""

    async def scene(node: RealNode) -> None:
        peers, client = await prepared(node, compression_type="gzip")
        writes = [asyncio.ensure_future(client.send(client.batch("orders", b"%d" % number))) for number in range(3)]
        await turns()
        peers.let_go()
        await writes[0]
        node.workers.hold()
        writes += [asyncio.ensure_future(client.send(client.batch("orders", b"%d" % number))) for number in (3, 4)]
        await turns()
        last = asyncio.ensure_future(node.produce("orders", b"of somebody else"))
        await turns()
        node.workers.release()
        assert [(await write).base_offset for write in (*writes, last)] == [0, 1, 2, 3, 4, 5]
        assert await client.end() is ErrorCode.NONE

    play(tmp_path, scene)


@pytest.mark.parametrize("is_own_marker", [True, False])
def test_a_marker_in_line_counts_for_its_own_producer(tmp_path: Path, is_own_marker: bool) -> None:
    async def scene(node: RealNode) -> None:
        await node.create_topic("orders", internal_segment_bytes="400")
        clients = [TransactionalClient(node, name, versions={"produce": 11, "end": 4}) for name in ("one", "other")]
        for client in clients:
            await client.init()
            await client.produce("orders", b"x" * 80)
        partition = node.node.partitions.leader_of("orders", 0)
        one, other = (client.identity for client in clients)
        node.workers.hold()
        rolling = asyncio.ensure_future(node.produce("orders", b"y" * 200))
        await turns()
        assert partition.is_in_transaction(*one)
        ended = one if is_own_marker else other
        ending = asyncio.ensure_future(write_marker(node, ended))
        await turns()
        ending.cancel()  # Whoever asked goes away, and the marker keeps its place.
        await turns()
        assert partition.is_in_transaction(*one) is not is_own_marker
        node.workers.release()
        await rolling
        await turns()
        assert partition.is_in_transaction(*one) is not is_own_marker
        assert partition.is_in_transaction(*other) is is_own_marker

    play(tmp_path, scene)


def test_the_partitions_of_one_request_are_one_question(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        peers, client = await prepared(node)
        peers.let_go()
        first, second = client.batch("orders", b"a", index=0), client.batch("orders", b"b", index=1)
        first.topic_data[0].partition_data += second.topic_data[0].partition_data
        answer = await node.ask(ApiKey.PRODUCE, first, 12)
        assert [one.error_code for one in answer.responses[0].partition_responses] == [0, 0]
        assert len(peers.asked) == 1

    play(tmp_path, scene)


@pytest.mark.parametrize("versions", [VERSION_1, {"produce": 12, "end": 5}], ids=["version 1", "version 2"])
def test_a_write_behind_one_that_failed_is_not_the_first(tmp_path: Path, versions: dict[str, int]) -> None:
    """A partition that knows nothing of the producer would take any sequence; then the first one were lost."""

    async def scene(node: RealNode) -> None:
        peers, client = await prepared(node, versions=versions)
        if versions is VERSION_1:
            await client.add("orders")
        peers.failures = [ErrorCode.NETWORK_EXCEPTION]
        first, second = client.batch("orders", b"first"), client.batch("orders", b"second")
        both = [asyncio.ensure_future(client.send(request)) for request in (first, second)]
        await turns()
        peers.let_go()
        codes = [ErrorCode((await one).error_code) for one in both]
        assert codes == [ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]
        assert (await client.send(second)).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        for request in (first, second):
            assert (await client.send(request)).error_code == ErrorCode.NONE
        assert values_of((await fetch(node, "orders", committed=False)).records) == [b"first", b"second"]

    play(tmp_path, scene)


def test_a_marker_in_between_keeps_the_write_out(tmp_path: Path) -> None:
    """Version 1: the epoch does not tell that the transaction ended while its coordinator was asked."""

    async def scene(node: RealNode) -> None:
        peers, client = await prepared(node, versions={"produce": 11, "end": 4})
        await client.add("orders")
        late = asyncio.ensure_future(client.send(client.batch("orders", b"late")))
        await turns()
        assert await write_marker(node, client.identity) is ErrorCode.NONE
        peers.let_go()
        assert (await late).error_code == ErrorCode.INVALID_TXN_STATE
        answer = await fetch(node, "orders")
        assert answer.last_stable_offset == answer.high_watermark == 1

    play(tmp_path, scene)


def test_a_client_that_goes_away_leaves_the_order_as_it_was(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        peers, client = await prepared(node)
        gone = asyncio.ensure_future(client.send(client.batch("orders", b"a")))
        await turns()
        gone.cancel()
        later = asyncio.ensure_future(client.send(client.batch("orders", b"b")))
        await turns()
        peers.let_go()
        assert (await later).base_offset == 1

    play(tmp_path, scene)


def test_a_write_right_after_the_commit_waits_for_the_markers(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        await node.create_topic("orders", flush_messages="1")
        client = TransactionalClient(node)
        await client.init()
        await client.produce("orders", b"a")
        node.workers.hold()  # No fsync, so no marker is committed.
        assert await client.end() is ErrorCode.NONE
        next_write = asyncio.ensure_future(client.send(client.batch("orders", b"b")))
        await turns()
        assert not next_write.done()
        node.workers.release()
        assert (await next_write).error_code == ErrorCode.NONE

    play(tmp_path, scene, add_partitions_to_txn_retry_backoff_max_ms="200")


def test_offsets_are_part_of_the_transaction(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        await node.create_topic("input")
        await node.ask(ApiKey.FIND_COORDINATOR, api.FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]))
        client = TransactionalClient(node)
        await client.init()
        for number, is_commit in enumerate([True, False, True]):
            assert await commit_offset(node, client, 10 + number) is ErrorCode.NONE
            before = await committed(node, "g")
            assert await client.end(is_commit=is_commit) is ErrorCode.NONE
            assert await committed(node, "g") == (10 + number if is_commit else before)

    play(tmp_path, scene)


def test_version_1_offsets_need_to_be_announced(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        await node.create_topic("input")
        await node.ask(ApiKey.FIND_COORDINATOR, api.FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]))
        client = TransactionalClient(node, versions=VERSION_1)
        await client.init()
        assert await commit_offset(node, client, 5, version=3) is ErrorCode.INVALID_TXN_STATE
        announcement = api.AddOffsetsToTxnRequest(
            transactional_id="tx",
            producer_id=client.identity.producer_id,
            producer_epoch=client.identity.epoch,
            group_id="g",
        )
        assert (await node.ask(ApiKey.ADD_OFFSETS_TO_TXN, announcement)).error_code == 0
        assert await commit_offset(node, client, 5, version=3) is ErrorCode.NONE
        assert await client.end() is ErrorCode.NONE
        assert await committed(node, "g") == 5

    play(tmp_path, scene)


def test_offsets_of_what_does_not_exist_are_refused_beside_the_others(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        await node.create_topic("input")
        await node.ask(ApiKey.FIND_COORDINATOR, api.FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]))
        client = TransactionalClient(node)
        await client.init()
        Request = api.TxnOffsetCommitRequest
        request = Request(
            transactional_id=client.transactional_id,
            group_id="g",
            producer_id=client.identity.producer_id,
            producer_epoch=client.identity.epoch,
            topics=[
                Request.TxnOffsetCommitRequestTopic(
                    name=name,
                    partitions=[
                        Request.TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=7)
                        for index in (0, 1, -1)
                    ],
                )
                for name in ("input", "unheard-of")
            ],
        )
        answer = await node.ask(ApiKey.TXN_OFFSET_COMMIT, request)
        codes = [
            (topic.name, one.partition_index, one.error_code) for topic in answer.topics for one in topic.partitions
        ]
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert codes == [
            ("input", 0, ErrorCode.NONE),
            *(("input", index, unknown) for index in (1, -1)),
            *(("unheard-of", index, unknown) for index in (0, 1, -1)),
        ]
        assert await client.end() is ErrorCode.NONE
        assert await committed(node, "g") == 7

    play(tmp_path, scene)


async def commit_offset(node: RealNode, client: TransactionalClient, offset: int, version: int = 5) -> ErrorCode:
    partition = api.TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    request = api.TxnOffsetCommitRequest(
        transactional_id=client.transactional_id,
        group_id="g",
        producer_id=client.identity.producer_id,
        producer_epoch=client.identity.epoch,
        topics=[api.TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(name="input", partitions=[partition])],
    )
    answer = await node.ask(ApiKey.TXN_OFFSET_COMMIT, request, version)
    return ErrorCode(answer.topics[0].partitions[0].error_code)


async def committed(node: RealNode, group_id: str) -> int:
    topic = api.OffsetFetchRequest.OffsetFetchRequestTopics(name="input", partition_indexes=[0])
    group = api.OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group_id, topics=[topic])
    answer = await node.ask(ApiKey.OFFSET_FETCH, api.OffsetFetchRequest(groups=[group]), 9)
    offset: int = answer.groups[0].topics[0].partitions[0].committed_offset
    return offset


def test_a_write_behind_a_marker_in_line_does_not_open_a_new_transaction(tmp_path: Path) -> None:
    """Version 1: the partition rolls, its marker waits for that, and a late write finds the transaction open still."""

    async def scene(node: RealNode) -> None:
        await node.create_topic("orders", internal_segment_bytes="300")
        client = TransactionalClient(node, versions={"produce": 11, "end": 4})
        await client.init()
        await client.produce("orders", b"x" * 200)
        node.workers.hold()
        rolling = asyncio.ensure_future(node.produce("orders", b"y" * 100))
        await turns()
        ending = asyncio.ensure_future(client.end())
        await turns()
        late = asyncio.ensure_future(client.send(client.batch("orders", b"late")))
        await turns()
        node.workers.release()
        assert await ending is ErrorCode.NONE
        assert (await late).error_code != ErrorCode.NONE
        await rolling
        answer = await fetch(node, "orders")
        assert answer.last_stable_offset == answer.high_watermark == 3

    play(tmp_path, scene)


def test_verification_of_version_1_can_be_switched_off(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        await node.create_topic("orders", partitions=2)
        client = TransactionalClient(node, versions=VERSION_1)
        await client.init()
        resource = api.IncrementalAlterConfigsRequest.AlterConfigsResource(
            resource_type=4,
            resource_name="",
            configs=[
                api.IncrementalAlterConfigsRequest.AlterableConfig(
                    name="transaction.partition.verification.enable", value="false"
                )
            ],
        )
        request = api.IncrementalAlterConfigsRequest(resources=[resource])
        assert (await node.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, request)).responses[0].error_code == 0
        assert (await client.send(client.batch("orders", b"never announced"))).error_code == ErrorCode.NONE
        assert (await fetch(node, "orders")).last_stable_offset == 0

    play(tmp_path, scene)
