"""Followers: one fetcher per leader copies all partitions that we follow there, in one long poll after the other.

What came is appended as it is, in the partition's order of appends, and is durable before the next request says that we
have it: a leader counts what we ask for as what we have. Logs are cut back because the leader says where an epoch ended,
and for no other reason (KIP-101, KIP-595); the watermark has no say in it. A partition with a trouble rests for a while and
the others go on; an answer's copying is bounded, and large ones give the loop its turns.

A change of roles does not wait for the long poll under way: it is given up, and the next request names what is new.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, TypeAlias, TypeVar

from ottla.base.errors import ApiError, ErrorCode, ProtocolError
from ottla.base.owned_tasks import OwnedTasks
from ottla.base.types import NodeId, Offset
from ottla.log.partition_log import PartitionLog
from ottla.replica.leader_session import FetchSettings, Followed, LeaderSession, PartitionKey
from ottla.replica.partition import Partition
from ottla.wire import api
from ottla.wire.batch import HEADER_BYTES, first_offset

logger = logging.getLogger(__name__)

BACKOFF_SECONDS_MIN: Final = 0.01  # The first rest; it doubles up to `replica.fetch.backoff.ms`.
COPY_BYTES_PER_TURN: Final = 1 << 20  # Then the loop gets its turn.

T = TypeVar("T")
Ask: TypeAlias = Callable[[NodeId, api.FetchRequest], Awaitable[api.FetchResponse]]
FetchedPartition: TypeAlias = api.FetchResponse.PartitionData

# Their images and ours differ for a moment: one of us will hear more soon.
_PASSING: Final = frozenset(
    (
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    )
)


class ReplicaFetchers:
    """All of a broker's fetchers. `Partitions` tells it of every change of roles.

    `ask`: sends one Fetch (v18) to a leader; raises `ApiError` where no answer comes, and may be cancelled: later
    questions must not wait behind a long poll that was given up. `broker_epoch`: ours, as registered.
    """

    def __init__(
        self,
        *,
        node_id: NodeId,
        broker_epoch: Callable[[], int],
        ask: Ask,
        settings: FetchSettings,
    ) -> None:
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._ask = ask
        self._settings = settings
        self._fetchers: dict[NodeId, Fetcher] = {}
        self._places: dict[Partition, Fetcher] = {}
        self._tasks = OwnedTasks()

    def on_role_changed(self, partition: Partition) -> None:
        """Follows its new leader, or nobody."""
        old = self._places.pop(partition, None)
        if old is not None:
            old.remove(partition)
        if not partition.is_following:
            return
        fetcher = self._fetchers.get(partition.leader_id)
        if fetcher is None:
            fetcher = self._fetchers[partition.leader_id] = Fetcher(
                leader_id=partition.leader_id,
                session=LeaderSession(self._node_id, self._settings),
                broker_epoch=self._broker_epoch,
                ask=self._ask,
                settings=self._settings,
                tasks=self._tasks,
            )
        self._places[partition] = fetcher
        fetcher.add(partition)

    async def close(self) -> None:
        """Nothing is copied after it."""
        for fetcher in self._fetchers.values():
            await fetcher.close()
        self._fetchers.clear()
        self._places.clear()


class Fetcher:
    """Copies from one leader while there is anything to copy."""

    def __init__(
        self,
        *,
        leader_id: NodeId,
        session: LeaderSession,
        broker_epoch: Callable[[], int],
        ask: Ask,
        settings: FetchSettings,
        tasks: OwnedTasks,
    ) -> None:
        self.leader_id = leader_id
        self._session = session
        self._broker_epoch = broker_epoch
        self._ask = ask
        self._settings = settings
        self._tasks = tasks
        self._followed: dict[PartitionKey, Followed] = {}
        self._changed: dict[Followed, None] = {}  # What the next request names.
        self._resting: dict[Followed, None] = {}
        self._running: asyncio.Task[None] | None = None
        self._is_waiting = False  # For an answer, or for the end of a rest.
        self._is_given_up = False
        self._backoff_seconds = 0.0

    # -- what is followed --------------------------------------------------------------------------------------------

    def add(self, partition: Partition) -> None:
        followed = Followed(partition)
        self._followed[followed.key] = followed
        self._changed[followed] = None
        self._backoff_seconds = 0.0
        if self._running is None:
            self._running = self._tasks.spawn(self._run(), name=f"fetch from {self.leader_id}")
        elif self._is_waiting:
            self._is_given_up = True
            self._running.cancel()

    def remove(self, partition: Partition) -> None:
        followed = self._followed.pop((partition.topic_id, partition.topic_partition.partition))
        self._session.forget(followed)
        self._changed.pop(followed, None)
        self._resting.pop(followed, None)

    async def close(self) -> None:
        self._followed.clear()
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait((self._running,))

    # -- one request after the other ---------------------------------------------------------------------------------

    async def _run(self) -> None:
        try:
            while self._followed:
                await self._fetch()
        finally:
            self._running = None

    async def _fetch(self) -> None:
        self._wake_rested()
        if len(self._resting) == len(self._followed):
            await self._wait(asyncio.sleep(self._rest_seconds()))
            return
        try:
            response = await self._wait(self._ask(self.leader_id, self._next_request()))
            if response is None:
                self._restart_session()
                return
            self._require_answer(response)
        except ApiError as error:
            self._restart_session()
            await self._rest(error)
            return
        self._backoff_seconds = 0.0
        self._session.on_answer(response)
        await self._take(response)

    def _next_request(self) -> api.FetchRequest:
        if self._session.is_new:
            changed = [one for one in self._followed.values() if one not in self._resting]
        else:
            changed = list(self._changed)
        self._changed.clear()
        for followed in tuple(changed):
            if not followed.partition.is_durable():
                changed.remove(followed)  # What we ask for is what we have, durably.
                self._back_off(followed)
        wait_ms = min(self._settings.wait_max_ms, int(self._rest_seconds() * 1000) + 1)
        return self._session.request(changed, self._broker_epoch(), wait_ms)

    async def _wait(self, waiting: Awaitable[T]) -> T | None:
        """None where a change of roles came first."""
        self._is_waiting = True
        try:
            return await waiting
        except asyncio.CancelledError:
            if not self._is_given_up or self._running is None:
                raise
            self._running.uncancel()
            return None
        finally:
            self._is_waiting = self._is_given_up = False

    def _require_answer(self, response: api.FetchResponse) -> None:
        if response.error_code:
            self._session.on_answer(response)
            raise ApiError(ErrorCode(response.error_code), f"node {self.leader_id} refused a fetch")

    def _restart_session(self) -> None:
        self._session.reset()
        for followed in self._followed.values():
            followed.is_known = False

    async def _rest(self, error: ApiError) -> None:
        if self._backoff_seconds == 0:
            logger.info("cannot fetch from node %d: %s", self.leader_id, error)
        self._backoff_seconds = self._longer(self._backoff_seconds)
        await self._wait(asyncio.sleep(self._backoff_seconds))

    def _longer(self, backoff_seconds: float) -> float:
        return min(max(backoff_seconds * 2, BACKOFF_SECONDS_MIN), self._settings.backoff_seconds)

    # -- partitions that rest ----------------------------------------------------------------------------------------

    def _wake_rested(self) -> None:
        """Those whose rest is over take part again."""
        if self._resting:
            now = asyncio.get_running_loop().time()
            for followed in [one for one in self._resting if one.retry_at <= now]:
                del self._resting[followed]
                self._changed[followed] = None

    def _rest_seconds(self) -> float:
        """How long the next one still rests; no fetch waits longer."""
        if not self._resting:
            return self._settings.wait_max_ms / 1000
        now = asyncio.get_running_loop().time()
        return min(max(one.retry_at - now, 0.0) for one in self._resting)

    def _back_off(self, followed: Followed) -> None:
        followed.backoff_seconds = self._longer(followed.backoff_seconds)
        self._let_rest(followed, followed.backoff_seconds)

    def _let_rest(self, followed: Followed, seconds: float) -> None:
        if self._followed.get(followed.key) is followed:
            followed.retry_at = asyncio.get_running_loop().time() + seconds
            self._resting[followed] = None
            self._changed.pop(followed, None)
            self._session.forget(followed)

    # -- answers -----------------------------------------------------------------------------------------------------

    async def _take(self, response: api.FetchResponse) -> None:
        slow: list[asyncio.Task[None]] = []
        copied_bytes = 0
        for topic in response.responses:
            for data in topic.partitions:
                followed = self._followed.get((topic.topic_id, data.partition_index))
                if followed is None or not followed.is_known:
                    continue  # It was asked for in another role.
                work = self._take_partition(followed, data)
                if work is not None:
                    slow.append(self._tasks.spawn(work, name="copy"))
                copied_bytes += len(data.records or b"")
                if copied_bytes >= COPY_BYTES_PER_TURN:
                    copied_bytes = 0
                    await asyncio.sleep(0)
        if slow:
            await asyncio.gather(*slow)

    def _take_partition(self, followed: Followed, data: FetchedPartition) -> Coroutine[Any, Any, None] | None:
        """Done on return where nothing must be waited for."""
        partition, records = followed.partition, data.records
        if data.error_code or data.diverging_epoch.end_offset >= 0:
            return self._guarded(followed, self._correct(followed, data))
        try:
            if records is not None and len(records) >= HEADER_BYTES:
                if first_offset(records) < partition.log.log_end_offset:
                    return self._guarded(followed, self._copy_from_within(followed, data, records))
                copying = partition.begin_copy(records, followed.leader_epoch)
                if isinstance(copying, asyncio.Task):
                    return self._guarded(followed, self._finish(followed, data, copying))
                if partition.log.durable_end_offset < copying:
                    return self._guarded(followed, self._finish(followed, data, None))
            else:
                partition.require_following(followed.leader_epoch)
            self._on_copied(followed, data)
        except (ApiError, ProtocolError) as error:
            self._on_trouble(followed, error)
        return None

    async def _guarded(self, followed: Followed, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except (ApiError, ProtocolError) as error:
            self._on_trouble(followed, error)

    def _on_trouble(self, followed: Followed, error: ApiError | ProtocolError) -> None:
        is_passing = isinstance(error, ApiError) and error.code in _PASSING
        if followed.backoff_seconds == 0:
            logger.log(
                logging.DEBUG if is_passing else logging.ERROR,
                "%s cannot be copied from node %d: %s", followed.partition.topic_partition, self.leader_id, error
            )  # fmt: skip
        self._back_off(followed)

    async def _finish(self, followed: Followed, data: FetchedPartition, copying: "asyncio.Task[Offset] | None") -> None:
        partition = followed.partition
        if copying is not None:
            await asyncio.shield(copying)
        if not await partition.wait_durable():
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{partition.topic_partition} is not synced")
        partition.require_following(followed.leader_epoch)
        self._on_copied(followed, data)

    def _on_copied(self, followed: Followed, data: FetchedPartition) -> None:
        partition = followed.partition
        partition.follow_offsets(data.high_watermark, data.log_start_offset)
        followed.backoff_seconds = 0.0
        if self._followed.get(followed.key) is not followed:
            return
        throttle = partition.own_throttle
        if throttle is not None:
            now = asyncio.get_running_loop().time()
            throttle.count(len(data.records or b""), now)
            self._let_rest(followed, throttle.rest_seconds(now))
        elif followed.position != followed.sent:
            self._changed[followed] = None

    async def _copy_from_within(self, followed: Followed, data: FetchedPartition, records: memoryview) -> None:
        """The leader's log starts inside a batch, of which an empty log takes the whole."""
        partition, log = followed.partition, followed.partition.log
        if log.log_start_offset != log.log_end_offset:
            reason = f"{partition.topic_partition}: the leader sent what is here already"
            raise ApiError(ErrorCode.INVALID_RECORD, reason)
        await partition.truncate(first_offset(records), followed.leader_epoch, fully=True)
        copying = partition.begin_copy(records, followed.leader_epoch)
        await self._finish(followed, data, copying if isinstance(copying, asyncio.Task) else None)

    # -- where our log is not a prefix of the leader's ---------------------------------------------------------------

    async def _correct(self, followed: Followed, data: FetchedPartition) -> None:
        partition = followed.partition
        code = ErrorCode(data.error_code)
        if code is ErrorCode.NONE:
            diverging = data.diverging_epoch
            offset = truncation_offset(partition.log, diverging.epoch, diverging.end_offset)
            await partition.truncate(offset, followed.leader_epoch)
        elif code is ErrorCode.OFFSET_OUT_OF_RANGE and data.log_start_offset >= 0:
            # The leader has nothing of what we have or want: its log starts behind our end, or knows none of our epochs.
            logger.warning("%s starts over at %d", partition.topic_partition, data.log_start_offset)
            await partition.truncate(data.log_start_offset, followed.leader_epoch, fully=True)
        else:
            raise ApiError(code, f"the leader answered {code.name}")
        self._changed[followed] = None


def truncation_offset(log: PartitionLog, epoch: int, end_offset: Offset) -> Offset:
    """Where to cut a log whose leader has `epoch` as the largest that both may know, ending there at `end_offset`."""
    own = log.end_offset_for_epoch(epoch)
    if own.epoch < 0:
        return min(end_offset, log.log_end_offset)
    return min(own.end_offset, end_offset, log.log_end_offset)
