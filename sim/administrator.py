"""What an administrator does meanwhile: replicas moved, leaders elected, voters removed and added, topics made and deleted.

Whatever is asked for may be refused, or not be answered: then it happens later, or not at all.
"""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from ottla.base.errors import ErrorCode
from ottla.raft.messages import AddVoter, RemoveVoter
from ottla.raft.voters import Endpoint, Voter
from ottla.raft.wire_requests import request_to_wire
from ottla.wire import api
from ottla.wire.apis import ApiKey
from ottla.wire.message import Message
from sim.client import VERSIONS, Unanswered
from sim.cluster import address_of
from sim.cluster_client import ClusterClient
from sim.fault_targets import Fault, FaultTargets
from sim.node import LISTENER

ADMINISTRATOR_VERSIONS: Final[Mapping[ApiKey, int]] = {
    **VERSIONS,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: 1,
    ApiKey.ELECT_LEADERS: 2,
    ApiKey.ADD_RAFT_VOTER: 1,
    ApiKey.REMOVE_RAFT_VOTER: 0,
}
TIMEOUT_MS: Final = 3_000
VOTERS_MIN: Final = 3  # One less than these still decide, if all of them are there.
ASKED_MAX: Final = 20
ASK_AGAIN_SECONDS: Final = 0.3


class Administrator:
    def __init__(self, targets: FaultTargets, *, replica_count: int, min_isr: int) -> None:
        self._targets = targets
        self._cluster = targets.cluster
        self._chance = targets.chance
        self._hits = targets.hits
        self._replica_count = replica_count
        self._min_isr = min_isr
        self._topic_count = 0
        self._is_changing_voters = False
        self._client_count = 0
        self.kinds: Mapping[str, Fault] = {
            "reassignment": self.reassign,
            "election": self.elect_preferred,
            "voters": self.change_voters,
            "topics": self.make_and_delete_a_topic,
        }

    async def _ask(self, api_key: ApiKey, request: Message) -> Any:
        """None: it is not known what became of it."""
        self._client_count += 1  # Each request has a connection of its own: several are under way at a time.
        client = ClusterClient(self._cluster, f"administrator-{self._client_count}", ADMINISTRATOR_VERSIONS)
        try:
            return await client.request(api_key, request)
        except Unanswered:
            self._hits[f"{api_key.name} not answered"] += 1
            return None
        finally:
            client.close()

    # -- partitions --------------------------------------------------------------------------------------------------

    async def reassign(self) -> None:
        """Any partition, also one that moves already, to any brokers, in any order; or back where it was."""
        named = self._cluster.named_partitions()
        if not named:
            return
        topic, index, partition = self._chance.choice(named)
        replicas: list[int] | None = self._chance.sample(
            self._cluster.node_ids, self._chance.randint(self._min_isr, self._replica_count)
        )
        if partition.is_moving and self._chance.random() < 0.5:
            replicas = None
        kind = api.AlterPartitionReassignmentsRequest
        wanted = kind.ReassignablePartition(partition_index=index, replicas=replicas)
        request = kind(timeout_ms=TIMEOUT_MS, topics=[kind.ReassignableTopic(name=topic, partitions=[wanted])])
        answer = await self._ask(ApiKey.ALTER_PARTITION_REASSIGNMENTS, request)
        if answer is not None:
            code = answer.error_code or answer.responses[0].partitions[0].error_code
            self._hits[f"reassignment {'cancelled' if replicas is None else 'asked for'}: {ErrorCode(code).name}"] += 1

    async def elect_preferred(self) -> None:
        answer = await self._ask(
            ApiKey.ELECT_LEADERS,
            api.ElectLeadersRequest(election_type=0, topic_partitions=None, timeout_ms=TIMEOUT_MS),
        )
        if answer is not None:
            self._hits[f"preferred leaders asked for: {ErrorCode(answer.error_code).name}"] += 1

    async def make_and_delete_a_topic(self) -> None:
        """Twice under one name: who was down in between has the directory of the former one."""
        self._topic_count += 1
        name = f"short-lived-{self._topic_count}"
        await self._create_topic(name)
        await self._targets.be_away()
        await self._delete_topic(name)
        await self._create_topic(name)
        await self._targets.be_away()
        await self._delete_topic(name)

    async def _create_topic(self, name: str) -> None:
        topic = api.CreateTopicsRequest.CreatableTopic(
            name=name, num_partitions=1, replication_factor=self._replica_count
        )
        await self._ask(ApiKey.CREATE_TOPICS, api.CreateTopicsRequest(topics=[topic], timeout_ms=TIMEOUT_MS))

    async def _delete_topic(self, name: str) -> None:
        for _ in range(ASKED_MAX):
            request = api.DeleteTopicsRequest(topic_names=[name], timeout_ms=TIMEOUT_MS)
            answer = await self._ask(ApiKey.DELETE_TOPICS, request)
            if answer is not None and answer.responses[0].error_code == ErrorCode.NONE:
                self._hits["topic deleted"] += 1
                return
            await asyncio.sleep(ASK_AGAIN_SECONDS)

    # -- voters ------------------------------------------------------------------------------------------------------

    async def change_voters(self) -> None:
        """One is removed and comes back, as an observer that asks or because it was started again."""
        voters = self._targets.settled_voters()
        if voters is None or len(voters) < VOTERS_MIN or self._is_changing_voters:
            return
        self._is_changing_voters = True
        key = self._chance.choice(list(voters)).key
        node = self._cluster.nodes[key.node_id]
        cluster_id = node.opened.node.cluster_id
        removed = await self._ask(ApiKey.REMOVE_RAFT_VOTER, request_to_wire(RemoveVoter(key=key), cluster_id))
        if removed is not None:
            self._hits[f"voter removed: {ErrorCode(removed.error_code).name}"] += 1
        await self._targets.be_away()
        host, port = address_of(key.node_id)
        voter = Voter(key=key, endpoints=(Endpoint(LISTENER, host, port),))
        addition = request_to_wire(AddVoter(voter=voter, timeout_ms=TIMEOUT_MS), cluster_id)
        for _ in range(ASKED_MAX):
            added = await self._ask(ApiKey.ADD_RAFT_VOTER, addition)
            if added is not None and added.error_code in (ErrorCode.NONE, ErrorCode.DUPLICATE_VOTER):
                self._hits["voter added"] += 1
                break
            await asyncio.sleep(ASK_AGAIN_SECONDS)
        self._is_changing_voters = False
