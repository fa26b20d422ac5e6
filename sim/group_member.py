"""A member of a classic group in a few lines, faithful to what clients do: find, join, sync, beat, commit, leave.

Each incarnation is a process of its own: it knows no ids but its instance id, and when it crashes nobody says goodbye.
What it is told it reports to `Observer`, which knows what must hold.
"""

import asyncio
from collections.abc import Iterable
from random import Random
from typing import Any, Final, Protocol

from ottla.base.errors import ErrorCode
from ottla.wire import api
from ottla.wire.apis import ApiKey
from ottla.wire.message import Message
from sim.client import Client, Unanswered

GROUP: Final = "readers"
TOPIC: Final = "orders"
PARTITION_COUNT: Final = 4
SESSION_TIMEOUT_MS: Final = 6_000
REBALANCE_TIMEOUT_MS: Final = 10_000
HEARTBEAT_SECONDS: Final = 1.5
SLOW_PROBABILITY: Final = 0.05  # Of an assignment that takes its time, or of a sync that is late.

# What a client takes for "look for the coordinator, then go on".
ELSEWHERE: Final = frozenset(
    (
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
    )
)
JOIN_AGAIN: Final = frozenset((ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION))


class Fenced(Exception):
    """Another incarnation has taken our place: this one must end."""


class Observer(Protocol):
    def on_assigned(self, member: "SimulatedMember", generation: int, partitions: list[int]) -> None: ...

    def on_lost(self, member: "SimulatedMember") -> None: ...

    def next_offset(self, partition: int) -> int: ...

    def on_committed(self, partition: int, offset: int) -> None: ...

    def floor(self, partition: int) -> int: ...

    def on_fetched(self, partition: int, offset: int, floor: int) -> None: ...

    def on_hit(self, what: str) -> None: ...


