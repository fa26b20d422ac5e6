"""Transactional producers and readers of committed data, while the node dies and nothing arrives as it was sent.

What must hold, whatever the seed: the records of a committed transaction are read once, in order, on every topic; nothing
of an aborted one is ever read; what one reader was given at an offset is what everyone gets there; a group's offset is
that of its last committed transaction. Once the faults stop, everything is decided: no reader is held back for ever.

Producers of version 2 leave repetitions behind that arrive much later: ends of transactions that are long over, writes of
identities that were replaced. Those of version 1 cannot stand them (docs/decisions/0004), so there are none.

One of the producers of version 2 takes part in a commit of two phases (docs/decisions/0007): it prepares, disappears for
longer than any time-out, comes back as a new process, and ends what it finds.
"""

import asyncio
from typing import Final

from ottla.base.errors import ErrorCode
from ottla.base.types import Offset
from ottla.wire import api
from ottla.wire.apis import ApiKey
from ottla.wire.message import Message
from sim.client import Unanswered
from sim.network import NetworkFaults
from sim.peers import PeerFaults
from sim.subject import Subject, TroubledNode
from sim.transaction_client import CLIENT_VERSIONS, TIMEOUT_MS, CommittedReader, Refused, TransactionalProducer
from sim.troubled_cluster import Shape, TroubledCluster
from sim.world import World

TOPICS: Final = ("orders", "stock")
TOPIC_SETTINGS: Final = {"internal.segment.bytes": "3000", "index.interval.bytes": "300"}
COMPRESSED: Final = "stock"  # Anew, by the broker: appends wait in line, as they do where records need keys.
PRODUCER_COUNT: Final = 3
TWO_PHASE_PRODUCER: Final = 0
TRANSACTIONS_PER_PRODUCER: Final = 8
CLUSTER_TRANSACTIONS_PER_PRODUCER: Final = 5  # A seed is to cost about a CPU second, of several nodes too.
WRITES_PER_TOPIC_MAX: Final = 4
TROUBLE_SECONDS: Final = 30
CLUSTER_TROUBLE_SECONDS: Final = 15
SECONDS_MAX: Final = 900  # Of virtual time.
SETTLE_SECONDS_MAX: Final = 60
GHOST_SECONDS_MAX: Final = 20.0
STALL_SECONDS: Final = 12.0  # Longer than the producers' time-out.
SETTINGS: Final = {
    "transaction.state.log.num.partitions": "2",
    "offsets.topic.num.partitions": "2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
}
_FENCED: Final = frozenset((ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH))


