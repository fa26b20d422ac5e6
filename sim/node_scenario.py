"""One node, idempotent producers, consumers and an administrator, while connections break and the node dies.

What must hold, whatever the seed: a record that was acknowledged is in the log, at its offset, once; records of a
producer keep their order; what one consumer has read at an offset is what everyone reads there, for ever; a topic
whose creation was acknowledged exists. With `flush.messages=1` the power may go as well as the process.
"""

import asyncio
import errno
from collections import Counter
from typing import Final

from ottla.base.errors import ErrorCode
from ottla.base.types import NO_OFFSET
from ottla.wire import api
from ottla.wire.apis import ApiKey
from ottla.wire.records import BatchBuilder
from sim.client import SimulatedClient, Unanswered, fetch, produce_request
from sim.disk_nodes import Kept
from sim.network import NetworkFaults
from sim.node import SimulatedNode
from sim.world import World

TOPIC: Final = "orders"
PRODUCER_COUNT: Final = 2
CONSUMER_COUNT: Final = 2
BATCHES_PER_PRODUCER: Final = 40
IN_FLIGHT_MAX: Final = 5
DEATH_COUNT: Final = 3
SECONDS_MAX: Final = 600  # Of virtual time: clients that are never served would try for ever.
_AGAIN: Final = frozenset(
    (
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_CONTROLLER,
    )
)


