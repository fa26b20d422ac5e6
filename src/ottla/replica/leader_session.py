"""A follower's fetch session with one leader (KIP-227): each request names what changed since the last one.

A session costs the leader and us what moves, not what is followed: of a thousand partitions the idle ones are in no
request. Whenever an answer is missing or the leader has forgotten the session, the next request starts another one and
names everything. Topics go by their ids, so that a recreated topic is never mistaken for its predecessor.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias

from ottla.base.types import LeaderEpoch, NodeId, Offset, TopicId
from ottla.replica.partition import Partition
from ottla.wire import api

FETCH_VERSION: Final = 18
NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0
_EPOCH_MAX: Final = 2**31 - 1

PartitionKey: TypeAlias = tuple[TopicId, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchSettings:
    """What `replica.fetch.*` say."""

    wait_max_ms: int = 500
    min_bytes: int = 1
    partition_bytes_max: int = 1 << 20
    response_bytes_max: int = 10 << 20
    backoff_seconds: float = 1.0


class Followed:
    """A partition that we copy from the leader of one epoch."""

    __slots__ = ("backoff_seconds", "is_known", "key", "leader_epoch", "partition", "retry_at", "sent")

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.key: PartitionKey = (partition.topic_id, partition.topic_partition.partition)
        self.leader_epoch: LeaderEpoch = partition.leader_epoch
        self.is_known = False
        """Whether the leader's session has it."""
        self.sent: tuple[Offset, Offset] | None = None
        """Our end and start as the leader knows them."""
        self.backoff_seconds = 0.0
        self.retry_at = 0.0

    @property
    def position(self) -> tuple[Offset, Offset]:
        log = self.partition.log
        return log.log_end_offset, log.log_start_offset


class LeaderSession:
    def __init__(self, node_id: NodeId, settings: FetchSettings) -> None:
        self._node_id = node_id
        self._settings = settings
        self._session_id = NO_SESSION
        self._epoch = INITIAL_EPOCH
        self._forgotten: dict[PartitionKey, None] = {}

    @property
    def is_new(self) -> bool:
        """The next request starts it, and must name everything."""
        return self._epoch == INITIAL_EPOCH

    def reset(self) -> None:
        self._epoch = INITIAL_EPOCH
        self._forgotten.clear()

    def forget(self, followed: Followed) -> None:
        """The leader need not look at it any more."""
        if followed.is_known:
            followed.is_known = False
            self._forgotten[followed.key] = None

    def request(self, changed: Iterable[Followed], broker_epoch: int, max_wait_ms: int) -> api.FetchRequest:
        topics: dict[TopicId, list[api.FetchRequest.FetchPartition]] = {}
        for followed in changed:
            if self._forgotten:
                self._forgotten.pop(followed.key, None)
            topic_id, number = followed.key
            topics.setdefault(topic_id, []).append(self._fetch_of(followed, number))
        return api.FetchRequest(
            replica_state=api.FetchRequest.ReplicaState(replica_id=self._node_id, replica_epoch=broker_epoch),
            max_wait_ms=max_wait_ms,
            min_bytes=self._settings.min_bytes,
            max_bytes=self._settings.response_bytes_max,
            session_id=self._session_id,
            session_epoch=self._epoch,
            topics=[
                api.FetchRequest.FetchTopic(topic_id=topic_id, partitions=partitions)
                for topic_id, partitions in topics.items()
            ],
            forgotten_topics_data=self._take_forgotten(),
        )

    def _fetch_of(self, followed: Followed, number: int) -> api.FetchRequest.FetchPartition:
        log, throttle = followed.partition.log, followed.partition.own_throttle
        size_max = self._settings.partition_bytes_max
        followed.is_known = True
        followed.sent = log.log_end_offset, log.log_start_offset
        return api.FetchRequest.FetchPartition(
            partition=number,
            current_leader_epoch=followed.leader_epoch,
            fetch_offset=log.log_end_offset,
            last_fetched_epoch=log.last_record_epoch,
            log_start_offset=log.log_start_offset,
            partition_max_bytes=size_max if throttle is None else min(size_max, throttle.piece_bytes_max),
            high_watermark=followed.partition.high_watermark,
        )

    def _take_forgotten(self) -> list[api.FetchRequest.ForgottenTopic]:
        if not self._forgotten:
            return []
        topics: dict[TopicId, list[int]] = {}
        if not self.is_new:
            for topic_id, number in self._forgotten:
                topics.setdefault(topic_id, []).append(number)
        self._forgotten.clear()
        return [
            api.FetchRequest.ForgottenTopic(topic_id=topic_id, partitions=numbers)
            for topic_id, numbers in topics.items()
        ]

    def on_answer(self, response: api.FetchResponse) -> None:
        """A leader without room for sessions says 0: every request then names everything."""
        if response.error_code:
            self.reset()  # With the old id, so that the leader lets go of the old session.
        elif response.session_id == NO_SESSION:
            self._session_id = NO_SESSION
            self.reset()
        else:
            self._session_id = response.session_id
            self._epoch = 1 if self._epoch == _EPOCH_MAX else self._epoch + 1