class TransactionScenario:
    def __init__(
        self,
        subject: Subject,
        *,
        version: int = 2,
        trouble_seconds: float = TROUBLE_SECONDS,
        transaction_count: int = TRANSACTIONS_PER_PRODUCER,
    ) -> None:
        """`transaction_count`: of each producer."""
        self._trouble_seconds = trouble_seconds
        self._transaction_count = transaction_count
        self.subject = subject
        self.world = subject.world
        self.hits = subject.hits
        self._version = version
        self._committed: dict[int, list[int]] = {number: [] for number in range(PRODUCER_COUNT)}
        self._written: dict[tuple[str, int, int], list[bytes]] = {}
        self._read: dict[str, dict[int, bytes]] = {topic: {} for topic in TOPICS}
        self._ghosts: list[asyncio.Future[None]] = []
        self._is_over = False

    def run(self) -> str:
        """One seed, from an empty disk to the final check. Returns the digest of its trace."""
        self.world.run(asyncio.wait_for(self._main(), SECONDS_MAX))
        return self.world.digest()

    async def _main(self) -> None:
        await self.subject.start()
        for topic in TOPICS:
            await self._create_topic(topic)
        producers = [asyncio.ensure_future(self._produce(number)) for number in range(PRODUCER_COUNT)]
        readers = [asyncio.ensure_future(self._follow(topic)) for topic in TOPICS]
        await self.subject.trouble(self._trouble_seconds)
        await asyncio.gather(*producers)
        await asyncio.gather(*self._ghosts)
        self._is_over = True
        self.subject.calm_down()
        await self.subject.stop()
        await self.subject.start()
        await asyncio.gather(*readers)
        await self._check()
        await self.subject.stop()

    # -- what goes wrong ---------------------------------------------------------------------------------------------

    def _haunt(self, api_key: ApiKey, request: Message) -> None:
        """A copy of a request that was given up on arrives late."""
        if self._version == 2 and self.world.random.random() < 0.3:
            self._ghosts.append(asyncio.ensure_future(self._arrive_late(api_key, request)))

    async def _arrive_late(self, api_key: ApiKey, request: Message) -> None:
        await asyncio.sleep(self.world.random.random() * GHOST_SECONDS_MAX)
        client = self.subject.new_client(f"ghost-{len(self._ghosts)}", CLIENT_VERSIONS[self._version])
        try:
            await client.request(api_key, request)
            self.hits[f"late {api_key.name} answered"] += 1
        except Unanswered:
            pass
        client.close()

    # -- producers ---------------------------------------------------------------------------------------------------

    async def _produce(self, number: int) -> None:
        chance = self.world.random
        producer = self._new_producer(number)
        await producer.find_coordinators(_group(number))
        await producer.init()
        for count in range(self._transaction_count):
            if chance.random() < 0.15:
                producer = await self._replace(producer, number, count)
            if await self._transact(producer, number, count):
                self._committed[number].append(count)
            await asyncio.sleep(chance.random())
        producer.client.close()

    def _new_producer(self, number: int) -> TransactionalProducer:
        client = self.subject.new_client(f"producer-{number}", CLIENT_VERSIONS[self._version])
        return TransactionalProducer(client, f"tx-{number}", self._version, is_two_phase=self._is_two_phase(number))

    def _is_two_phase(self, number: int) -> bool:
        return self._version == 2 and number == TWO_PHASE_PRODUCER

    async def _replace(self, zombie: TransactionalProducer, number: int, count: int) -> TransactionalProducer:
        """The process starts anew; what the old one has written last may be under way for long."""
        self._haunt(ApiKey.PRODUCE, zombie.next_write("orders", b"zombie/%d/%d" % (number, count), self._now_ms()))
        heir = self._new_producer(number)
        await heir.init()
        self.hits["producer replaced"] += 1
        return heir

    async def _transact(self, producer: TransactionalProducer, number: int, count: int) -> bool:
        """Whether it was committed."""
        chance = self.world.random
        is_commit = chance.random() < 0.7
        began_at = self.world.clock.monotonic()
        try:
            await self._write(producer, number, count)
            if self._is_two_phase(number) and chance.random() < 0.5:
                await self._disappear(producer)
        except Refused as refused:
            self.hits[f"write refused: {refused.code.name}"] += 1
            # Repetitions are recognised, whoever leads and whatever was restarted.
            assert refused.code is not ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, f"{number}/{count}: {refused}"
            age_ms = (self.world.clock.monotonic() - began_at) * 1000
            was_timed_out = age_ms + self.subject.clock_spread_ms > TIMEOUT_MS or self.hits["clock set forward"]
            assert refused.code is not ErrorCode.INVALID_TXN_STATE or was_timed_out, f"{number}/{count} is not over"
            is_commit = False
        try:
            ending = producer.ending(is_commit=is_commit)
            await producer.end(is_commit=is_commit)
            self._haunt(ApiKey.END_TXN, ending)
        except Refused as refused:
            self.hits[f"{'commit' if is_commit else 'abort'} refused: {refused.code.name}"] += 1
            assert refused.code in _FENCED or not is_commit, f"commit of {number}/{count}: {refused.code.name}"
            is_commit = False  # It was open for too long.
            await producer.init()
        self.hits["committed" if is_commit else "aborted"] += 1
        return is_commit

    async def _disappear(self, prepared: TransactionalProducer) -> None:
        """What is left of the process is a prepared transaction, and requests that were under way."""
        left, delayed_end = prepared.identity, prepared.ending(is_commit=self.world.random.random() < 0.5)
        await asyncio.sleep(self.world.random.random() * STALL_SECONDS)
        found = await prepared.init(keeps_open=True)
        assert found == left, f"{left} was prepared, and {found} is open"
        self._haunt(ApiKey.END_TXN, delayed_end)
        self.hits["came back to a prepared transaction"] += 1

    async def _write(self, producer: TransactionalProducer, number: int, count: int) -> None:
        chance = self.world.random
        for topic in chance.sample(TOPICS, k=len(TOPICS)):
            values = [b"%d/%d/%d" % (number, count, write) for write in range(chance.randint(1, WRITES_PER_TOPIC_MAX))]
            self._written[topic, number, count] = values
            await producer.produce(topic, values, self._now_ms())
            if chance.random() < 0.05:
                self.hits["stalled"] += 1
                await asyncio.sleep(STALL_SECONDS)
        await producer.commit_offset(_group(number), "orders", count)

    def _now_ms(self) -> int:
        return self.world.clock.now_ms()

    # -- readers -----------------------------------------------------------------------------------------------------

    async def _follow(self, topic: str) -> None:
        client = self.subject.new_client(f"reader-{topic}")
        reader = CommittedReader(client, topic)
        while not self._is_over:
            await self._read_some(reader, topic)
        client.close()

    async def _read_some(self, reader: CommittedReader, topic: str, *, wait_ms: int = 500) -> None:
        try:
            records = await reader.read(wait_ms=wait_ms)
        except Unanswered:
            await asyncio.sleep(0.2)
            return
        for record in records:
            value = record.value or b""
            known = self._read[topic].setdefault(record.offset, value)
            assert known == value, f"offset {record.offset} of {topic} was {known!r} and is now {value!r}"

    # -- the end -----------------------------------------------------------------------------------------------------

    async def _check(self) -> None:
        followed = {topic: dict(read) for topic, read in self._read.items()}
        for topic in TOPICS:
            await self._read_to_the_end(topic)
            self._check_topic(topic)
            late = followed[topic].keys() - self._read[topic].keys()
            assert not late, f"read of {topic} and gone: {late}"
        for number in range(PRODUCER_COUNT):
            await self._check_offset(number)

    async def _read_to_the_end(self, topic: str) -> None:
        """As a new reader; the last stable offset must reach the high watermark."""
        self._read[topic] = {}
        reader = CommittedReader(self.subject.new_client("checker"), topic)
        deadline = self.world.clock.monotonic() + SETTLE_SECONDS_MAX
        end = await self._find_end(reader)
        while reader.offset < end:
            await self._read_some(reader, topic, wait_ms=100)
            assert self.world.clock.monotonic() < deadline, (
                f"{topic}: the last stable offset {reader.last_stable_offset} stays below {end}"
            )

    async def _find_end(self, reader: CommittedReader) -> Offset:
        while True:
            try:
                return await reader.find_end()
            except Unanswered:
                await asyncio.sleep(0.2)

    def _check_topic(self, topic: str) -> None:
        read = [value for _, value in sorted(self._read[topic].items())]
        for number in range(PRODUCER_COUNT):
            expected = [value for count in self._committed[number] for value in self._written[topic, number, count]]
            found = [value for value in read if value.startswith(b"%d/" % number)]
            assert found == expected, f"{topic} of producer {number}: read {found}, committed {expected}"
        assert not [value for value in read if value.startswith(b"zombie")], "a zombie's write was committed"

    async def _check_offset(self, number: int) -> None:
        client = self.subject.new_client("checker", CLIENT_VERSIONS[self._version])
        topic = api.OffsetFetchRequest.OffsetFetchRequestTopics(name="orders", partition_indexes=[0])
        group = api.OffsetFetchRequest.OffsetFetchRequestGroup(group_id=_group(number), topics=[topic])
        request = api.OffsetFetchRequest(groups=[group], require_stable=True)
        deadline = self.world.clock.monotonic() + SETTLE_SECONDS_MAX
        while True:
            (answer,) = (await client.request(ApiKey.OFFSET_FETCH, request)).groups
            code = answer.error_code or answer.topics[0].partitions[0].error_code
            if code == ErrorCode.NONE:
                break
            assert self.world.clock.monotonic() < deadline, f"offsets of {number}: {ErrorCode(code).name}"
            await asyncio.sleep(0.2)
        expected = self._committed[number][-1] if self._committed[number] else -1
        found = answer.topics[0].partitions[0].committed_offset
        assert found == expected, f"the group of producer {number} is at {found}, committed was {expected}"

    async def _create_topic(self, name: str) -> None:
        client = self.subject.new_client("setup")
        settings = TOPIC_SETTINGS | ({"compression.type": "gzip"} if name == COMPRESSED else {})
        topic = api.CreateTopicsRequest.CreatableTopic(
            name=name,
            num_partitions=1,
            replication_factor=self.subject.replica_count,
            configs=[
                api.CreateTopicsRequest.CreatableTopicConfig(name=key, value=value) for key, value in settings.items()
            ],
        )
        while True:
            try:
                answer = await client.request(ApiKey.CREATE_TOPICS, api.CreateTopicsRequest(topics=[topic]))
            except Unanswered:
                continue
            if answer.topics[0].error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                return


def _group(number: int) -> str:
    return f"group-{number}"


def transactions_on_one_node(seed: int, *, version: int = 2, is_power_safe: bool = True) -> TransactionScenario:
    peer_faults = PeerFaults(
        delay_seconds_max=0.3,
        loss_probability=0.05,
        repetition_probability=0.1 if version == 2 else 0.0,
        repetition_seconds_max=10.0,
    )
    world = World(seed, faults=NetworkFaults(reset_probability=0.002))
    subject = TroubledNode(world, SETTINGS, death_count=2, is_power_safe=is_power_safe, peer_faults=peer_faults)
    return TransactionScenario(subject, version=version)


def transactions_on_a_cluster(seed: int, *, version: int = 2) -> TransactionScenario:
    world = World(seed)
    return TransactionScenario(
        TroubledCluster(world, Shape.of(world), SETTINGS),
        version=version,
        trouble_seconds=CLUSTER_TROUBLE_SECONDS,
        transaction_count=CLUSTER_TRANSACTIONS_PER_PRODUCER,
    )
