"""A transactional producer and a reader of committed data over simulated connections, in a few lines each."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from ottla.base.errors import ErrorCode, invariant
from ottla.base.types import NO_EPOCH, NO_PRODUCER_ID, Offset
from ottla.coordinator.machine import ProducerIdentity
from ottla.wire import api
from ottla.wire.apis import ApiKey
from ottla.wire.message import Message
from ottla.wire.records import BatchBuilder, Record, batches, check_crc, records_of
from sim.client import VERSIONS, Client, Unanswered

_COMMON: Final[Mapping[ApiKey, int]] = {
    **VERSIONS,
    ApiKey.INIT_PRODUCER_ID: 4,
    ApiKey.ADD_PARTITIONS_TO_TXN: 3,
    ApiKey.ADD_OFFSETS_TO_TXN: 3,
    ApiKey.FIND_COORDINATOR: 4,
    ApiKey.OFFSET_FETCH: 8,
    ApiKey.LIST_TRANSACTIONS: 1,
}
CLIENT_VERSIONS: Final[dict[int, Mapping[ApiKey, int]]] = {
    1: {**_COMMON, ApiKey.PRODUCE: 9, ApiKey.END_TXN: 3, ApiKey.TXN_OFFSET_COMMIT: 3},
    2: {**_COMMON, ApiKey.INIT_PRODUCER_ID: 6, ApiKey.PRODUCE: 12, ApiKey.END_TXN: 5, ApiKey.TXN_OFFSET_COMMIT: 5},
}
NOBODY: Final = ProducerIdentity(NO_PRODUCER_ID, NO_EPOCH)
OF_PARTITIONS: Final = frozenset(
    (
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.LEADER_NOT_AVAILABLE,
    )
)
"""What happened to a coordinator's partition is not for its clients: none of them looks for another coordinator then."""
PASSING: Final = OF_PARTITIONS | {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.CONCURRENT_TRANSACTIONS,
}
RETRY_SECONDS: Final = 0.1
TIMEOUT_MS: Final = 8_000


class Refused(Exception):
    """A final answer."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.code = code


class TransactionalProducer:
    """One process: an identity and its sequences. Repeats every request until it gets a final answer."""

    def __init__(self, client: Client, transactional_id: str, version: int, *, is_two_phase: bool = False) -> None:
        """`client` speaks `CLIENT_VERSIONS` of that version."""
        self._version = version
        self._is_two_phase = is_two_phase
        self.transactional_id = transactional_id
        self.client = client
        self.identity = NOBODY
        self._sequences: dict[str, int] = {}
        self._announced: set[str] = set()

    def _become(self, identity: ProducerIdentity) -> None:
        if identity != self.identity:
            self._sequences.clear()
        self.identity = identity

    async def _until_answered(self, api_key: ApiKey, request: Message) -> Any:
        """A coordinator's answer, once it is none that asks to come again."""
        while True:
            try:
                answer = await self.client.request(api_key, request)
            except Unanswered:
                await asyncio.sleep(RETRY_SECONDS)
                continue
            code = _code_of(answer)
            if code is ErrorCode.NONE:
                return answer
            invariant(code not in OF_PARTITIONS, "a coordinator's refusal", request=api_key.name, answer=code.name)
            if code not in PASSING:
                raise Refused(code)
            await asyncio.sleep(RETRY_SECONDS)

    async def init(self, *, keeps_open: bool = False) -> ProducerIdentity:
        """As a process that has just started; whose transaction it found open, where that was to be kept."""
        request = api.InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=TIMEOUT_MS,
            enable2_pc=self._is_two_phase,
            keep_prepared_txn=keeps_open,
        )
        answer = await self._until_answered(ApiKey.INIT_PRODUCER_ID, request)
        self._become(ProducerIdentity(answer.producer_id, answer.producer_epoch))
        return ProducerIdentity(answer.ongoing_txn_producer_id, answer.ongoing_txn_producer_epoch)

    async def produce(self, topic: str, values: list[bytes], now_ms: int) -> None:
        """In flight together; each is repeated, in order, from the first that got no good answer on."""
        if self._version == 1 and topic not in self._announced:
            await self._announce(topic)
        left = [self.next_write(topic, value, now_ms) for value in values]
        while left:
            try:
                answers = await self.client.pipeline(ApiKey.PRODUCE, left)
            except Unanswered as unanswered:
                answers = unanswered.args[0]
            for answer in answers:
                code = _code_of(answer)
                if code is not ErrorCode.NONE:
                    if code not in PASSING:
                        raise Refused(code)
                    break
                del left[0]
            if left:
                await asyncio.sleep(RETRY_SECONDS)

    def next_write(self, topic: str, value: bytes, now_ms: int) -> Message:
        sequence = self._sequences.get(topic, 0)
        self._sequences[topic] = sequence + 1
        builder = BatchBuilder(
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.epoch,
            base_sequence=sequence,
            transactional=True,
        )
        builder.append(now_ms, None, value)
        data = api.ProduceRequest.PartitionProduceData(index=0, records=memoryview(builder.build()))
        return api.ProduceRequest(
            transactional_id=self.transactional_id,
            acks=-1,
            timeout_ms=10_000,
            topic_data=[api.ProduceRequest.TopicProduceData(name=topic, partition_data=[data])],
        )

    async def _announce(self, topic: str) -> None:
        request = api.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.identity.producer_id,
            v3_and_below_producer_epoch=self.identity.epoch,
            v3_and_below_topics=[api.AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=topic, partitions=[0])],
        )
        await self._until_answered(ApiKey.ADD_PARTITIONS_TO_TXN, request)
        self._announced.add(topic)

    async def commit_offset(self, group_id: str, topic: str, offset: int) -> None:
        if self._version == 1:
            announcement = api.AddOffsetsToTxnRequest(
                transactional_id=self.transactional_id,
                producer_id=self.identity.producer_id,
                producer_epoch=self.identity.epoch,
                group_id=group_id,
            )
            await self._until_answered(ApiKey.ADD_OFFSETS_TO_TXN, announcement)
        partition = api.TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset
        )
        request = api.TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group_id,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.epoch,
            topics=[api.TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(name=topic, partitions=[partition])],
        )
        await self._until_answered(ApiKey.TXN_OFFSET_COMMIT, request)

    def ending(self, *, is_commit: bool) -> Message:
        return api.EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.epoch,
            committed=is_commit,
        )

    async def end(self, *, is_commit: bool) -> None:
        self._announced.clear()
        answer = await self._until_answered(ApiKey.END_TXN, self.ending(is_commit=is_commit))
        if self._version == 2:
            self._become(ProducerIdentity(answer.producer_id, answer.producer_epoch))

    async def find_coordinators(self, group_id: str) -> None:
        """The internal topics are there then."""
        for key_type, key in ((1, self.transactional_id), (0, group_id)):
            while True:
                request = api.FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
                try:
                    (found,) = (await self.client.request(ApiKey.FIND_COORDINATOR, request)).coordinators
                except Unanswered:
                    found = None
                if found is not None and found.error_code == ErrorCode.NONE:
                    break
                await asyncio.sleep(RETRY_SECONDS)


