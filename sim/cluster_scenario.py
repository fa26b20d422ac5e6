"""Three to five nodes, a topic with three copies (min.insync.replicas=2), producers with acks=all, consumers; and faults.

While trouble lasts, faults of the kinds that the seed draws begin every moment and end a while later (`cluster_faults.py`),
and messages are late, lost and repeated. What must hold, whatever the seed: what was acknowledged is in the log, once, at
its offset, in its producer's order; what a consumer has read at an offset is what everyone reads there, for ever; logs
agree below the watermark; one leader per epoch; and when the faults stop, everything gets on.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, Final

from ottla.base.errors import ErrorCode
from ottla.wire import api
from ottla.wire.apis import ApiKey
from ottla.wire.records import BatchBuilder
from sim.client import Client, Unanswered, fetch, produce_request
from sim.cluster_checkers import ClusterCheckers
from sim.troubled_cluster import LOOK_EVERY_SECONDS, Shape, TroubledCluster
from sim.world import World

TOPIC: Final = "orders"
PARTITION_COUNT: Final = 2
PRODUCER_COUNT: Final = 3
BATCHES_PER_PRODUCER: Final = 60
IN_FLIGHT_MAX: Final = 5
PRODUCE_TIMEOUT_MS: Final = 3_000
PRODUCE_EVERY_SECONDS: Final = 1.5
TROUBLE_SECONDS: Final = 15
START_SECONDS_MAX: Final = 60.0
CALM_SECONDS_MAX: Final = 120.0
_AGAIN: Final = frozenset(
    (
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.NETWORK_EXCEPTION,
    )
)


class ClusterScenario:
    def __init__(self, seed: int) -> None:
        self.world = World(seed)
        self.subject = TroubledCluster(self.world, Shape.of(self.world))
        self.hits = self.subject.hits
        self.checkers = ClusterCheckers(self.subject.cluster, TOPIC, self.hits)
        self._sent: list[list[bytes]] = [[] for _ in range(PARTITION_COUNT)]
        self._acknowledged: list[dict[int, bytes]] = [{} for _ in range(PARTITION_COUNT)]  # By their offsets.
        self._read: list[dict[int, bytes]] = [{} for _ in range(PARTITION_COUNT)]
        self._is_over = False

    def run(self) -> str:
        """One seed, from empty disks to the final check. Returns the digest of its trace."""
        self.world.run(self._main())
        return self.world.digest()

    async def _main(self) -> None:
        async with asyncio.timeout(START_SECONDS_MAX):
            await self.subject.start()
            await self._create_topic()
            await self.subject.wait_in_sync(TOPIC)
        looking = _begin(self._keep_looking())
        producers = [_begin(self._produce(number)) for number in range(PRODUCER_COUNT)]
        consumers = [_begin(self._consume(partition)) for partition in range(PARTITION_COUNT)]
        try:
            async with asyncio.timeout(TROUBLE_SECONDS + CALM_SECONDS_MAX):
                await self.subject.trouble(TROUBLE_SECONDS)
                await asyncio.gather(*producers)
                await self.subject.wait_in_sync(TOPIC)
                self._is_over = True
                await asyncio.gather(looking, *consumers)
                await self._check()
        except TimeoutError:
            raise AssertionError(f"no progress though all is calm: {self.subject.describe(TOPIC)}") from None
        await self.subject.stop()

    async def _keep_looking(self) -> None:
        while not self._is_over:
            self.checkers.look()
            await asyncio.sleep(LOOK_EVERY_SECONDS)

    # -- clients -----------------------------------------------------------------------------------------------------

    async def _create_topic(self) -> None:
        client = self.subject.new_client("setup")
        configs = {"internal.segment.bytes": "3000", "index.interval.bytes": "300"}
        topic = api.CreateTopicsRequest.CreatableTopic(
            name=TOPIC,
            num_partitions=PARTITION_COUNT,
            replication_factor=self.subject.replica_count,
            configs=[
                api.CreateTopicsRequest.CreatableTopicConfig(name=key, value=value) for key, value in configs.items()
            ],
        )
        request = api.CreateTopicsRequest(topics=[topic], timeout_ms=PRODUCE_TIMEOUT_MS)
        code: ErrorCode | None = None
        while code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            try:
                answer = await client.request(ApiKey.CREATE_TOPICS, request)
            except Unanswered:
                continue
            code = ErrorCode(answer.topics[0].error_code)
            await asyncio.sleep(LOOK_EVERY_SECONDS)
        client.close()

    async def _produce(self, number: int) -> None:
        """Up to five batches at a time; a batch that is not acknowledged is sent again, with its sequence."""
        chance = self.world.stream(f"producer/{number}")
        client = self.subject.new_client(f"producer-{number}")
        partition = number % PARTITION_COUNT
        values = [b"%d/%d" % (number, count) for count in range(BATCHES_PER_PRODUCER)]
        batches = self._batches(await self._producer_id(client), values)
        self._sent[partition] += values
        done = 0
        while done < len(values):
            window = range(done, min(done + chance.randint(1, IN_FLIGHT_MAX), len(values)))
            requests = [
                produce_request(TOPIC, batches[each], partition=partition, timeout_ms=PRODUCE_TIMEOUT_MS)
                for each in window
            ]
            try:
                answers = await client.pipeline(ApiKey.PRODUCE, requests)
            except Unanswered as unanswered:
                answers = unanswered.args[0]
                self.hits["produce retried"] += 1
            for answer in answers:
                if not self._is_done(partition, values[done], answer):
                    break
                done += 1
            await asyncio.sleep(chance.random() * PRODUCE_EVERY_SECONDS)
        client.close()

    def _batches(self, producer_id: int, values: list[bytes]) -> list[bytearray]:
        batches = []
        for sequence, value in enumerate(values):
            builder = BatchBuilder(producer_id=producer_id, producer_epoch=0, base_sequence=sequence)
            builder.append(self.world.clock.now_ms(), value, bytes(sequence * 20))
            batches.append(builder.build())
        return batches

    def _is_done(self, partition: int, value: bytes, answer: api.ProduceResponse) -> bool:
        """A repetition is recognised, whoever leads and whatever was restarted: nothing is out of order."""
        (outcome,) = answer.responses[0].partition_responses
        code = ErrorCode(outcome.error_code)
        if code in _AGAIN:
            self.hits[f"produce answered {code.name}"] += 1
            return False
        assert code is ErrorCode.NONE, f"{value!r} was answered with {code.name}: {outcome.error_message}"
        self._acknowledged[partition][outcome.base_offset] = value
        self.hits["batch acknowledged"] += 1
        return True

    async def _producer_id(self, client: Client) -> int:
        request = api.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        while True:
            try:
                answer = await client.request(ApiKey.INIT_PRODUCER_ID, request)
                if answer.error_code == ErrorCode.NONE:
                    return int(answer.producer_id)
            except Unanswered:
                pass
            await asyncio.sleep(LOOK_EVERY_SECONDS)

    async def _consume(self, partition: int) -> None:
        client = self.subject.new_client(f"consumer-{partition}")
        offset = 0
        while not self._is_over:
            try:
                records, high_watermark = await fetch(client, TOPIC, offset, partition=partition)
            except Unanswered as unanswered:
                assert unanswered.args[0] != ErrorCode.OFFSET_OUT_OF_RANGE.name, f"{partition}: {offset} was read once"
                await asyncio.sleep(LOOK_EVERY_SECONDS)
                continue
            for record in records:
                assert record.offset == offset, f"{partition}: offset {record.offset} where {offset} comes next"
                assert record.offset < high_watermark, f"{partition}: a record beyond the high watermark"
                self._read[partition][record.offset] = record.key or b""
                offset += 1
            self.hits["fetched records"] += len(records)
        client.close()

    # -- the end -----------------------------------------------------------------------------------------------------

    async def _check(self) -> None:
        self.checkers.look()
        self.checkers.check_logs_agree()
        for partition in range(PARTITION_COUNT):
            found = await self._content_of(partition)
            for what, known in (("acknowledged", self._acknowledged), ("read", self._read)):
                for offset, value in known[partition].items():
                    there = found[offset] if offset < len(found) else None
                    assert there == value, f"{value!r} was {what} at {offset} of {partition}, where {there!r} is"
            self._check_producers(partition, found)

    async def _content_of(self, partition: int) -> list[bytes]:
        client = self.subject.new_client("checker")
        found: list[bytes] = []
        high_watermark = -1
        while len(found) != high_watermark:
            try:
                records, high_watermark = await fetch(client, TOPIC, len(found), partition=partition, wait_ms=0)
            except Unanswered:
                continue
            found += [record.key or b"" for record in records]
        client.close()
        return found

    def _check_producers(self, partition: int, found: list[bytes]) -> None:
        """Every batch once, in the order of its producer."""
        assert len(found) == len(self._sent[partition]), f"{partition}: {len(found)} of {len(self._sent[partition])}"
        for number in range(PRODUCER_COUNT):
            prefix = b"%d/" % number
            written = [value for value in found if value.startswith(prefix)]
            sent = [value for value in self._sent[partition] if value.startswith(prefix)]
            assert written == sent, f"{partition}: order or number: {written}"


def _begin(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    """What it finds ends the run at once, while everything is still as it was then."""
    task = asyncio.get_running_loop().create_task(work)
    task.add_done_callback(lambda done: None if done.cancelled() else done.result())
    return task
