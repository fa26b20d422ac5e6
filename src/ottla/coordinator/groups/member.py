"""Members of a classic group: those that belong to it, and those that were only given an id so far."""

import asyncio
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from ottla.coordinator.groups.deadlines import Timed
from ottla.wire import api

if TYPE_CHECKING:
    from ottla.coordinator.groups.group import Group

Protocols: TypeAlias = tuple[tuple[str, bytes], ...]
"""Names of the assignors that a client offers, the preferred one first, each with its metadata."""

JoinFuture: TypeAlias = "asyncio.Future[api.JoinGroupResponse]"
SyncFuture: TypeAlias = "asyncio.Future[api.SyncGroupResponse]"


class Client(NamedTuple):
    """Who sent a request, as group descriptions show it."""

    client_id: str
    host: str


class Member(Timed):
    """`due_at` ends its session. Its requests that wait for the others are `join` and `sync`."""

    __slots__ = (
        "assignment",
        "client",
        "group",
        "instance_id",
        "is_new",
        "join",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
        "sync",
    )

    def __init__(
        self,
        group: "Group",
        member_id: str,
        *,
        client: Client,
        instance_id: str | None,
        protocols: Protocols,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
    ) -> None:
        super().__init__()
        self.group = group
        self.member_id = member_id
        self.client = client
        self.instance_id = instance_id
        self.protocols = protocols
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.assignment = b""
        self.join: JoinFuture | None = None
        self.sync: SyncFuture | None = None
        self.is_new = False
        """It has not been part of a generation yet: while it joins it cannot beat."""

    @property
    def is_listening(self) -> bool:
        """Somebody waits for the answer to its join or sync: the silence of such a member is ours."""
        join, sync = self.join, self.sync
        return (join is not None and not join.done()) or (sync is not None and not sync.done())

    def metadata_for(self, protocol: str | None) -> bytes:
        return next((metadata for name, metadata in self.protocols if name == protocol), b"")

    def answer_sync(self, response: api.SyncGroupResponse) -> None:
        sync, self.sync = self.sync, None
        if sync is not None and not sync.done():
            sync.set_result(response)


class PendingMember(Timed):
    """An id that was given out; its owner is expected to join with it before `due_at`."""

    __slots__ = ("group", "member_id")

    def __init__(self, group: "Group", member_id: str) -> None:
        super().__init__()
        self.group = group
        self.member_id = member_id