def _code_of(answer: Any) -> ErrorCode:
    """The one code in an answer to a request about one thing."""
    match answer:
        case api.ProduceResponse():
            return ErrorCode(answer.responses[0].partition_responses[0].error_code)
        case api.AddPartitionsToTxnResponse():
            return ErrorCode(answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)
        case api.TxnOffsetCommitResponse():
            return ErrorCode(answer.topics[0].partitions[0].error_code)
        case _:
            return ErrorCode(answer.error_code)


class CommittedReader:
    """Reads one topic from its start, as a consumer with `isolation.level=read_committed` does."""

    def __init__(self, client: Client, topic: str) -> None:
        self._client = client
        self._topic = topic
        self.offset = 0
        self.last_stable_offset = -1

    async def read(self, *, wait_ms: int = 500, max_bytes: int = 2_000) -> list[Record]:
        """What is new. `Unanswered` when it must be asked again."""
        partition = api.FetchRequest.FetchPartition(
            partition=0, fetch_offset=self.offset, partition_max_bytes=max_bytes
        )
        request = api.FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=100_000,
            isolation_level=1,
            session_id=0,
            session_epoch=-1,
            topics=[api.FetchRequest.FetchTopic(topic=self._topic, partitions=[partition])],
        )
        answer = await self._client.request(ApiKey.FETCH, request)
        (data,) = answer.responses[0].partitions
        if data.error_code != ErrorCode.NONE:
            raise Unanswered(ErrorCode(data.error_code).name)
        assert data.last_stable_offset <= data.high_watermark
        self.last_stable_offset = data.last_stable_offset
        return self._take(data)

    async def find_end(self) -> Offset:
        """The high watermark. A new leader says it once it knows all that its predecessor has told (KIP-207); a fetch of it
        tells what it knows."""
        partition = api.ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=-1)
        request = api.ListOffsetsRequest(
            topics=[api.ListOffsetsRequest.ListOffsetsTopic(name=self._topic, partitions=[partition])]
        )
        answer = await self._client.request(ApiKey.LIST_OFFSETS, request)
        (data,) = answer.topics[0].partitions
        if data.error_code != ErrorCode.NONE:
            raise Unanswered(ErrorCode(data.error_code).name)
        end: Offset = data.offset
        return end

    def _take(self, data: api.FetchResponse.PartitionData) -> list[Record]:
        aborted = sorted((one.first_offset, one.producer_id) for one in data.aborted_transactions or ())
        aborting: set[int] = set()
        taken: list[Record] = []
        for batch in batches(memoryview(data.records or b""), stop_at_partial=True):
            header = batch.header
            check_crc(batch.view)
            assert header.last_offset < data.last_stable_offset, "a record beyond the last stable offset"
            while aborted and aborted[0][0] <= header.last_offset:
                aborting.add(aborted.pop(0)[1])
            if header.is_control:
                aborting.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in aborting):
                taken += [record for record in records_of(batch.view) if record.offset >= self.offset]
            self.offset = header.next_offset
        return taken
