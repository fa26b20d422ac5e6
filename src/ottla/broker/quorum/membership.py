"""A node's place among the voters: it joins them by itself where it may, and tells them when it has moved.

An observer that follows a leader asks to be added (KIP-853); the leader waits until it has caught up. Where the voters
name this node with another directory and nobody has heard of that one for a while, its disk was replaced: that voter is
gone for good and is removed first. Is it heard of, another process has the same id, and keeps its vote. Once the set names
this node where it is, there is nothing more to do until it is started again.
"""

import asyncio
import logging
from typing import Final

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.types import LeaderEpoch
from ottla.broker.peers import Peers
from ottla.broker.quorum import exchange
from ottla.broker.quorum.driver import Quorum
from ottla.raft.messages import AddVoter, RemoveVoter, UpdateVoter
from ottla.raft.voters import ReplicaKey, Voter, VoterSet
from ottla.raft.wire_requests import TOPIC, request_to_wire
from ottla.wire import api
from ottla.wire.apis import ApiKey

logger = logging.getLogger(__name__)

ADD_SECONDS_MAX: Final = 10.0
RETRY_SECONDS: Final = 0.1
SILENT_SECONDS: Final = 2.0  # A voter that lives fetches several times in it.
_DESCRIBE_VERSION: Final = 2

Change = AddVoter | RemoveVoter | UpdateVoter


def plan_change(voters: VoterSet, me: Voter, *, may_join: bool, epoch: LeaderEpoch) -> Change | None:
    """What to ask of the leader; None if this node is where it belongs."""
    known = next((voter for voter in voters if voter.key.node_id == me.key.node_id), None)
    if known == me:
        return None
    if known is not None and known.key == me.key:
        return UpdateVoter(epoch=epoch, voter=me)
    if not may_join:
        return None
    if known is not None:
        return RemoveVoter(key=known.key)
    return AddVoter(voter=me, timeout_ms=round(ADD_SECONDS_MAX * 1000))


class Membership:
    def __init__(self, quorum: Quorum, peers: Peers, *, me: Voter, cluster_id: str, may_join: bool) -> None:
        """`may_join`: by itself; whoever is a voter already says where it is in any case."""
        self._quorum = quorum
        self._peers = peers
        self._me = me
        self._cluster_id = cluster_id
        self._may_join = may_join
        self._told = ""

    async def settle(self) -> None:
        """Until the voters name this node where it is, or it is none and will not be."""
        while True:
            leader_id = await self._quorum.wait_leader()
            change = plan_change(self._quorum.voters, self._me, may_join=self._may_join, epoch=self._quorum.epoch)
            if change is None and self._is_current():
                return
            if change is not None:
                try:
                    if isinstance(change, RemoveVoter):
                        await self._require_gone(leader_id, change.key)
                    await self._ask(leader_id, change)
                except ApiError as error:
                    self._tell(error)
            await asyncio.sleep(RETRY_SECONDS)

    def _tell(self, error: ApiError) -> None:
        """Once for a reason: it is asked ten times a second, and may be refused for as long as an address is wrong."""
        if str(error) != self._told:
            self._told = str(error)
            level = logging.WARNING if error.code is ErrorCode.DUPLICATE_VOTER else logging.INFO
            logger.log(level, "the voters of the metadata quorum are not changed yet: %s", error)

    def _is_current(self) -> bool:
        """Whether the set that this node knows can be the newest: an empty one cannot."""
        return bool(self._quorum.voters)

    async def _require_gone(self, leader_id: int, former: ReplicaKey) -> None:
        """`ApiError` unless nobody has fetched as that voter for a while."""
        epoch = self._quorum.epoch
        await asyncio.sleep(SILENT_SECONDS)
        kind = api.DescribeQuorumRequest
        request = kind(topics=[kind.TopicData(topic_name=TOPIC, partitions=[kind.PartitionData()])])
        response = await self._peers.ask(
            leader_id, ApiKey.DESCRIBE_QUORUM, _DESCRIBE_VERSION, request, timeout_seconds=ADD_SECONDS_MAX
        )
        (found,) = response.topics[0].partitions
        if found.error_code or found.leader_epoch != epoch:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the quorum has just got another leader")
        heard_ms = {
            (one.replica_id, one.replica_directory_id): one.last_fetch_timestamp for one in found.current_voters
        }
        # The leader has always heard of itself just now, by the clock that all of them are told by.
        now_ms = max(heard_ms.values())
        if now_ms - heard_ms.get((former.node_id, former.directory_id), -1) < SILENT_SECONDS * 1000:
            raise ApiError(
                ErrorCode.DUPLICATE_VOTER,
                f"another process is node {former.node_id}: give one of them another node.id (the directory of the other is "
                f"{former.directory_id})",
            )

    async def _ask(self, leader_id: int, change: Change) -> None:
        api_key, version = exchange.APIS[type(change)]
        message = request_to_wire(change, self._cluster_id)
        response = await self._peers.ask(leader_id, api_key, version, message, timeout_seconds=ADD_SECONDS_MAX + 1)
        if response.error_code:
            raise ApiError(ErrorCode(response.error_code), getattr(response, "error_message", None) or "")
        logger.info("node %d: %s of the metadata quorum", self._me.key.node_id, type(change).__name__)
