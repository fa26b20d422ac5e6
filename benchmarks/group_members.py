"""Members of a classic group on raw connections, which do what a client's coordinator thread does and nothing else.

The leader hands out the size of the group as everybody's assignment: so each member knows by itself whether it has been
assigned by a generation that everybody is in.
"""

import asyncio
import struct
from typing import Final

from benchmarks.async_client import AsyncClient
from ottla.base.errors import ErrorCode
from ottla.wire import api
from ottla.wire.apis import ApiKey
from ottla.wire.codec import codec_for

SESSION_TIMEOUT_MS: Final = 300_000  # Nobody is dropped for being quiet while the others are being measured.
HEARTBEAT_SECONDS: Final = 0.05  # How soon a member learns of a rebalance; clients take three seconds.
PROTOCOL: Final = "range"

_JOIN_VERSION: Final = 9
_SYNC_VERSION: Final = 5
_HEARTBEAT_VERSION: Final = 4
_SUBSCRIPTION_VERSION: Final = 1
_VERSION: Final = struct.Struct(">h")
_MEMBER_COUNT: Final = struct.Struct(">i")
_TRY_AGAIN: Final = frozenset({ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE})
_REBALANCE: Final = frozenset({ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION})


class Member:
    def __init__(self, client: AsyncClient, group: str) -> None:
        self._client = client
        self._group = group
        self._member_id = ""
        self._subscription = b""
        self.generation = -1

    async def settle(self, *, group_size: int, topic: str) -> None:
        """Joins, as often as it takes, until it has an assignment together with all the others."""
        self._subscription = _subscription(topic)
        while await self._assigned_count() != group_size:
            await self._wait_rebalance()

    async def _assigned_count(self) -> int | None:
        """One round of join and sync: how many members the generation has, or None when a rebalance came between."""
        joined = await self._join()
        self.generation = joined.generation_id
        synced = await self._client.ask(ApiKey.SYNC_GROUP, _SYNC_VERSION, self._sync_request(joined))
        if synced.error_code in _REBALANCE:
            return None
        _require_none(synced.error_code, "SyncGroup")
        return int(_MEMBER_COUNT.unpack(synced.assignment)[0])

    async def _join(self) -> api.JoinGroupResponse:
        while True:
            request = api.JoinGroupRequest(
                group_id=self._group,
                session_timeout_ms=SESSION_TIMEOUT_MS,
                rebalance_timeout_ms=SESSION_TIMEOUT_MS,
                member_id=self._member_id,
                protocol_type="consumer",
                protocols=[api.JoinGroupRequest.JoinGroupRequestProtocol(name=PROTOCOL, metadata=self._subscription)],
            )
            response: api.JoinGroupResponse = await self._client.ask(ApiKey.JOIN_GROUP, _JOIN_VERSION, request)
            if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                self._member_id = response.member_id
            elif response.error_code in _TRY_AGAIN:
                await asyncio.sleep(HEARTBEAT_SECONDS)
            else:
                _require_none(response.error_code, "JoinGroup")
                return response

    def _sync_request(self, joined: api.JoinGroupResponse) -> api.SyncGroupRequest:
        """`members` is empty but for the leader."""
        count = _MEMBER_COUNT.pack(len(joined.members))
        return api.SyncGroupRequest(
            group_id=self._group,
            generation_id=joined.generation_id,
            member_id=self._member_id,
            protocol_type="consumer",
            protocol_name=PROTOCOL,
            assignments=[
                api.SyncGroupRequest.SyncGroupRequestAssignment(member_id=member.member_id, assignment=count)
                for member in joined.members
            ],
        )

    async def _wait_rebalance(self) -> None:
        request = api.HeartbeatRequest(group_id=self._group, generation_id=self.generation, member_id=self._member_id)
        error_code = 0
        while error_code not in _REBALANCE:
            _require_none(error_code, "Heartbeat")
            await asyncio.sleep(HEARTBEAT_SECONDS)
            error_code = (await self._client.ask(ApiKey.HEARTBEAT, _HEARTBEAT_VERSION, request)).error_code


def _subscription(topic: str) -> bytes:
    """What consumers send: brokers look into it."""
    message = api.ConsumerProtocolSubscription(topics=[topic])
    return _VERSION.pack(_SUBSCRIPTION_VERSION) + codec_for(type(message), _SUBSCRIPTION_VERSION).encode(message)


def _require_none(error_code: int, what: str) -> None:
    if error_code:
        raise ConnectionError(f"{what} answered with error {error_code}")
