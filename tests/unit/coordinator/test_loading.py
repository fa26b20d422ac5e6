"""Loading a log: what is replayed of it, and that the loop gets its turns."""

import asyncio

from ottla.base.types import Offset
from ottla.coordinator.loading import Loading, Turns
from ottla.coordinator.machine import ProducerIdentity
from ottla.coordinator.records import GROUP_RECORDS, CoordinatorRecord
from ottla.wire import api
from ottla.wire.records import BatchBuilder, Codec, ControlType, end_transaction_marker
from sim.world import World
from tests.unit.coordinator.memory_coordinator import MemoryLog


class Replayed:
    """A machine that takes note."""

    def __init__(self) -> None:
        self.events: list[tuple[object, ...]] = []

    def replay(self, record: CoordinatorRecord, *, offset: Offset, transaction: ProducerIdentity | None) -> None:
        value = None if record.value is None else record.value.offset
        self.events.append((record.key.topic, value, offset, transaction))

    def replay_marker(self, transaction: ProducerIdentity, *, is_commit: bool) -> None:
        self.events.append(("end", is_commit, transaction))


def committed(topic: str, offset: int | None) -> CoordinatorRecord:
    value = None if offset is None else api.OffsetCommitValue(offset=offset)
    return CoordinatorRecord(api.OffsetCommitKey(group="g", topic=topic), value, 4)


def batch(*records: CoordinatorRecord, **fields: object) -> bytearray:
    builder = BatchBuilder(**fields)  # type: ignore[arg-type]
    for record in records:
        builder.append(1_000, *GROUP_RECORDS.encode(record))
    return builder.build()


def load(*written: bytearray) -> list[tuple[object, ...]]:
    replayed = Replayed()

    async def run() -> None:
        log = MemoryLog()
        for one in written:
            log.begin_append(memoryview(one))
        await Loading(name="offsets-0", log=log, record_types=GROUP_RECORDS, machine=replayed).run()  # type: ignore[type-var]

    World(1).run(run())
    return replayed.events


def test_of_records_with_the_same_key_the_last_is_replayed_in_its_place() -> None:
    events = load(
        batch(committed("a", 1), committed("b", 2), committed("a", 3)), batch(committed("c", 4), committed("b", None))
    )
    assert events == [("a", 3, 2, None), ("c", 4, 3, None), ("b", None, 4, None)]


def test_transactions_are_replayed_where_they_stand() -> None:
    producer = ProducerIdentity(7, 1)
    transactional = {"producer_id": 7, "producer_epoch": 1, "transactional": True}
    marker = end_transaction_marker(
        ControlType.COMMIT, coordinator_epoch=0, producer_id=7, producer_epoch=1, timestamp=1_000
    )
    events = load(
        batch(committed("a", 1)),
        batch(committed("a", 2), committed("a", 3), **transactional),
        batch(committed("a", 4)),
        marker,
        batch(committed("a", 5)),
        batch(committed("a", 6)),
    )
    assert events == [
        ("a", 1, 0, None),
        ("a", 2, 1, producer),
        ("a", 3, 2, producer),
        ("a", 4, 3, None),
        ("end", True, producer),
        ("a", 6, 6, None),
    ]


def test_records_that_are_not_understood_are_passed_over() -> None:
    builder = BatchBuilder()
    builder.append(1_000, b"\x00\x63newer", b"\x00\x00")
    builder.append(1_000, b"\x00\x01broken", b"\x00\x04")
    builder.append(1_000, b"", None)
    builder.append(1_000, *GROUP_RECORDS.encode(committed("a", 1)))
    assert load(builder.build()) == [("a", 1, 3, None)]


def test_a_batch_that_is_damaged_is_passed_over() -> None:
    damaged = batch(committed("a", 1))
    damaged[61] = 0x7F
    assert load(damaged, batch(committed("b", 2))) == [("b", 2, 1, None)]


def test_compressed_batches_are_read() -> None:
    assert load(batch(committed("a", 1), committed("b", 2), codec=Codec.ZSTD)) == [("a", 1, 0, None), ("b", 2, 1, None)]


def long_log() -> MemoryLog:
    log = MemoryLog()
    for number in range(100):
        log.begin_append(memoryview(batch(*(committed(f"topic-{number}-{index}", index) for index in range(100)))))
    return log


def test_the_loop_gets_its_turns_while_a_long_log_is_loaded() -> None:
    world = World(1)

    async def run() -> None:
        log = long_log()
        turns = 0
        loading = asyncio.ensure_future(
            Loading(name="offsets-0", log=log, record_types=GROUP_RECORDS, machine=Replayed()).run()  # type: ignore[type-var]
        )
        while not loading.done():
            turns += 1
            await asyncio.sleep(0)
        assert turns > 50

    world.run(run())


def test_however_many_logs_are_loaded_a_turn_of_the_loop_is_for_one_of_them() -> None:
    async def run() -> None:
        turns, machines = Turns(), [Replayed() for _ in range(5)]
        loads = [
            asyncio.ensure_future(
                Loading(name="offsets", log=long_log(), record_types=GROUP_RECORDS, machine=machine, turns=turns).run()  # type: ignore[type-var]
            )
            for machine in machines
        ]
        counts = [0] * len(machines)
        while not all(load.done() for load in loads):
            await asyncio.sleep(0)
            before, counts = counts, [len(machine.events) for machine in machines]
            assert sum(new > old for old, new in zip(before, counts, strict=True)) <= 1
        assert counts == [10_000] * len(machines)

    asyncio.run(run())


def test_who_leads_has_the_turn_before_those_who_follow() -> None:
    async def run() -> None:
        turns, order = Turns(), []

        async def take(name: str, *, is_urgent: bool) -> None:
            await turns.wait(is_urgent=is_urgent)
            order.append(name)

        waiting = [
            asyncio.ensure_future(take(name, is_urgent=name == "leader")) for name in ("follower", "gone", "leader")
        ]
        await asyncio.sleep(0)
        waiting[1].cancel()
        await asyncio.wait(waiting)
        assert order == ["leader", "follower"]

    asyncio.run(run())
