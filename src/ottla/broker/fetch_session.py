"""Fetch sessions (KIP-227): a fetch costs what changed, not what is subscribed.

A session remembers the partitions a client wants and watches them. `due` holds, in the order in which they are served, the
ones that may have something to say: asked for in this request, changed since the last answer, or cut short by a limit. A
partition leaves `due` when there is nothing to send. A fetch without a session is a session that lives for one request.

Sessions are bounded (`max.incremental.fetch.session.cache.slots`); the least recently used one goes, and its client is
told FETCH_SESSION_ID_NOT_FOUND and starts anew.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, TypeAlias

from ottla.base.types import LeaderEpoch, Offset
from ottla.replica.partition import Partition
from ottla.wire.hot import TopicKey

SESSIONS_MAX: Final = 1000
FINAL_EPOCH: Final = -1
INITIAL_EPOCH: Final = 0
NO_SESSION: Final = 0

EntryKey: TypeAlias = tuple[TopicKey, int]


class FetchEntry:
    """One partition that a client wants. Watches its partition and puts itself on the session's list when that changes."""

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "index",
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
        self.current_leader_epoch: LeaderEpoch = -1
        self.sent_high_watermark: Offset = -1
        self.sent_log_start_offset: Offset = -1

    def bind(self, partition: Partition | None) -> None:
        if partition is not self.partition:
            if self.partition is not None:
                self.partition.unwatch(self)
            if partition is not None:
                partition.watch(self)
            self.partition = partition
            self.sent_high_watermark = self.sent_log_start_offset = -1

    def on_partition_changed(self, appended_bytes: int) -> None:
        self.session.on_entry_changed(self, appended_bytes)


class FetchSession:
    __slots__ = ("_missing_bytes", "_waiter", "by_topic_id", "due", "entries", "epoch", "session_id")

    def __init__(self, session_id: int, *, by_topic_id: bool) -> None:
        self.session_id = session_id
        self.by_topic_id = by_topic_id
        self.epoch = INITIAL_EPOCH
        self.entries: dict[EntryKey, FetchEntry] = {}
        self.due: dict[FetchEntry, None] = {}
        self._waiter: asyncio.Future[None] | None = None
        self._missing_bytes = 0

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

    async def wait_for(self, missing_bytes: int, timeout_seconds: float) -> None:
        """Until about `missing_bytes` more became readable, something else changed, or the time is over."""
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()
        self._waiter, self._missing_bytes = waiter, missing_bytes
        timer = loop.call_later(timeout_seconds, _finish, waiter)
        try:
            await waiter
        finally:
            timer.cancel()
            self._waiter = None

    def interrupt(self) -> None:
        """The node stops: whoever waits is answered now."""
        if self._waiter is not None:
            _finish(self._waiter)

    def close(self) -> None:
        for entry in self.entries.values():
            entry.bind(None)
        self.entries.clear()
        self.due.clear()


def _finish(waiter: "asyncio.Future[None]") -> None:
    if not waiter.done():
        waiter.set_result(None)


class FetchSessions:
    """The node's sessions, and the one-request ones under way."""

    def __init__(self, new_id: Callable[[], int], sessions_max: int = SESSIONS_MAX) -> None:
        self._new_id = new_id
        self._sessions_max = sessions_max
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()
        self._waiting: set[FetchSession] = set()

    def create(self, *, by_topic_id: bool) -> FetchSession:
        while len(self._sessions) >= self._sessions_max:
            _, oldest = self._sessions.popitem(last=False)
            oldest.interrupt()
            oldest.close()
        session_id = self._new_id()
        while session_id in self._sessions or session_id == NO_SESSION:
            session_id = self._new_id()
        session = self._sessions[session_id] = FetchSession(session_id, by_topic_id=by_topic_id)
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

    def begin_wait(self, session: FetchSession) -> None:
        self._waiting.add(session)

    def end_wait(self, session: FetchSession) -> None:
        self._waiting.discard(session)

    def interrupt_all(self) -> None:
        for session in tuple(self._waiting):
            session.interrupt()
