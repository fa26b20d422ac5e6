"""Fetch sessions (KIP-227): a fetch costs what changed, not what is subscribed.

A session remembers the partitions a client wants and watches them. `due` holds, in the order in which they are served, the
ones that may have something to say: asked for in this request, changed since the last answer, or cut short by a limit. A
partition leaves `due` when there is nothing to send. A fetch without a session is a session that lives for one request.

A follower's session watches the log end, where new data is. That the watermark moved is news to it, too, but no hurry: it
is told after `NEWS_SECONDS` at the latest, and with the next data if that comes first.

Sessions are bounded (`max.incremental.fetch.session.cache.slots`); the least recently used one goes, and its client is
told FETCH_SESSION_ID_NOT_FOUND and starts anew.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from ottla.base.lazy_timer import LazyTimer
from ottla.base.types import NO_EPOCH, NO_OFFSET, LeaderEpoch, NodeId, Offset
from ottla.replica.partition import Partition
from ottla.wire.hot import TopicKey

SESSIONS_MAX: Final = 1000
FINAL_EPOCH: Final = -1
INITIAL_EPOCH: Final = 0
NO_SESSION: Final = 0
NEWS_SECONDS: Final = 0.005  # A fetch for every move of the watermark would cost a follower as much as its data.

EntryKey: TypeAlias = tuple[TopicKey, int]


class Replica(NamedTuple):
    """Who fetches, where it is a broker that follows us."""

    node_id: NodeId
    broker_epoch: int


class FetchEntry:
    """One partition that a client wants. Watches its partition and puts itself on the session's list when that changes."""

    __slots__ = (
        "_rest_timer",
        "current_leader_epoch",
        "fetch_offset",
        "index",
        "is_reported",
        "last_fetched_epoch",
        "log_start_offset",
        "max_bytes",
        "partition",
        "sent_high_watermark",
        "sent_log_start_offset",
        "session",
        "topic",
    )

    def __init__(self, session: "FetchSession", topic: TopicKey, index: int) -> None:
        self.session = session
        self.topic = topic
        self.index = index
        self.partition: Partition | None = None
        self.fetch_offset: Offset = 0
        self.max_bytes = 0
        self.current_leader_epoch: LeaderEpoch = NO_EPOCH
        self.last_fetched_epoch: LeaderEpoch = NO_EPOCH
        self.log_start_offset: Offset = NO_OFFSET
        self.is_reported = False
        """Whether the partition knows how far this follower has come."""
        self.sent_high_watermark: Offset = -1
        self.sent_log_start_offset: Offset = -1
        self._rest_timer: asyncio.TimerHandle | None = None

    def bind(self, partition: Partition | None) -> None:
        if partition is not self.partition:
            if self.partition is not None:
                self.partition.unwatch(self)
                self._end_rest()
            if partition is not None:
                partition.watch(self, end=self.session.replica is not None)
            self.partition = partition
            self.sent_high_watermark = self.sent_log_start_offset = -1

    def on_partition_changed(self, appended_bytes: int) -> None:
        self.session.on_entry_changed(self, appended_bytes)

    def rest(self, seconds: float) -> None:
        """Nothing is read for it until then: a throttle holds it back."""
        if self._rest_timer is None:
            self._rest_timer = asyncio.get_running_loop().call_later(seconds, self._on_rested)

    def _on_rested(self) -> None:
        self._rest_timer = None
        self.on_partition_changed(0)

    def _end_rest(self) -> None:
        """An entry that its session has forgotten must not come back on the list: its offset is an old one."""
        if self._rest_timer is not None:
            self._rest_timer.cancel()
            self._rest_timer = None

    def on_watermark_moved(self) -> None:
        self.session.on_news(self)