class NodeScenario:
    def __init__(self, seed: int, *, is_power_safe: bool = True) -> None:
        """`is_power_safe`: every acknowledgement waits for an fsync, and the power may go."""
        self.world = World(seed, faults=NetworkFaults(reset_probability=0.004))
        self.node = SimulatedNode(self.world)
        self.hits: Counter[str] = Counter()
        self._is_power_safe = is_power_safe
        self._acknowledged: dict[bytes, int] = {}
        self._sent: list[bytes] = []
        self._read: dict[int, bytes] = {}
        self._topics: set[str] = set()
        self._is_over = False

    def run(self) -> str:
        """One seed, from an empty disk to the final check. Returns the digest of its trace."""
        self.world.run(asyncio.wait_for(self._main(), SECONDS_MAX))
        return self.world.digest()

    async def _main(self) -> None:
        await self.node.start()
        await self._create_topic(SimulatedClient(self.node, "setup"), TOPIC)
        producers = [asyncio.ensure_future(self._produce(number)) for number in range(PRODUCER_COUNT)]
        others = [asyncio.ensure_future(self._consume(number)) for number in range(CONSUMER_COUNT)]
        others.append(asyncio.ensure_future(self._administrate()))
        await self._strike()
        await asyncio.gather(*producers)
        self._is_over = True
        await asyncio.gather(*others)
        await self.node.stop()
        await self.node.start()
        await self._check()
        await self.node.stop()

    # -- what goes wrong ---------------------------------------------------------------------------------------------

    async def _strike(self) -> None:
        chance = self.world.random
        for _ in range(DEATH_COUNT):
            await asyncio.sleep(chance.random() * 12)
            match chance.randrange(4):
                case 0:
                    await self.node.stop()
                    self.hits["clean restart"] += 1
                case 1:
                    self._kill("killed between two instructions")
                case 2:
                    self.world.disk.fail_at(chance.randint(0, 30), chance.choice((errno.EIO, errno.ENOSPC)))
                    await asyncio.sleep(chance.random() * 3)
                    self._kill("killed after a disk error")
                case _:
                    self.node.die_at(chance.randint(0, 15))
                    await asyncio.sleep(chance.random())
                    self._kill("killed inside a disk call" if not self.node.is_serving else "killed while idle")
            await self._start_again()

    def _kill(self, how: str) -> None:
        kept = self.world.random.choice(tuple(Kept)) if self._is_power_safe else Kept.EVERYTHING
        self.node.kill(kept)
        self.hits[f"{how}, {kept.value} kept"] += 1

    async def _start_again(self) -> None:
        chance = self.world.random
        await asyncio.sleep(chance.random())
        if chance.random() < 0.3:
            self.node.die_at(chance.randint(0, 30))
            await self.node.start()
            if not self.node.is_serving:
                self._kill("killed while starting")
            else:
                self.world.disk.crash_at(None)
                return
        await self.node.start()

    # -- clients -----------------------------------------------------------------------------------------------------

    async def _produce(self, number: int) -> None:
        client = SimulatedClient(self.node, f"producer-{number}")
        producer_id = await self._producer_id(client)
        values = [b"%d/%d" % (number, count) for count in range(BATCHES_PER_PRODUCER)]
        batches = []
        for sequence, value in enumerate(values):
            builder = BatchBuilder(producer_id=producer_id, producer_epoch=0, base_sequence=sequence)
            builder.append(self.world.clock.now_ms(), value, bytes(sequence * 20))
            batches.append(builder.build())
        self._sent += values
        done = 0
        while done < len(values):
            window = range(done, min(done + self.world.random.randint(1, IN_FLIGHT_MAX), len(values)))
            requests = [produce_request(TOPIC, batches[index]) for index in window]
            try:
                answers = await client.pipeline(ApiKey.PRODUCE, requests)
            except Unanswered as unanswered:
                answers = unanswered.args[0]
                self.hits["produce retried"] += 1
            for answer in answers:
                if not self._is_done(values[done], answer):
                    break
                done += 1
            await asyncio.sleep(self.world.random.random() * 2)
        client.close()

    def _is_done(self, value: bytes, answer: api.ProduceResponse) -> bool:
        """A repetition is recognised, whatever was restarted: nothing is out of order."""
        (partition,) = answer.responses[0].partition_responses
        code = ErrorCode(partition.error_code)
        if code in _AGAIN:
            self.hits[f"produce answered {code.name}"] += 1
            return False
        assert code is ErrorCode.NONE, f"{value!r} was answered with {code.name}: {partition.error_message}"
        self._acknowledged[value] = partition.base_offset
        return True

    async def _producer_id(self, client: SimulatedClient) -> int:
        request = api.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        while True:
            try:
                answer = await client.request(ApiKey.INIT_PRODUCER_ID, request)
            except Unanswered:
                await asyncio.sleep(0.1)
                continue
            if answer.error_code == ErrorCode.NONE:
                return int(answer.producer_id)
            await asyncio.sleep(0.1)

    async def _consume(self, number: int) -> None:
        client = SimulatedClient(self.node, f"consumer-{number}")
        offset = 0
        while not self._is_over:
            try:
                records, high_watermark = await fetch(client, TOPIC, offset)
            except Unanswered:
                await asyncio.sleep(0.2)
                continue
            for record in records:
                assert record.offset == offset, f"offset {record.offset} where {offset} comes next"
                assert record.offset < high_watermark, "a record beyond the high watermark"
                self._note_read(record.offset, record.key or b"")
                offset += 1
            self.hits["fetched records"] += len(records)
        client.close()

    def _note_read(self, offset: int, value: bytes) -> None:
        known = self._read.setdefault(offset, value)
        assert known == value, f"offset {offset} was {known!r} and is now {value!r}"

    async def _administrate(self) -> None:
        """Creates topics and deletes some: enough metadata for snapshots."""
        client = SimulatedClient(self.node, "administrator")
        count = 0
        while not self._is_over:
            count += 1
            await asyncio.sleep(self.world.random.random() * 1.5)
            await self._create_topic(client, f"topic-{count}")
        client.close()

    async def _create_topic(self, client: SimulatedClient, name: str) -> None:
        configs = {"internal.segment.bytes": "3000", "index.interval.bytes": "300"}
        if self._is_power_safe:
            configs["flush.messages"] = "1"
        topic = api.CreateTopicsRequest.CreatableTopic(
            name=name,
            num_partitions=1,
            replication_factor=1,
            configs=[
                api.CreateTopicsRequest.CreatableTopicConfig(name=key, value=value) for key, value in configs.items()
            ],
        )
        while not self._is_over:
            try:
                answer = await client.request(ApiKey.CREATE_TOPICS, api.CreateTopicsRequest(topics=[topic]))
            except Unanswered:
                await asyncio.sleep(0.2)
                continue
            code = ErrorCode(answer.topics[0].error_code)
            if code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                self._topics.add(name)
                self.hits["topic created"] += 1
                return
            assert code in _AGAIN, f"{code.name}: {answer.topics[0].error_message}"
            await asyncio.sleep(0.2)

    # -- the end -----------------------------------------------------------------------------------------------------

    async def _check(self) -> None:
        client = SimulatedClient(self.node, "checker")
        found: dict[int, bytes] = {}
        high_watermark = NO_OFFSET
        while len(found) != high_watermark:
            try:
                records, high_watermark = await fetch(client, TOPIC, len(found), wait_ms=0)
            except Unanswered:
                continue
            found |= {record.offset: record.key or b"" for record in records}
        for value, offset in self._acknowledged.items():
            assert found.get(offset) == value, f"{value!r} was acknowledged at {offset}, where {found.get(offset)!r} is"
        for offset, value in self._read.items():
            assert found.get(offset) == value, f"{value!r} was read at {offset}, where {found.get(offset)!r} is"
        self._check_producers(found)
        await self._check_topics(client)
        left = self.world.disk.list(self.node.opened.node.quorum.store.log.directory)
        self.hits["metadata snapshots left"] += sum(name.endswith(".checkpoint") for name in left)

    def _check_producers(self, found: dict[int, bytes]) -> None:
        values = [found[offset] for offset in sorted(found)]
        for number in range(PRODUCER_COUNT):
            prefix = b"%d/" % number
            written = [value for value in values if value.startswith(prefix)]
            assert written == [value for value in self._sent if value.startswith(prefix)], f"order or number: {written}"
        assert len(values) == len(self._sent)

    async def _check_topics(self, client: SimulatedClient) -> None:
        while True:
            try:
                answer = await client.request(ApiKey.METADATA, api.MetadataRequest(topics=None))
                break
            except Unanswered:
                continue
        missing = self._topics - {topic.name for topic in answer.topics}
        assert not missing, f"acknowledged and gone: {sorted(missing)}"
