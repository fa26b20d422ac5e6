"""`Admin`'s calls about the cluster itself: brokers, quorum, disks, where replicas lie, and moving them.

librdkafka has none of them, so brokers are asked directly. Any broker takes each request and passes on to the active
controller what only that one can answer; while there is none, the request is repeated.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeVar

from ottla.base.errors import ErrorCode
from ottla.base.types import NO_NODE, NodeId, TopicPartition
from ottla.client.admin_base import AdminBase, raise_failures
from ottla.client.cluster_states import (
    BrokerState,
    ClusterMembers,
    LogDirectory,
    QuorumReplica,
    QuorumState,
    Reassignment,
)
from ottla.client.errors import ClientError, coded_error
from ottla.client.raw.connection import NO_CONNECTION
from ottla.client.raw.patience import patiently
from ottla.client.topics import PartitionInfo
from ottla.wire import api
from ottla.wire.apis import ApiKey
from ottla.wire.message import Message

R = TypeVar("R", bound=Message)
T = TypeVar("T")

METADATA_TOPIC: Final = "__cluster_metadata"
TOPIC_RESOURCE: Final = 2
PREFERRED, UNCLEAN = 0, 1
CONTROLLER_PASSING: Final = frozenset(
    {NO_CONNECTION, ErrorCode.NOT_CONTROLLER.name, ErrorCode.REQUEST_TIMED_OUT.name, ErrorCode.NETWORK_EXCEPTION.name}
)


class ClusterAdmin(AdminBase):
    def describe_members(self) -> ClusterMembers:
        """All registered brokers, those that are down included where the broker tells them (since Kafka 4.0)."""
        request = api.DescribeClusterRequest(include_fenced_brokers=True)
        answer = self._ask(ApiKey.DESCRIBE_CLUSTER, request, api.DescribeClusterResponse)
        check(answer.error_code, "describing the cluster", answer.error_message)
        brokers = [
            BrokerState(id=each.broker_id, host=each.host, port=each.port, rack=each.rack, is_fenced=each.is_fenced)
            for each in answer.brokers
        ]
        return ClusterMembers(
            cluster_id=answer.cluster_id, brokers=tuple(sorted(brokers, key=lambda broker: broker.id))
        )

    def describe_quorum(self) -> QuorumState:
        kind = api.DescribeQuorumRequest
        topic = kind.TopicData(topic_name=METADATA_TOPIC, partitions=[kind.PartitionData(partition_index=0)])

        def ask() -> api.DescribeQuorumResponse.PartitionData:
            answer = self._ask(ApiKey.DESCRIBE_QUORUM, kind(topics=[topic]), api.DescribeQuorumResponse)
            check(answer.error_code, "describing the quorum", answer.error_message)
            [found] = answer.topics[0].partitions
            check(found.error_code, "describing the quorum", found.error_message)
            return found

        return quorum_state(self._patiently(ask))

    def list_partitions(self) -> dict[TopicPartition, PartitionInfo]:
        """Of all topics, internal ones included."""
        with self._brokers() as cluster:
            answer = cluster.metadata(None)
        return {
            TopicPartition(topic.name or "", one.partition_index): PartitionInfo(
                partition=one.partition_index,
                leader=None if one.leader_id == NO_NODE else one.leader_id,
                replicas=tuple(one.replica_nodes),
                in_sync_replicas=tuple(one.isr_nodes),
            )
            for topic in sorted(answer.topics, key=lambda topic: topic.name or "")
            for one in sorted(topic.partitions, key=lambda one: one.partition_index)
        }

    def describe_log_directories(self, brokers: Iterable[NodeId] | None = None) -> dict[NodeId, list[LogDirectory]]:
        """Of all brokers that run, or of some; one that does not answer is left out."""
        asked = None if brokers is None else set(brokers)
        request = api.DescribeLogDirsRequest(topics=None)
        found: dict[NodeId, list[LogDirectory]] = {}
        with self._brokers() as cluster:
            for node, address in sorted(cluster.brokers().items()):
                if asked is not None and node not in asked:
                    continue
                try:
                    answer = cluster.ask(ApiKey.DESCRIBE_LOG_DIRS, request, api.DescribeLogDirsResponse, at=address)
                except ClientError as error:
                    if error.code != NO_CONNECTION:
                        raise
                    continue
                check(answer.error_code, f"describing the log directories of broker {node}")
                found[node] = [log_directory(each) for each in answer.results]
        return found

    def describe_topic_configs(self, topics: Iterable[str], names: Sequence[str]) -> dict[str, dict[str, str | None]]:
        """The values of these configurations, by topic and name, in one request; deleted topics are left out."""
        kind = api.DescribeConfigsRequest
        resources = [
            kind.DescribeConfigsResource(
                resource_type=TOPIC_RESOURCE, resource_name=topic, configuration_keys=list(names)
            )
            for topic in topics
        ]
        if not resources:
            return {}
        answer = self._ask(ApiKey.DESCRIBE_CONFIGS, kind(resources=resources), api.DescribeConfigsResponse)
        found: dict[str, dict[str, str | None]] = {}
        for result in answer.results:
            if result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                continue
            check(result.error_code, f"describing the configuration of {result.resource_name}", result.error_message)
            found[result.resource_name] = {entry.name: entry.value for entry in result.configs}
        return found

    # Moving

    def list_reassignments(self) -> dict[TopicPartition, Reassignment]:
        """Those under way."""
        request = api.ListPartitionReassignmentsRequest(timeout_ms=self._timeout_ms, topics=None)

        def ask() -> api.ListPartitionReassignmentsResponse:
            answer = self._ask(ApiKey.LIST_PARTITION_REASSIGNMENTS, request, api.ListPartitionReassignmentsResponse)
            check(answer.error_code, "listing reassignments", answer.error_message)
            return answer

        return {
            TopicPartition(topic.name, one.partition_index): Reassignment(
                replicas=tuple(one.replicas),
                adding=tuple(one.adding_replicas),
                removing=tuple(one.removing_replicas),
            )
            for topic in self._patiently(ask).topics
            for one in topic.partitions
        }

    def alter_reassignments(self, replicas: Mapping[TopicPartition, Sequence[NodeId] | None]) -> None:
        """Sets partitions on their way to these replicas, of which the first is preferred to lead; None cancels."""
        kind = api.AlterPartitionReassignmentsRequest
        request = kind(
            timeout_ms=self._timeout_ms,
            allow_replication_factor_change=True,
            topics=[
                kind.ReassignableTopic(
                    name=topic,
                    partitions=[
                        kind.ReassignablePartition(
                            partition_index=each.partition,
                            replicas=None if (target := replicas[each]) is None else list(target),
                        )
                        for each in partitions
                    ],
                )
                for topic, partitions in by_topic(replicas).items()
            ],
        )

        def ask() -> api.AlterPartitionReassignmentsResponse:
            answer = self._ask(ApiKey.ALTER_PARTITION_REASSIGNMENTS, request, api.AlterPartitionReassignmentsResponse)
            check(answer.error_code, "reassigning partitions", answer.error_message)
            return answer

        failures = {}
        for topic in self._patiently(ask).responses:
            for one in topic.partitions:
                if one.error_code != ErrorCode.NONE:
                    name = str(TopicPartition(topic.name, one.partition_index))
                    failures[name] = coded_error(one.error_code, f"reassigning {name}", one.error_message)
        raise_failures(failures)

    def elect_leaders(self, partitions: Iterable[TopicPartition], *, unclean: bool = False) -> None:
        """Gives leadership to the preferred replicas; `unclean` to any that is alive, which may lose records."""
        request = api.ElectLeadersRequest(
            election_type=UNCLEAN if unclean else PREFERRED,
            topic_partitions=[
                api.ElectLeadersRequest.TopicPartitions(topic=topic, partitions=[each.partition for each in of_topic])
                for topic, of_topic in by_topic(partitions).items()
            ],
            timeout_ms=self._timeout_ms,
        )

        def ask() -> api.ElectLeadersResponse:
            answer = self._ask(ApiKey.ELECT_LEADERS, request, api.ElectLeadersResponse)
            check(answer.error_code, "electing leaders")
            return answer

        failures = {}
        for topic in self._patiently(ask).replica_election_results:
            for one in topic.partition_result:
                if one.error_code not in (ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED):
                    name = str(TopicPartition(topic.topic, one.partition_id))
                    failures[name] = coded_error(one.error_code, f"electing the leader of {name}", one.error_message)
        raise_failures(failures)

    # Leaving

    def remove_voter(self, voter: QuorumReplica) -> None:
        """Takes a controller out of the quorum (KIP-853); one that joins by itself comes back unless it is stopped."""
        request = api.RemoveRaftVoterRequest(cluster_id=None, voter_id=voter.id, voter_directory_id=voter.directory_id)

        def ask() -> None:
            answer = self._ask(ApiKey.REMOVE_RAFT_VOTER, request, api.RemoveRaftVoterResponse)
            check(answer.error_code, f"removing voter {voter.id}", answer.error_message)

        self._patiently(ask)

    def unregister_broker(self, broker: NodeId) -> None:
        """Forgets a broker that is stopped for good."""

        def ask() -> None:
            request = api.UnregisterBrokerRequest(broker_id=broker)
            answer = self._ask(ApiKey.UNREGISTER_BROKER, request, api.UnregisterBrokerResponse)
            check(answer.error_code, f"unregistering broker {broker}", answer.error_message)

        self._patiently(ask)

    @property
    def _timeout_ms(self) -> int:
        return round(self._timeout_s * 1000)

    def _ask(self, key: ApiKey, request: Message, response_class: type[R]) -> R:
        with self._brokers() as cluster:
            return cluster.ask(key, request, response_class)

    def _patiently(self, ask: Callable[[], T]) -> T:
        return patiently(ask, passing=CONTROLLER_PASSING, timeout_s=self._timeout_s)


def quorum_state(found: api.DescribeQuorumResponse.PartitionData) -> QuorumState:
    end_offset, now_ms = found.high_watermark, 0
    for voter in found.current_voters:
        if voter.replica_id == found.leader_id:
            # The leader tells the present moment as its own last fetch, by its own clock.
            end_offset, now_ms = voter.log_end_offset, voter.last_caught_up_timestamp

    def replica(each: api.DescribeQuorumResponse.ReplicaState) -> QuorumReplica:
        heard = each.last_caught_up_timestamp > 0
        return QuorumReplica(
            id=each.replica_id,
            directory_id=each.replica_directory_id,
            log_end_offset=each.log_end_offset,
            lag=max(0, end_offset - max(0, each.log_end_offset)),
            caught_up_ms_ago=max(0, now_ms - each.last_caught_up_timestamp) if heard else None,
        )

    return QuorumState(
        leader=None if found.leader_id == NO_NODE else found.leader_id,
        leader_epoch=found.leader_epoch,
        high_watermark=found.high_watermark,
        voters=tuple(sorted(map(replica, found.current_voters), key=lambda each: each.id)),
        observers=tuple(sorted(map(replica, found.observers), key=lambda each: each.id)),
    )


def log_directory(found: api.DescribeLogDirsResponse.DescribeLogDirsResult) -> LogDirectory:
    has_failed = found.error_code != ErrorCode.NONE
    return LogDirectory(
        path=found.log_dir,
        error=coded_error(found.error_code, "looking").code if has_failed else None,
        total_bytes=found.total_bytes if found.total_bytes >= 0 else None,
        usable_bytes=found.usable_bytes if found.usable_bytes >= 0 else None,
        sizes={
            TopicPartition(topic.name, one.partition_index): one.partition_size
            for topic in found.topics
            for one in topic.partitions
            if not one.is_future_key
        },
    )


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[TopicPartition]]:
    grouped: dict[str, list[TopicPartition]] = {}
    for each in sorted(partitions):
        grouped.setdefault(each.topic, []).append(each)
    return grouped


def check(error_code: int, doing: str, words: str | None = None) -> None:
    if error_code != ErrorCode.NONE:
        raise coded_error(error_code, doing, words)
