"""A transactional producer and a reader of committed data, as requests to a node without sockets."""

from dataclasses import dataclass, field
from typing import Any

from ottla.base.errors import ErrorCode
from ottla.coordinator.machine import ProducerIdentity
from ottla.wire import api
from ottla.wire.apis import ApiKey
from ottla.wire.message import Message
from ottla.wire.records import batches, records_of
from tests.unit.broker.real_node import RealNode, produce_request

NOBODY = ProducerIdentity(-1, -1)
VERSION_1 = {"produce": 9, "end": 3}
VERSION_2 = {"produce": 12, "end": 5}


@dataclass
class TransactionalClient:
    """Speaks transaction.version 2, or 1 with `versions=VERSION_1`."""

    node: RealNode
    transactional_id: str = "tx"
    versions: dict[str, int] = field(default_factory=lambda: VERSION_2)
    identity: ProducerIdentity = NOBODY
    sequences: dict[tuple[str, int], int] = field(default_factory=dict)
    left_open: ProducerIdentity = NOBODY
    """Whose transaction the last init kept."""

    @property
    def adds_partitions(self) -> bool:
        return self.versions["produce"] >= 12

    async def init(
        self,
        *,
        is_named: bool = False,
        timeout_ms: int = 60_000,
        version: int = 6,
        is_two_phase: bool = False,
        keeps_open: bool = False,
    ) -> ErrorCode:
        await self.node.ask(
            ApiKey.FIND_COORDINATOR,
            api.FindCoordinatorRequest(key_type=1, coordinator_keys=[self.transactional_id]),
        )
        identity = self.identity if is_named else NOBODY
        request = api.InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=timeout_ms,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            enable2_pc=is_two_phase,
            keep_prepared_txn=keeps_open,
        )
        answer = await self.node.ask(ApiKey.INIT_PRODUCER_ID, request, version)
        self.left_open = ProducerIdentity(answer.ongoing_txn_producer_id, answer.ongoing_txn_producer_epoch)
        if answer.error_code == 0:
            self.become(ProducerIdentity(answer.producer_id, answer.producer_epoch))
        return ErrorCode(answer.error_code)

    def become(self, identity: ProducerIdentity) -> None:
        if identity != self.identity:
            self.identity = identity
            self.sequences.clear()

    async def add(self, topic: str, *indexes: int, version: int = 3) -> list[ErrorCode]:
        request = api.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.identity.producer_id,
            v3_and_below_producer_epoch=self.identity.epoch,
            v3_and_below_topics=[
                api.AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=topic, partitions=[*indexes] or [0])
            ],
        )
        answer = await self.node.ask(ApiKey.ADD_PARTITIONS_TO_TXN, request, version)
        (result,) = answer.results_by_topic_v3_and_below
        return [ErrorCode(one.partition_error_code) for one in result.results_by_partition]

    def batch(self, topic: str, *values: bytes, index: int = 0) -> Message:
        """The next one of the producer: its sequence is taken."""
        sequence = self.sequences.get((topic, index), 0)
        self.sequences[topic, index] = sequence + len(values)
        records = self.node.batch(
            *values,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.epoch,
            base_sequence=sequence,
            transactional=True,
        )
        return produce_request(topic, records, index=index, transactional_id=self.transactional_id)

    async def send(self, request: Message) -> Any:
        response = await self.node.ask(ApiKey.PRODUCE, request, self.versions["produce"])
        return response.responses[0].partition_responses[0]

    async def produce(self, topic: str, *values: bytes, index: int = 0) -> ErrorCode:
        if not self.adds_partitions:
            await self.add(topic, index)
        return ErrorCode((await self.send(self.batch(topic, *values, index=index))).error_code)

    async def end(self, *, is_commit: bool = True, identity: ProducerIdentity | None = None) -> ErrorCode:
        identity = identity or self.identity
        request = api.EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            committed=is_commit,
        )
        answer = await self.node.ask(ApiKey.END_TXN, request, self.versions["end"])
        if answer.error_code == 0 and self.versions["end"] >= 5:
            self.become(ProducerIdentity(answer.producer_id, answer.producer_epoch))
        return ErrorCode(answer.error_code)


async def fetch(
    node: RealNode, topic: str, *, offset: int = 0, index: int = 0, committed: bool = True, **more: Any
) -> Any:
    """One partition's answer."""
    partition = api.FetchRequest.FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 20)
    request = api.FetchRequest(
        **{"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20, "session_epoch": -1, **more},
        isolation_level=1 if committed else 0,
        topics=[api.FetchRequest.FetchTopic(topic=topic, partitions=[partition])],
    )
    return (await node.ask(ApiKey.FETCH, request, 12)).responses[0].partitions[0]


def visible(answer: Any) -> list[bytes | None]:
    """As a client reads it: records of aborted transactions and markers are passed over."""
    aborted = sorted((one.first_offset, one.producer_id) for one in answer.aborted_transactions or ())
    skipping: set[int] = set()
    values: list[bytes | None] = []
    for batch in batches(memoryview(bytes(answer.records or b"")), stop_at_partial=True):
        header = batch.header
        while aborted and aborted[0][0] <= header.last_offset:
            skipping.add(aborted.pop(0)[1])
        if header.is_control:
            skipping.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in skipping):
            values += [record.value for record in records_of(batch.view)]
    return values


async def read(node: RealNode, topic: str, *, index: int = 0) -> list[bytes | None]:
    return visible(await fetch(node, topic, index=index))