class SimulatedMember:
    def __init__(self, client: Client, chance: Random, observer: Observer, instance_id: str | None) -> None:
        self._client = client
        self._chance = chance
        self._observer = observer
        self._instance_id = instance_id
        self._is_leaving = False
        self.pause_seconds = 0.0
        """The process stands still for so long, once."""
        self.identity = instance_id or client.name
        self.member_id = ""
        self.generation = -1
        self.partitions: list[int] = []

    async def run(self) -> None:
        """Until it leaves, is cancelled, or is fenced."""
        try:
            while not self._is_leaving:
                await self._find()
                assigned = await self._join()
                if assigned is None:
                    continue
                self.partitions = assigned
                self._observer.on_assigned(self, self.generation, assigned)
                await self._work()
                self._lose()
            await self._leave()
        except Fenced:
            self._observer.on_hit("fenced")
        finally:
            self._lose()
            self._client.close()

    def leave(self) -> None:
        self._is_leaving = True

    def _lose(self) -> None:
        self.partitions = []
        self._observer.on_lost(self)

    # -- a generation --------------------------------------------------------------------------------------------------

    async def _join(self) -> list[int] | None:
        """Its partitions in the next generation; None when it has to begin again."""
        joined = await self._ask(
            ApiKey.JOIN_GROUP,
            api.JoinGroupRequest(
                group_id=GROUP,
                session_timeout_ms=SESSION_TIMEOUT_MS,
                rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
                member_id=self.member_id,
                group_instance_id=self._instance_id,
                protocol_type="consumer",
                protocols=[api.JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"m")],
            ),
        )
        if joined is not None and joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = joined.member_id
            return None
        if joined is None or not self._is_fine(joined.error_code, "join"):
            return None
        self.member_id = joined.member_id
        self.generation = joined.generation_id
        if self._chance.random() < SLOW_PROBABILITY:
            await asyncio.sleep(self._chance.random() * REBALANCE_TIMEOUT_MS * 1.5 / 1000)
        is_assigning = joined.leader == self.member_id and not joined.skip_assignment
        plan = assign(member.member_id for member in joined.members) if is_assigning else {}
        synced = await self._ask(
            ApiKey.SYNC_GROUP,
            api.SyncGroupRequest(
                group_id=GROUP,
                generation_id=self.generation,
                member_id=self.member_id,
                group_instance_id=self._instance_id,
                protocol_type="consumer",
                protocol_name="range",
                assignments=[
                    api.SyncGroupRequest.SyncGroupRequestAssignment(member_id=member_id, assignment=bytes(partitions))
                    for member_id, partitions in plan.items()
                ],
            ),
        )
        if synced is None or not self._is_fine(synced.error_code, "sync"):
            return None
        return list(synced.assignment)

    async def _work(self) -> None:
        """Reads where it stands, then commits and beats until the group wants something else."""
        if not await self._fetch_offsets():
            return
        while not self._is_leaving:
            await asyncio.sleep(HEARTBEAT_SECONDS * self._chance.random())
            if self.pause_seconds:
                pause_seconds, self.pause_seconds = self.pause_seconds, 0.0
                self._observer.on_hit("paused")
                await asyncio.sleep(pause_seconds)
            is_committing = self.partitions and self._chance.random() < 0.5
            if not await (self._commit() if is_committing else self._beat()):
                return

    async def _beat(self) -> bool:
        answer = await self._ask(
            ApiKey.HEARTBEAT,
            api.HeartbeatRequest(
                group_id=GROUP,
                generation_id=self.generation,
                member_id=self.member_id,
                group_instance_id=self._instance_id,
            ),
        )
        # Where the coordinator is not to be reached, a client goes on for the time being.
        return answer is None or answer.error_code in ELSEWHERE or self._is_fine(answer.error_code, "heartbeat")

    async def _commit(self) -> bool:
        partition = self._chance.choice(self.partitions)
        offset = self._observer.next_offset(partition)
        value = api.OffsetCommitRequest.OffsetCommitRequestPartition(
            partition_index=partition, committed_offset=offset, committed_metadata=self.identity
        )
        answer = await self._ask(
            ApiKey.OFFSET_COMMIT,
            api.OffsetCommitRequest(
                group_id=GROUP,
                generation_id_or_member_epoch=self.generation,
                member_id=self.member_id,
                group_instance_id=self._instance_id,
                topics=[api.OffsetCommitRequest.OffsetCommitRequestTopic(name=TOPIC, partitions=[value])],
            ),
        )
        if answer is None:
            return True
        code = ErrorCode(answer.topics[0].partitions[0].error_code)
        if code in ELSEWHERE or code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return True
        if not self._is_fine(code, "commit"):
            return False
        self._observer.on_committed(partition, offset)
        return True

    async def _fetch_offsets(self) -> bool:
        floors = {partition: self._observer.floor(partition) for partition in self.partitions}
        topic = api.OffsetFetchRequest.OffsetFetchRequestTopics(name=TOPIC, partition_indexes=self.partitions)
        group = api.OffsetFetchRequest.OffsetFetchRequestGroup(group_id=GROUP, topics=[topic])
        answer = await self._ask(ApiKey.OFFSET_FETCH, api.OffsetFetchRequest(groups=[group], require_stable=True))
        if answer is None or answer.groups[0].error_code in ELSEWHERE:
            return False
        assert answer.groups[0].error_code == ErrorCode.NONE
        for fetched in answer.groups[0].topics[0].partitions:
            self._observer.on_fetched(
                fetched.partition_index, fetched.committed_offset, floors[fetched.partition_index]
            )
        return True

    async def _leave(self) -> None:
        member = api.LeaveGroupRequest.MemberIdentity(member_id=self.member_id, group_instance_id=self._instance_id)
        await self._ask(ApiKey.LEAVE_GROUP, api.LeaveGroupRequest(group_id=GROUP, members=[member]))

    # -- answers -------------------------------------------------------------------------------------------------------

    def _is_fine(self, code: int, what: str) -> bool:
        if code == ErrorCode.NONE:
            return True
        known = ErrorCode(code)
        self._observer.on_hit(f"{what} answered {known.name}")
        if known is ErrorCode.FENCED_INSTANCE_ID:
            raise Fenced
        if known is ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id, self.generation = "", -1
        else:
            assert known in ELSEWHERE | JOIN_AGAIN, f"{what} was answered with {known.name}"
            if known is ErrorCode.ILLEGAL_GENERATION:
                self.generation = -1
        return False

    async def _ask(self, key: ApiKey, message: Message) -> Any:
        """None when it is not known whether the request took effect."""
        try:
            return await self._client.request(key, message)
        except Unanswered:
            self._observer.on_hit("unanswered")
            return None

    async def _find(self) -> None:
        while True:
            await asyncio.sleep(self._chance.random())
            try:
                answer = await self._client.request(
                    ApiKey.FIND_COORDINATOR, api.FindCoordinatorRequest(coordinator_keys=[GROUP])
                )
            except Unanswered:
                continue
            if answer.coordinators[0].error_code == ErrorCode.NONE:
                return


def assign(member_ids: Iterable[str]) -> dict[str, list[int]]:
    """Every partition to one member, in turn."""
    ordered = sorted(member_ids)
    return {member_id: list(range(number, PARTITION_COUNT, len(ordered))) for number, member_id in enumerate(ordered)}