class FetchSession:
    __slots__ = (
        "_deadline",
        "_is_news_ripe",
        "_missing_bytes",
        "_news",
        "_waiter",
        "by_topic_id",
        "due",
        "entries",
        "epoch",
        "replica",
        "session_id",
    )

    def __init__(self, session_id: int, *, by_topic_id: bool, replica: Replica | None = None) -> None:
        self.session_id = session_id
        self.by_topic_id = by_topic_id
        self.replica = replica
        self.epoch = INITIAL_EPOCH
        self.entries: dict[EntryKey, FetchEntry] = {}
        self.due: dict[FetchEntry, None] = {}
        self._waiter: asyncio.Future[None] | None = None
        self._missing_bytes = 0
        self._is_news_ripe = False
        self._deadline = LazyTimer(self.interrupt)
        self._news = LazyTimer(self._on_news_ripe)

    def want(self, topic: TopicKey, index: int) -> FetchEntry:
        key = (topic, index)
        entry = self.entries.get(key)
        if entry is None:
            entry = self.entries[key] = FetchEntry(self, topic, index)
        self.due[entry] = None
        return entry

    def forget(self, topic: TopicKey, index: int) -> None:
        entry = self.entries.pop((topic, index), None)
        if entry is not None:
            entry.bind(None)
            self.due.pop(entry, None)

    def on_entry_changed(self, entry: FetchEntry, appended_bytes: int) -> None:
        self.due[entry] = None
        waiter = self._waiter
        if waiter is not None:
            self._missing_bytes -= appended_bytes
            if (self._missing_bytes <= 0 or appended_bytes == 0) and not waiter.done():
                waiter.set_result(None)

    def on_news(self, entry: FetchEntry) -> None:
        """Something to tell, but not at once."""
        self.due[entry] = None
        if self._waiter is not None:
            self._news.bring_forward(asyncio.get_running_loop().time() + NEWS_SECONDS)

    def _on_news_ripe(self) -> None:
        self._is_news_ripe = True
        self.interrupt()

    async def wait_for(self, missing_bytes: int, timeout_seconds: float, *, has_news: bool = False) -> bool:
        """Until about `missing_bytes` more became readable, something else changed, or the time is over. Returns whether
        news have waited long enough; `has_news` when there are some already. Whoever waits here already looks again."""
        self.interrupt()
        loop = asyncio.get_running_loop()
        now = loop.time()
        waiter: asyncio.Future[None] = loop.create_future()
        self._waiter, self._missing_bytes, self._is_news_ripe = waiter, missing_bytes, False
        self._deadline.set(now + timeout_seconds)
        if has_news:
            self._news.set(now + NEWS_SECONDS)
        try:
            await waiter
        finally:
            if self._waiter is waiter:
                self._deadline.clear()
                self._news.clear()
                self._waiter = None
        return self._is_news_ripe

    def interrupt(self) -> None:
        """Whoever waits looks again: the node stops, say."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def close(self) -> None:
        self.interrupt()
        self._deadline.cancel()
        self._news.cancel()
        for entry in self.entries.values():
            entry.bind(None)
        self.entries.clear()
        self.due.clear()


class FetchSessions:
    """The node's sessions, and the one-request ones under way."""

    def __init__(self, new_id: Callable[[], int], sessions_max: int = SESSIONS_MAX) -> None:
        self._new_id = new_id
        self._sessions_max = sessions_max
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()
        self._passing: dict[FetchSession, None] = {}  # A set's order would differ from run to run.

    def begin_passing(self, *, by_topic_id: bool, replica: Replica | None = None) -> FetchSession:
        """One that lives for one request, until `end_passing`."""
        session = FetchSession(NO_SESSION, by_topic_id=by_topic_id, replica=replica)
        self._passing[session] = None
        return session

    def end_passing(self, session: FetchSession) -> None:
        del self._passing[session]
        session.close()

    def create(self, *, by_topic_id: bool, replica: Replica | None = None) -> FetchSession:
        while len(self._sessions) >= self._sessions_max:
            _, oldest = self._sessions.popitem(last=False)
            oldest.close()
        session_id = self._new_id()
        while session_id in self._sessions or session_id == NO_SESSION:
            session_id = self._new_id()
        session = self._sessions[session_id] = FetchSession(session_id, by_topic_id=by_topic_id, replica=replica)
        return session

    def get(self, session_id: int) -> FetchSession | None:
        session = self._sessions.get(session_id)
        if session is not None:
            self._sessions.move_to_end(session_id)
        return session

    def remove(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            session.close()

    def __len__(self) -> int:
        return len(self._sessions)

    def interrupt_all(self) -> None:
        for session in (*self._sessions.values(), *self._passing):
            session.interrupt()
