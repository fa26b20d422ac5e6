"""A coordinator of groups over a log in memory, in virtual time: requests as calls, answers as messages."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.outcome import Outcome
from ottla.base.types import ZERO_TOPIC_ID, LeaderEpoch, Offset
from ottla.coordinator.groups.group import Group
from ottla.coordinator.groups.machine import GroupMachine
from ottla.coordinator.groups.member import Client
from ottla.coordinator.groups.settings import GroupSettings
from ottla.coordinator.machine import Appended, Decision, ProducerIdentity
from ottla.coordinator.records import GROUP_RECORDS, CommittedOffset, CoordinatorRecord
from ottla.coordinator.runtime import CoordinatorRuntime
from ottla.metadata.configs import BrokerConfig
from ottla.metadata.image_parts import PartitionImage, TopicImage
from ottla.wire import api
from ottla.wire.codec import codec_for
from ottla.wire.hot_commits import Committer, TopicCommitted
from ottla.wire.records import batches, records_of, set_offset_and_epoch
from sim.world import World

GROUP = "g"
TOPIC = "t"
CONSUMER = "consumer"
PRODUCER = ProducerIdentity(7, 0)
COMMIT_TIMEOUT_SECONDS = 5.0


async def come_true(outcome: Outcome) -> None:
    """Once it is known. `ApiError` where it did not."""
    known: asyncio.Future[ApiError | None] = asyncio.get_running_loop().create_future()
    outcome.listen(lambda error: None if known.done() else known.set_result(error))
    if (error := await known) is not None:
        raise error


class MemoryLog:
    """Implements `CoordinatorLog`. Appends and commits can be held back, or fail."""

    def __init__(self) -> None:
        self.batches: list[bytes] = []
        self.leader_epoch: LeaderEpoch = 3
        self.start_offset: Offset = 0
        self.end_offset: Offset = 0
        self.refusal_reason: ApiError | None = None
        self.failure: ApiError | None = None
        self.gate: asyncio.Event | None = None
        """While it is closed, appends wait."""
        self.is_committing = True
        self.is_lost = False
        """Another broker leads, and nobody has told the coordinator yet."""
        self._waiters: list[asyncio.Future[None]] = []
        self.fenced_epochs: dict[int, int] = {}
        self.read_offsets: list[Offset] = []

    def refusal(self) -> ApiError | None:
        return self.refusal_reason

    def check_epoch(self, transaction: ProducerIdentity) -> None:
        if transaction.epoch < self.fenced_epochs.get(transaction.producer_id, 0):
            raise ApiError(ErrorCode.INVALID_PRODUCER_EPOCH, "an older epoch")

    def begin_append(self, batch: memoryview) -> "Appended | asyncio.Future[Appended]":
        if self.gate is None:
            return self._append(batch)
        return asyncio.get_running_loop().create_task(self._append_later(batch, self.gate))

    async def _append_later(self, batch: memoryview, gate: asyncio.Event) -> Appended:
        await gate.wait()
        return self._append(batch)

    def _append(self, batch: memoryview) -> Appended:
        if self.failure is not None:
            raise self.failure
        set_offset_and_epoch(batch, self.end_offset, self.leader_epoch)
        self.batches.append(bytes(batch))
        appended = next(batches(batch)).header
        self.end_offset = appended.next_offset
        return appended

    @property
    def is_all_committed(self) -> bool:
        return self.is_committing

    def committed(self, offset: Offset, timeout_seconds: float | None = None) -> asyncio.Future[None] | None:
        if self.is_lost:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "another broker leads")
        if self.is_committing:
            return None
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()
        self._waiters.append(waiter)
        if timeout_seconds is not None:
            loop.call_later(timeout_seconds, self._time_out, waiter)
        return waiter

    @staticmethod
    def _time_out(waiter: "asyncio.Future[None]") -> None:
        if not waiter.done():
            waiter.set_exception(ApiError(ErrorCode.REQUEST_TIMED_OUT, "not committed in time"))

    def commit(self, error: ApiError | None = None) -> None:
        """Commits what is there, or fails to."""
        waiters, self._waiters = [waiter for waiter in self._waiters if not waiter.done()], []
        self.is_committing = True
        for waiter in waiters:
            if error is None:
                waiter.set_result(None)
            else:
                waiter.set_exception(error)

    async def read(self, offset: Offset) -> bytes:
        self.read_offsets.append(offset)
        if self.failure is not None:
            raise self.failure
        found = [batch for batch in self.batches if next(batches(memoryview(batch))).header.base_offset >= offset]
        return b"".join(found[:100])

    def cut_back(self, end_offset: Offset) -> None:
        self.batches = [data for data in self.batches if _next_offset(data) <= end_offset]
        self.end_offset = end_offset

    def records(self) -> list[CoordinatorRecord]:
        """What was written, decoded; no control records."""
        return [
            decoded
            for data in self.batches
            for batch in batches(memoryview(data))
            if not batch.header.is_control
            for record in records_of(batch.view)
            if (decoded := GROUP_RECORDS.decode(record.key, record.value)) is not None
        ]


class MemoryCopy:
    """Implements `FollowedLog`: the same log at a broker that does not lead it, and so much of it is committed."""

    def __init__(self, log: MemoryLog) -> None:
        self._log = log
        self.start_offset: Offset = 0
        self.end_offset: Offset = 0
        self._on_changed: Callable[[], None] | None = None

    async def read(self, offset: Offset) -> bytes:
        data = await self._log.read(offset)
        return b"".join(
            bytes(batch.view) for batch in batches(memoryview(data)) if batch.header.next_offset <= self.end_offset
        )

    def watch(self, on_changed: Callable[[], None] | None) -> None:
        self._on_changed = on_changed

    def commit(self, end_offset: Offset | None = None) -> None:
        """All that is there, or up to an offset, which may be smaller than before: after an unclean election."""
        self.end_offset = self._log.end_offset if end_offset is None else end_offset
        if self._on_changed is not None:
            self._on_changed()


def _next_offset(data: bytes) -> Offset:
    return next(batches(memoryview(data))).header.next_offset


class Coordinator:
    """Partition 0 of the offsets topic, with every group in it."""

    def __init__(self, world: World, log: MemoryLog, **settings: int) -> None:
        texts = {"group.initial.rebalance.delay.ms": "0"}
        texts |= {name.replace("_", "."): str(value) for name, value in settings.items()}
        self.world = world
        self.log = log
        self._member_count = 0
        self.is_blind = False
        self.runtime = CoordinatorRuntime[GroupMachine](
            topic="offsets",
            record_types=GROUP_RECORDS,
            new_machine=lambda submit: GroupMachine(
                clock=world.clock,
                submit=submit,
                settings=GroupSettings.of(BrokerConfig(texts)),
                new_member_id=self._new_member_id,
            ),
            clock=world.clock,
            commit_timeout_seconds=COMMIT_TIMEOUT_SECONDS,
            is_blind=lambda: self.is_blind,
        )

    def _new_member_id(self, name: str) -> str:
        self._member_count += 1
        return f"{name}-{self._member_count}"

    async def lead(self) -> None:
        self.runtime.lead(0, self.log)
        await self.loaded()

    async def loaded(self) -> None:
        while self.runtime.is_loading:
            await asyncio.sleep(0.01)

    async def reload(self) -> None:
        """Leadership lost and regained: what is not in the log is gone."""
        self.runtime.resign(0)
        await self.lead()

    @property
    def machine(self) -> GroupMachine:
        return self.runtime.machines()[0]

    def group(self, group_id: str = GROUP) -> Group:
        found = self.machine.group(group_id)
        assert found is not None
        return found

    # -- requests ----------------------------------------------------------------------------------------------------

    async def join(self, member_id: str = "", *, version: int = 9, **fields: Any) -> api.JoinGroupResponse:
        request = join_request(member_id, **fields)
        client = Client("client", "/host")
        try:
            return await self.runtime.submit_and_wait(
                0, lambda machine: machine.decide_join(request, client, version=version)
            )
        except ApiError as error:
            return api.JoinGroupResponse(error_code=error.code, member_id=member_id)

    async def new_member(self, **fields: Any) -> api.JoinGroupResponse:
        """Joins as a client does: asks for an id first."""
        answer = await self.join(**fields)
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            answer = await self.join(answer.member_id, **fields)
        return answer

    async def sync(
        self,
        joined: api.JoinGroupResponse,
        assignments: dict[str, bytes] | None = None,
        **fields: Any,
    ) -> api.SyncGroupResponse:
        given = [
            api.SyncGroupRequest.SyncGroupRequestAssignment(member_id=member_id, assignment=assignment)
            for member_id, assignment in (assignments or {}).items()
        ]
        request = api.SyncGroupRequest(
            **{
                "group_id": GROUP,
                "generation_id": joined.generation_id,
                "member_id": joined.member_id,
                "assignments": given,
            }
            | fields
        )
        try:
            return await self.runtime.submit_and_wait(0, lambda machine: machine.decide_sync(request))
        except ApiError as error:
            return api.SyncGroupResponse(error_code=error.code)

    async def stable_member(self, **fields: Any) -> api.JoinGroupResponse:
        """The only member of a stable group, with an assignment."""
        joined = await self.new_member(**fields)
        synced = await self.sync(joined, {joined.member_id: b"all"})
        assert synced.error_code == ErrorCode.NONE and synced.assignment == b"all"
        return joined

    async def heartbeat(self, joined: api.JoinGroupResponse, **fields: Any) -> ErrorCode:
        request = api.HeartbeatRequest(
            **{"group_id": GROUP, "generation_id": joined.generation_id, "member_id": joined.member_id} | fields
        )
        return await self._code(self.runtime.submit(0, lambda machine: machine.decide_heartbeat(request)))

    async def leave(self, member_id: str, instance_id: str | None = None) -> ErrorCode:
        (code,) = await self.leave_all((member_id, instance_id))
        return code

    async def leave_all(self, *members: tuple[str, str | None]) -> list[ErrorCode]:
        leaving = [
            api.LeaveGroupRequest.MemberIdentity(member_id=member_id, group_instance_id=instance_id)
            for member_id, instance_id in members
        ]
        return await self.runtime.submit(0, lambda machine: machine.decide_leave(GROUP, leaving))

    async def commit(
        self, offset: int, joined: api.JoinGroupResponse | None = None, *, version: int = 9, **fields: Any
    ) -> ErrorCode:
        """Of partition 0. The code of the partition, or of the whole."""
        decide = commit_decision(offset, joined, version=version, **fields)
        try:
            [(_, [(_, code)])], committed = self.runtime.submit_gathered(0, decide)
            await come_true(committed)
        except ApiError as error:
            return error.code
        return ErrorCode(code)

    async def commit_in_transaction(
        self, offset: int, producer: ProducerIdentity = PRODUCER, **fields: Any
    ) -> ErrorCode:
        partition = api.TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset, committed_metadata=fields.pop("metadata", "")
        )
        topic = api.TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(name=TOPIC, partitions=[partition])
        request = api.TxnOffsetCommitRequest(
            **{
                "transactional_id": "x",
                "group_id": GROUP,
                "producer_id": producer.producer_id,
                "producer_epoch": producer.epoch,
                "topics": [topic],
            }
            | fields
        )
        now_ms = self.world.clock.now_ms()
        try:
            answer = await self.runtime.submit(0, lambda machine: machine.decide_transactional_commit(request, now_ms))
        except ApiError as error:
            return error.code
        return ErrorCode(answer.topics[0].partitions[0].error_code)

    async def end(self, *, is_commit: bool, producer: ProducerIdentity = PRODUCER) -> None:
        await self.runtime.append_marker(0, producer, is_commit=is_commit, coordinator_epoch=0)

    async def committed(self, group_id: str = GROUP, topic: str = TOPIC, partition: int = 0) -> CommittedOffset | None:
        def read(machine: GroupMachine) -> Decision[CommittedOffset | None]:
            group = machine.group(group_id)
            return Decision((), None if group is None else group.offset(topic, partition))

        return await self.runtime.submit(0, read)

    async def _code(self, asked: Coroutine[Any, Any, Any]) -> ErrorCode:
        try:
            await asked
        except ApiError as error:
            return error.code
        return ErrorCode.NONE


def join_request(member_id: str = "", **fields: Any) -> api.JoinGroupRequest:
    protocols = fields.pop("protocols", {"range": b"metadata"})
    return api.JoinGroupRequest(
        **{
            "group_id": GROUP,
            "member_id": member_id,
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 60_000,
            "protocol_type": CONSUMER,
            "protocols": [
                api.JoinGroupRequest.JoinGroupRequestProtocol(name=name, metadata=metadata)
                for name, metadata in (protocols.items() if isinstance(protocols, dict) else protocols)
            ],
        }
        | fields
    )


def commit_decision(
    offset: int, joined: api.JoinGroupResponse | None = None, *, version: int = 9, **fields: Any
) -> Callable[[GroupMachine], Decision[list[TopicCommitted]]]:
    partition = (0, offset, fields.pop("leader_epoch", -1), fields.pop("metadata", ""))
    topic = TopicImage(fields.pop("topic", TOPIC), ZERO_TOPIC_ID)
    topic.partitions[0] = PartitionImage((1,), (1,), 1, 0, 0, (ZERO_TOPIC_ID,))
    member = {} if joined is None else {"member_id": joined.member_id, "generation": joined.generation_id}
    nobody = {"member_id": "", "generation": -1, "instance_id": None}
    topics = [(topic.name, [partition])]
    call = Committer(**{"group_id": GROUP, "retention_ms": -1} | nobody | member | fields), topics
    return lambda machine: machine.decide_commit(call, {topic.name: topic}, version=version)


def subscription(*topics: str) -> bytes:
    """What a consumer says of itself: a version, then its topics."""
    return b"\0\0" + codec_for(api.ConsumerProtocolSubscription, 0).encode(
        api.ConsumerProtocolSubscription(topics=list(topics))
    )


def play(scene: Callable[[Coordinator], Coroutine[Any, Any, None]], **settings: int) -> None:
    """Runs a scene with a coordinator that is loaded; settings by their names with underscores for dots."""
    world = World(1)

    async def run() -> None:
        coordinator = Coordinator(world, MemoryLog(), **settings)
        await coordinator.lead()
        await scene(coordinator)
        coordinator.runtime.close()

    world.run(run())
