"""Written by `python -m ottla.wire.stub` from the definitions: change those, not this."""

from uuid import UUID

from ottla.base.disk import Buffer
from ottla.wire.message import Message

class AbortTransactionRecord(Message):
    reason: str | None
    def __init__(
        self,
        *,
        reason: str | None = ...,
    ) -> None: ...

class AccessControlEntryRecord(Message):
    id: UUID
    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int
    def __init__(
        self,
        *,
        id: UUID = ...,
        resource_type: int = ...,
        resource_name: str = ...,
        pattern_type: int = ...,
        principal: str = ...,
        host: str = ...,
        operation: int = ...,
        permission_type: int = ...,
    ) -> None: ...

class AddOffsetsToTxnRequest(Message):
    transactional_id: str
    producer_id: int
    producer_epoch: int
    group_id: str
    def __init__(
        self,
        *,
        transactional_id: str = ...,
        producer_id: int = ...,
        producer_epoch: int = ...,
        group_id: str = ...,
    ) -> None: ...

class AddOffsetsToTxnResponse(Message):
    throttle_time_ms: int
    error_code: int
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        error_code: int = ...,
    ) -> None: ...

class AddPartitionsToTxnRequest(Message):
    class AddPartitionsToTxnTopic(Message):
        name: str
        partitions: list[int]
        def __init__(
            self,
            *,
            name: str = ...,
            partitions: list[int] = ...,
        ) -> None: ...

    class AddPartitionsToTxnTransaction(Message):
        transactional_id: str
        producer_id: int
        producer_epoch: int
        verify_only: bool
        topics: list[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic]
        def __init__(
            self,
            *,
            transactional_id: str = ...,
            producer_id: int = ...,
            producer_epoch: int = ...,
            verify_only: bool = ...,
            topics: list[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic] = ...,
        ) -> None: ...

    transactions: list[AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction]
    v3_and_below_transactional_id: str
    v3_and_below_producer_id: int
    v3_and_below_producer_epoch: int
    v3_and_below_topics: list[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic]
    def __init__(
        self,
        *,
        transactions: list[AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction] = ...,
        v3_and_below_transactional_id: str = ...,
        v3_and_below_producer_id: int = ...,
        v3_and_below_producer_epoch: int = ...,
        v3_and_below_topics: list[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic] = ...,
    ) -> None: ...

class AddPartitionsToTxnResponse(Message):
    class AddPartitionsToTxnPartitionResult(Message):
        partition_index: int
        partition_error_code: int
        def __init__(
            self,
            *,
            partition_index: int = ...,
            partition_error_code: int = ...,
        ) -> None: ...

    class AddPartitionsToTxnTopicResult(Message):
        name: str
        results_by_partition: list[AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult]
        def __init__(
            self,
            *,
            name: str = ...,
            results_by_partition: list[AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult] = ...,
        ) -> None: ...

    class AddPartitionsToTxnResult(Message):
        transactional_id: str
        topic_results: list[AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult]
        def __init__(
            self,
            *,
            transactional_id: str = ...,
            topic_results: list[AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult] = ...,
        ) -> None: ...

    throttle_time_ms: int
    error_code: int
    results_by_transaction: list[AddPartitionsToTxnResponse.AddPartitionsToTxnResult]
    results_by_topic_v3_and_below: list[AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        results_by_transaction: list[AddPartitionsToTxnResponse.AddPartitionsToTxnResult] = ...,
        results_by_topic_v3_and_below: list[AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult] = ...,
    ) -> None: ...

class AddRaftVoterRequest(Message):
    class Listener(Message):
        name: str
        host: str
        port: int
        def __init__(
            self,
            *,
            name: str = ...,
            host: str = ...,
            port: int = ...,
        ) -> None: ...

    cluster_id: str | None
    timeout_ms: int
    voter_id: int
    voter_directory_id: UUID
    listeners: list[AddRaftVoterRequest.Listener]
    ack_when_committed: bool
    def __init__(
        self,
        *,
        cluster_id: str | None = ...,
        timeout_ms: int = ...,
        voter_id: int = ...,
        voter_directory_id: UUID = ...,
        listeners: list[AddRaftVoterRequest.Listener] = ...,
        ack_when_committed: bool = ...,
    ) -> None: ...

class AddRaftVoterResponse(Message):
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        error_message: str | None = ...,
    ) -> None: ...

class AllocateProducerIdsRequest(Message):
    broker_id: int
    broker_epoch: int
    def __init__(
        self,
        *,
        broker_id: int = ...,
        broker_epoch: int = ...,
    ) -> None: ...

class AllocateProducerIdsResponse(Message):
    throttle_time_ms: int
    error_code: int
    producer_id_start: int
    producer_id_len: int
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        producer_id_start: int = ...,
        producer_id_len: int = ...,
    ) -> None: ...

class AlterClientQuotasRequest(Message):
    class EntityData(Message):
        entity_type: str
        entity_name: str | None
        def __init__(
            self,
            *,
            entity_type: str = ...,
            entity_name: str | None = ...,
        ) -> None: ...

    class OpData(Message):
        key: str
        value: float
        remove: bool
        def __init__(
            self,
            *,
            key: str = ...,
            value: float = ...,
            remove: bool = ...,
        ) -> None: ...

    class EntryData(Message):
        entity: list[AlterClientQuotasRequest.EntityData]
        ops: list[AlterClientQuotasRequest.OpData]
        def __init__(
            self,
            *,
            entity: list[AlterClientQuotasRequest.EntityData] = ...,
            ops: list[AlterClientQuotasRequest.OpData] = ...,
        ) -> None: ...

    entries: list[AlterClientQuotasRequest.EntryData]
    validate_only: bool
    def __init__(
        self,
        *,
        entries: list[AlterClientQuotasRequest.EntryData] = ...,
        validate_only: bool = ...,
    ) -> None: ...

class AlterClientQuotasResponse(Message):
    class EntityData(Message):
        entity_type: str
        entity_name: str | None
        def __init__(
            self,
            *,
            entity_type: str = ...,
            entity_name: str | None = ...,
        ) -> None: ...

    class EntryData(Message):
        error_code: int
        error_message: str | None
        entity: list[AlterClientQuotasResponse.EntityData]
        def __init__(
            self,
            *,
            error_code: int = ...,
            error_message: str | None = ...,
            entity: list[AlterClientQuotasResponse.EntityData] = ...,
        ) -> None: ...

    throttle_time_ms: int
    entries: list[AlterClientQuotasResponse.EntryData]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        entries: list[AlterClientQuotasResponse.EntryData] = ...,
    ) -> None: ...

class AlterConfigsRequest(Message):
    class AlterableConfig(Message):
        name: str
        value: str | None
        def __init__(
            self,
            *,
            name: str = ...,
            value: str | None = ...,
        ) -> None: ...

    class AlterConfigsResource(Message):
        resource_type: int
        resource_name: str
        configs: list[AlterConfigsRequest.AlterableConfig]
        def __init__(
            self,
            *,
            resource_type: int = ...,
            resource_name: str = ...,
            configs: list[AlterConfigsRequest.AlterableConfig] = ...,
        ) -> None: ...

    resources: list[AlterConfigsRequest.AlterConfigsResource]
    validate_only: bool
    def __init__(
        self,
        *,
        resources: list[AlterConfigsRequest.AlterConfigsResource] = ...,
        validate_only: bool = ...,
    ) -> None: ...

class AlterConfigsResponse(Message):
    class AlterConfigsResourceResponse(Message):
        error_code: int
        error_message: str | None
        resource_type: int
        resource_name: str
        def __init__(
            self,
            *,
            error_code: int = ...,
            error_message: str | None = ...,
            resource_type: int = ...,
            resource_name: str = ...,
        ) -> None: ...

    throttle_time_ms: int
    responses: list[AlterConfigsResponse.AlterConfigsResourceResponse]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        responses: list[AlterConfigsResponse.AlterConfigsResourceResponse] = ...,
    ) -> None: ...

class AlterPartitionReassignmentsRequest(Message):
    class ReassignablePartition(Message):
        partition_index: int
        replicas: list[int] | None
        def __init__(
            self,
            *,
            partition_index: int = ...,
            replicas: list[int] | None = ...,
        ) -> None: ...

    class ReassignableTopic(Message):
        name: str
        partitions: list[AlterPartitionReassignmentsRequest.ReassignablePartition]
        def __init__(
            self,
            *,
            name: str = ...,
            partitions: list[AlterPartitionReassignmentsRequest.ReassignablePartition] = ...,
        ) -> None: ...

    timeout_ms: int
    allow_replication_factor_change: bool
    topics: list[AlterPartitionReassignmentsRequest.ReassignableTopic]
    def __init__(
        self,
        *,
        timeout_ms: int = ...,
        allow_replication_factor_change: bool = ...,
        topics: list[AlterPartitionReassignmentsRequest.ReassignableTopic] = ...,
    ) -> None: ...

class AlterPartitionReassignmentsResponse(Message):
    class ReassignablePartitionResponse(Message):
        partition_index: int
        error_code: int
        error_message: str | None
        def __init__(
            self,
            *,
            partition_index: int = ...,
            error_code: int = ...,
            error_message: str | None = ...,
        ) -> None: ...

    class ReassignableTopicResponse(Message):
        name: str
        partitions: list[AlterPartitionReassignmentsResponse.ReassignablePartitionResponse]
        def __init__(
            self,
            *,
            name: str = ...,
            partitions: list[AlterPartitionReassignmentsResponse.ReassignablePartitionResponse] = ...,
        ) -> None: ...

    throttle_time_ms: int
    allow_replication_factor_change: bool
    error_code: int
    error_message: str | None
    responses: list[AlterPartitionReassignmentsResponse.ReassignableTopicResponse]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        allow_replication_factor_change: bool = ...,
        error_code: int = ...,
        error_message: str | None = ...,
        responses: list[AlterPartitionReassignmentsResponse.ReassignableTopicResponse] = ...,
    ) -> None: ...

class AlterPartitionRequest(Message):
    class BrokerState(Message):
        broker_id: int
        broker_epoch: int
        def __init__(
            self,
            *,
            broker_id: int = ...,
            broker_epoch: int = ...,
        ) -> None: ...

    class PartitionData(Message):
        partition_index: int
        leader_epoch: int
        new_isr: list[int]
        new_isr_with_epochs: list[AlterPartitionRequest.BrokerState]
        leader_recovery_state: int
        partition_epoch: int
        def __init__(
            self,
            *,
            partition_index: int = ...,
            leader_epoch: int = ...,
            new_isr: list[int] = ...,
            new_isr_with_epochs: list[AlterPartitionRequest.BrokerState] = ...,
            leader_recovery_state: int = ...,
            partition_epoch: int = ...,
        ) -> None: ...

    class TopicData(Message):
        topic_id: UUID
        partitions: list[AlterPartitionRequest.PartitionData]
        def __init__(
            self,
            *,
            topic_id: UUID = ...,
            partitions: list[AlterPartitionRequest.PartitionData] = ...,
        ) -> None: ...

    broker_id: int
    broker_epoch: int
    topics: list[AlterPartitionRequest.TopicData]
    def __init__(
        self,
        *,
        broker_id: int = ...,
        broker_epoch: int = ...,
        topics: list[AlterPartitionRequest.TopicData] = ...,
    ) -> None: ...

class AlterPartitionResponse(Message):
    class PartitionData(Message):
        partition_index: int
        error_code: int
        leader_id: int
        leader_epoch: int
        isr: list[int]
        leader_recovery_state: int
        partition_epoch: int
        def __init__(
            self,
            *,
            partition_index: int = ...,
            error_code: int = ...,
            leader_id: int = ...,
            leader_epoch: int = ...,
            isr: list[int] = ...,
            leader_recovery_state: int = ...,
            partition_epoch: int = ...,
        ) -> None: ...

    class TopicData(Message):
        topic_id: UUID
        partitions: list[AlterPartitionResponse.PartitionData]
        def __init__(
            self,
            *,
            topic_id: UUID = ...,
            partitions: list[AlterPartitionResponse.PartitionData] = ...,
        ) -> None: ...

    throttle_time_ms: int
    error_code: int
    topics: list[AlterPartitionResponse.TopicData]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        topics: list[AlterPartitionResponse.TopicData] = ...,
    ) -> None: ...

class AlterReplicaLogDirsRequest(Message):
    class AlterReplicaLogDirTopic(Message):
        name: str
        partitions: list[int]
        def __init__(
            self,
            *,
            name: str = ...,
            partitions: list[int] = ...,
        ) -> None: ...

    class AlterReplicaLogDir(Message):
        path: str
        topics: list[AlterReplicaLogDirsRequest.AlterReplicaLogDirTopic]
        def __init__(
            self,
            *,
            path: str = ...,
            topics: list[AlterReplicaLogDirsRequest.AlterReplicaLogDirTopic] = ...,
        ) -> None: ...

    dirs: list[AlterReplicaLogDirsRequest.AlterReplicaLogDir]
    def __init__(
        self,
        *,
        dirs: list[AlterReplicaLogDirsRequest.AlterReplicaLogDir] = ...,
    ) -> None: ...

class AlterReplicaLogDirsResponse(Message):
    class AlterReplicaLogDirPartitionResult(Message):
        partition_index: int
        error_code: int
        def __init__(
            self,
            *,
            partition_index: int = ...,
            error_code: int = ...,
        ) -> None: ...

    class AlterReplicaLogDirTopicResult(Message):
        topic_name: str
        partitions: list[AlterReplicaLogDirsResponse.AlterReplicaLogDirPartitionResult]
        def __init__(
            self,
            *,
            topic_name: str = ...,
            partitions: list[AlterReplicaLogDirsResponse.AlterReplicaLogDirPartitionResult] = ...,
        ) -> None: ...

    throttle_time_ms: int
    results: list[AlterReplicaLogDirsResponse.AlterReplicaLogDirTopicResult]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        results: list[AlterReplicaLogDirsResponse.AlterReplicaLogDirTopicResult] = ...,
    ) -> None: ...

class AlterShareGroupOffsetsRequest(Message):
    class AlterShareGroupOffsetsRequestPartition(Message):
        partition_index: int
        start_offset: int
        def __init__(
            self,
            *,
            partition_index: int = ...,
            start_offset: int = ...,
        ) -> None: ...

    class AlterShareGroupOffsetsRequestTopic(Message):
        topic_name: str
        partitions: list[AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestPartition]
        def __init__(
            self,
            *,
            topic_name: str = ...,
            partitions: list[AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestPartition] = ...,
        ) -> None: ...

    group_id: str
    topics: list[AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestTopic]
    def __init__(
        self,
        *,
        group_id: str = ...,
        topics: list[AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestTopic] = ...,
    ) -> None: ...

class AlterShareGroupOffsetsResponse(Message):
    class AlterShareGroupOffsetsResponsePartition(Message):
        partition_index: int
        error_code: int
        error_message: str | None
        def __init__(
            self,
            *,
            partition_index: int = ...,
            error_code: int = ...,
            error_message: str | None = ...,
        ) -> None: ...

    class AlterShareGroupOffsetsResponseTopic(Message):
        topic_name: str
        topic_id: UUID
        partitions: list[AlterShareGroupOffsetsResponse.AlterShareGroupOffsetsResponsePartition]
        def __init__(
            self,
            *,
            topic_name: str = ...,
            topic_id: UUID = ...,
            partitions: list[AlterShareGroupOffsetsResponse.AlterShareGroupOffsetsResponsePartition] = ...,
        ) -> None: ...

    throttle_time_ms: int
    error_code: int
    error_message: str | None
    responses: list[AlterShareGroupOffsetsResponse.AlterShareGroupOffsetsResponseTopic]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        error_message: str | None = ...,
        responses: list[AlterShareGroupOffsetsResponse.AlterShareGroupOffsetsResponseTopic] = ...,
    ) -> None: ...

class AlterUserScramCredentialsRequest(Message):
    class ScramCredentialDeletion(Message):
        name: str
        mechanism: int
        def __init__(
            self,
            *,
            name: str = ...,
            mechanism: int = ...,
        ) -> None: ...

    class ScramCredentialUpsertion(Message):
        name: str
        mechanism: int
        iterations: int
        salt: bytes
        salted_password: bytes
        def __init__(
            self,
            *,
            name: str = ...,
            mechanism: int = ...,
            iterations: int = ...,
            salt: bytes = ...,
            salted_password: bytes = ...,
        ) -> None: ...

    deletions: list[AlterUserScramCredentialsRequest.ScramCredentialDeletion]
    upsertions: list[AlterUserScramCredentialsRequest.ScramCredentialUpsertion]
    def __init__(
        self,
        *,
        deletions: list[AlterUserScramCredentialsRequest.ScramCredentialDeletion] = ...,
        upsertions: list[AlterUserScramCredentialsRequest.ScramCredentialUpsertion] = ...,
    ) -> None: ...

class AlterUserScramCredentialsResponse(Message):
    class AlterUserScramCredentialsResult(Message):
        user: str
        error_code: int
        error_message: str | None
        def __init__(
            self,
            *,
            user: str = ...,
            error_code: int = ...,
            error_message: str | None = ...,
        ) -> None: ...

    throttle_time_ms: int
    results: list[AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        results: list[AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult] = ...,
    ) -> None: ...

class ApiVersionsRequest(Message):
    client_software_name: str
    client_software_version: str
    def __init__(
        self,
        *,
        client_software_name: str = ...,
        client_software_version: str = ...,
    ) -> None: ...

class ApiVersionsResponse(Message):
    class ApiVersion(Message):
        api_key: int
        min_version: int
        max_version: int
        def __init__(
            self,
            *,
            api_key: int = ...,
            min_version: int = ...,
            max_version: int = ...,
        ) -> None: ...

    class SupportedFeatureKey(Message):
        name: str
        min_version: int
        max_version: int
        def __init__(
            self,
            *,
            name: str = ...,
            min_version: int = ...,
            max_version: int = ...,
        ) -> None: ...

    class FinalizedFeatureKey(Message):
        name: str
        max_version_level: int
        min_version_level: int
        def __init__(
            self,
            *,
            name: str = ...,
            max_version_level: int = ...,
            min_version_level: int = ...,
        ) -> None: ...

    error_code: int
    api_keys: list[ApiVersionsResponse.ApiVersion]
    throttle_time_ms: int
    supported_features: list[ApiVersionsResponse.SupportedFeatureKey]
    finalized_features_epoch: int
    finalized_features: list[ApiVersionsResponse.FinalizedFeatureKey]
    zk_migration_ready: bool
    def __init__(
        self,
        *,
        error_code: int = ...,
        api_keys: list[ApiVersionsResponse.ApiVersion] = ...,
        throttle_time_ms: int = ...,
        supported_features: list[ApiVersionsResponse.SupportedFeatureKey] = ...,
        finalized_features_epoch: int = ...,
        finalized_features: list[ApiVersionsResponse.FinalizedFeatureKey] = ...,
        zk_migration_ready: bool = ...,
    ) -> None: ...

class AssignReplicasToDirsRequest(Message):
    class PartitionData(Message):
        partition_index: int
        def __init__(
            self,
            *,
            partition_index: int = ...,
        ) -> None: ...

    class TopicData(Message):
        topic_id: UUID
        partitions: list[AssignReplicasToDirsRequest.PartitionData]
        def __init__(
            self,
            *,
            topic_id: UUID = ...,
            partitions: list[AssignReplicasToDirsRequest.PartitionData] = ...,
        ) -> None: ...

    class DirectoryData(Message):
        id: UUID
        topics: list[AssignReplicasToDirsRequest.TopicData]
        def __init__(
            self,
            *,
            id: UUID = ...,
            topics: list[AssignReplicasToDirsRequest.TopicData] = ...,
        ) -> None: ...

    broker_id: int
    broker_epoch: int
    directories: list[AssignReplicasToDirsRequest.DirectoryData]
    def __init__(
        self,
        *,
        broker_id: int = ...,
        broker_epoch: int = ...,
        directories: list[AssignReplicasToDirsRequest.DirectoryData] = ...,
    ) -> None: ...

class AssignReplicasToDirsResponse(Message):
    class PartitionData(Message):
        partition_index: int
        error_code: int
        def __init__(
            self,
            *,
            partition_index: int = ...,
            error_code: int = ...,
        ) -> None: ...

    class TopicData(Message):
        topic_id: UUID
        partitions: list[AssignReplicasToDirsResponse.PartitionData]
        def __init__(
            self,
            *,
            topic_id: UUID = ...,
            partitions: list[AssignReplicasToDirsResponse.PartitionData] = ...,
        ) -> None: ...

    class DirectoryData(Message):
        id: UUID
        topics: list[AssignReplicasToDirsResponse.TopicData]
        def __init__(
            self,
            *,
            id: UUID = ...,
            topics: list[AssignReplicasToDirsResponse.TopicData] = ...,
        ) -> None: ...

    throttle_time_ms: int
    error_code: int
    directories: list[AssignReplicasToDirsResponse.DirectoryData]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        directories: list[AssignReplicasToDirsResponse.DirectoryData] = ...,
    ) -> None: ...

class BeginQuorumEpochRequest(Message):
    class PartitionData(Message):
        partition_index: int
        voter_directory_id: UUID
        leader_id: int
        leader_epoch: int
        def __init__(
            self,
            *,
            partition_index: int = ...,
            voter_directory_id: UUID = ...,
            leader_id: int = ...,
            leader_epoch: int = ...,
        ) -> None: ...

    class TopicData(Message):
        topic_name: str
        partitions: list[BeginQuorumEpochRequest.PartitionData]
        def __init__(
            self,
            *,
            topic_name: str = ...,
            partitions: list[BeginQuorumEpochRequest.PartitionData] = ...,
        ) -> None: ...

    class LeaderEndpoint(Message):
        name: str
        host: str
        port: int
        def __init__(
            self,
            *,
            name: str = ...,
            host: str = ...,
            port: int = ...,
        ) -> None: ...

    cluster_id: str | None
    voter_id: int
    topics: list[BeginQuorumEpochRequest.TopicData]
    leader_endpoints: list[BeginQuorumEpochRequest.LeaderEndpoint]
    def __init__(
        self,
        *,
        cluster_id: str | None = ...,
        voter_id: int = ...,
        topics: list[BeginQuorumEpochRequest.TopicData] = ...,
        leader_endpoints: list[BeginQuorumEpochRequest.LeaderEndpoint] = ...,
    ) -> None: ...

class BeginQuorumEpochResponse(Message):
    class PartitionData(Message):
        partition_index: int
        error_code: int
        leader_id: int
        leader_epoch: int
        def __init__(
            self,
            *,
            partition_index: int = ...,
            error_code: int = ...,
            leader_id: int = ...,
            leader_epoch: int = ...,
        ) -> None: ...

    class TopicData(Message):
        topic_name: str
        partitions: list[BeginQuorumEpochResponse.PartitionData]
        def __init__(
            self,
            *,
            topic_name: str = ...,
            partitions: list[BeginQuorumEpochResponse.PartitionData] = ...,
        ) -> None: ...

    class NodeEndpoint(Message):
        node_id: int
        host: str
        port: int
        def __init__(
            self,
            *,
            node_id: int = ...,
            host: str = ...,
            port: int = ...,
        ) -> None: ...

    error_code: int
    topics: list[BeginQuorumEpochResponse.TopicData]
    node_endpoints: list[BeginQuorumEpochResponse.NodeEndpoint]
    def __init__(
        self,
        *,
        error_code: int = ...,
        topics: list[BeginQuorumEpochResponse.TopicData] = ...,
        node_endpoints: list[BeginQuorumEpochResponse.NodeEndpoint] = ...,
    ) -> None: ...

class BeginTransactionRecord(Message):
    name: str | None
    def __init__(
        self,
        *,
        name: str | None = ...,
    ) -> None: ...

class BrokerHeartbeatRequest(Message):
    broker_id: int
    broker_epoch: int
    current_metadata_offset: int
    want_fence: bool
    want_shut_down: bool
    offline_log_dirs: list[UUID]
    cordoned_log_dirs: list[UUID] | None
    def __init__(
        self,
        *,
        broker_id: int = ...,
        broker_epoch: int = ...,
        current_metadata_offset: int = ...,
        want_fence: bool = ...,
        want_shut_down: bool = ...,
        offline_log_dirs: list[UUID] = ...,
        cordoned_log_dirs: list[UUID] | None = ...,
    ) -> None: ...

class BrokerHeartbeatResponse(Message):
    throttle_time_ms: int
    error_code: int
    is_caught_up: bool
    is_fenced: bool
    should_shut_down: bool
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        is_caught_up: bool = ...,
        is_fenced: bool = ...,
        should_shut_down: bool = ...,
    ) -> None: ...

class BrokerRegistrationChangeRecord(Message):
    broker_id: int
    broker_epoch: int
    fenced: int
    in_controlled_shutdown: int
    log_dirs: list[UUID]
    cordoned_log_dirs: list[UUID] | None
    def __init__(
        self,
        *,
        broker_id: int = ...,
        broker_epoch: int = ...,
        fenced: int = ...,
        in_controlled_shutdown: int = ...,
        log_dirs: list[UUID] = ...,
        cordoned_log_dirs: list[UUID] | None = ...,
    ) -> None: ...

class BrokerRegistrationRequest(Message):
    class Listener(Message):
        name: str
        host: str
        port: int
        security_protocol: int
        def __init__(
            self,
            *,
            name: str = ...,
            host: str = ...,
            port: int = ...,
            security_protocol: int = ...,
        ) -> None: ...

    class Feature(Message):
        name: str
        min_supported_version: int
        max_supported_version: int
        def __init__(
            self,
            *,
            name: str = ...,
            min_supported_version: int = ...,
            max_supported_version: int = ...,
        ) -> None: ...

    broker_id: int
    cluster_id: str
    incarnation_id: UUID
    listeners: list[BrokerRegistrationRequest.Listener]
    features: list[BrokerRegistrationRequest.Feature]
    rack: str | None
    is_migrating_zk_broker: bool
    log_dirs: list[UUID]
    previous_broker_epoch: int
    def __init__(
        self,
        *,
        broker_id: int = ...,
        cluster_id: str = ...,
        incarnation_id: UUID = ...,
        listeners: list[BrokerRegistrationRequest.Listener] = ...,
        features: list[BrokerRegistrationRequest.Feature] = ...,
        rack: str | None = ...,
        is_migrating_zk_broker: bool = ...,
        log_dirs: list[UUID] = ...,
        previous_broker_epoch: int = ...,
    ) -> None: ...

class BrokerRegistrationResponse(Message):
    throttle_time_ms: int
    error_code: int
    broker_epoch: int
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        broker_epoch: int = ...,
    ) -> None: ...

class ClearElrRecord(Message):
    topic_name: str
    def __init__(
        self,
        *,
        topic_name: str = ...,
    ) -> None: ...

class ClientQuotaRecord(Message):
    class EntityData(Message):
        entity_type: str
        entity_name: str | None
        def __init__(
            self,
            *,
            entity_type: str = ...,
            entity_name: str | None = ...,
        ) -> None: ...

    entity: list[ClientQuotaRecord.EntityData]
    key: str
    value: float
    remove: bool
    def __init__(
        self,
        *,
        entity: list[ClientQuotaRecord.EntityData] = ...,
        key: str = ...,
        value: float = ...,
        remove: bool = ...,
    ) -> None: ...

class ConfigRecord(Message):
    resource_type: int
    resource_name: str
    name: str
    value: str | None
    def __init__(
        self,
        *,
        resource_type: int = ...,
        resource_name: str = ...,
        name: str = ...,
        value: str | None = ...,
    ) -> None: ...

class ConsumerGroupCurrentMemberAssignmentKey(Message):
    group_id: str
    member_id: str
    def __init__(
        self,
        *,
        group_id: str = ...,
        member_id: str = ...,
    ) -> None: ...

class ConsumerGroupCurrentMemberAssignmentValue(Message):
    class TopicPartitions(Message):
        topic_id: UUID
        partitions: list[int]
        assignment_epochs: list[int] | None
        def __init__(
            self,
            *,
            topic_id: UUID = ...,
            partitions: list[int] = ...,
            assignment_epochs: list[int] | None = ...,
        ) -> None: ...

    member_epoch: int
    previous_member_epoch: int
    state: int
    assigned_partitions: list[ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions]
    partitions_pending_revocation: list[ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions]
    def __init__(
        self,
        *,
        member_epoch: int = ...,
        previous_member_epoch: int = ...,
        state: int = ...,
        assigned_partitions: list[ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions] = ...,
        partitions_pending_revocation: list[ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions] = ...,
    ) -> None: ...

class ConsumerGroupDescribeRequest(Message):
    group_ids: list[str]
    include_authorized_operations: bool
    def __init__(
        self,
        *,
        group_ids: list[str] = ...,
        include_authorized_operations: bool = ...,
    ) -> None: ...

class ConsumerGroupDescribeResponse(Message):
    class TopicPartitions(Message):
        topic_id: UUID
        topic_name: str
        partitions: list[int]
        def __init__(
            self,
            *,
            topic_id: UUID = ...,
            topic_name: str = ...,
            partitions: list[int] = ...,
        ) -> None: ...

    class Assignment(Message):
        topic_partitions: list[ConsumerGroupDescribeResponse.TopicPartitions]
        def __init__(
            self,
            *,
            topic_partitions: list[ConsumerGroupDescribeResponse.TopicPartitions] = ...,
        ) -> None: ...

    class Member(Message):
        member_id: str
        instance_id: str | None
        rack_id: str | None
        member_epoch: int
        client_id: str
        client_host: str
        subscribed_topic_names: list[str]
        subscribed_topic_regex: str | None
        assignment: ConsumerGroupDescribeResponse.Assignment
        target_assignment: ConsumerGroupDescribeResponse.Assignment
        member_type: int
        def __init__(
            self,
            *,
            member_id: str = ...,
            instance_id: str | None = ...,
            rack_id: str | None = ...,
            member_epoch: int = ...,
            client_id: str = ...,
            client_host: str = ...,
            subscribed_topic_names: list[str] = ...,
            subscribed_topic_regex: str | None = ...,
            assignment: ConsumerGroupDescribeResponse.Assignment = ...,
            target_assignment: ConsumerGroupDescribeResponse.Assignment = ...,
            member_type: int = ...,
        ) -> None: ...

    class DescribedGroup(Message):
        error_code: int
        error_message: str | None
        group_id: str
        group_state: str
        group_epoch: int
        assignment_epoch: int
        assignor_name: str
        members: list[ConsumerGroupDescribeResponse.Member]
        authorized_operations: int
        def __init__(
            self,
            *,
            error_code: int = ...,
            error_message: str | None = ...,
            group_id: str = ...,
            group_state: str = ...,
            group_epoch: int = ...,
            assignment_epoch: int = ...,
            assignor_name: str = ...,
            members: list[ConsumerGroupDescribeResponse.Member] = ...,
            authorized_operations: int = ...,
        ) -> None: ...

    throttle_time_ms: int
    groups: list[ConsumerGroupDescribeResponse.DescribedGroup]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        groups: list[ConsumerGroupDescribeResponse.DescribedGroup] = ...,
    ) -> None: ...

class ConsumerGroupHeartbeatRequest(Message):
    class TopicPartitions(Message):
        topic_id: UUID
        partitions: list[int]
        def __init__(
            self,
            *,
            topic_id: UUID = ...,
            partitions: list[int] = ...,
        ) -> None: ...

    group_id: str
    member_id: str
    member_epoch: int
    instance_id: str | None
    rack_id: str | None
    rebalance_timeout_ms: int
    subscribed_topic_names: list[str] | None
    subscribed_topic_regex: str | None
    server_assignor: str | None
    topic_partitions: list[ConsumerGroupHeartbeatRequest.TopicPartitions] | None
    def __init__(
        self,
        *,
        group_id: str = ...,
        member_id: str = ...,
        member_epoch: int = ...,
        instance_id: str | None = ...,
        rack_id: str | None = ...,
        rebalance_timeout_ms: int = ...,
        subscribed_topic_names: list[str] | None = ...,
        subscribed_topic_regex: str | None = ...,
        server_assignor: str | None = ...,
        topic_partitions: list[ConsumerGroupHeartbeatRequest.TopicPartitions] | None = ...,
    ) -> None: ...

class ConsumerGroupHeartbeatResponse(Message):
    class TopicPartitions(Message):
        topic_id: UUID
        partitions: list[int]
        def __init__(
            self,
            *,
            topic_id: UUID = ...,
            partitions: list[int] = ...,
        ) -> None: ...

    class Assignment(Message):
        topic_partitions: list[ConsumerGroupHeartbeatResponse.TopicPartitions]
        def __init__(
            self,
            *,
            topic_partitions: list[ConsumerGroupHeartbeatResponse.TopicPartitions] = ...,
        ) -> None: ...

    throttle_time_ms: int
    error_code: int
    error_message: str | None
    member_id: str | None
    member_epoch: int
    heartbeat_interval_ms: int
    assignment: ConsumerGroupHeartbeatResponse.Assignment | None
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        error_message: str | None = ...,
        member_id: str | None = ...,
        member_epoch: int = ...,
        heartbeat_interval_ms: int = ...,
        assignment: ConsumerGroupHeartbeatResponse.Assignment | None = ...,
    ) -> None: ...

class ConsumerGroupMemberMetadataKey(Message):
    group_id: str
    member_id: str
    def __init__(
        self,
        *,
        group_id: str = ...,
        member_id: str = ...,
    ) -> None: ...

class ConsumerGroupMemberMetadataValue(Message):
    class ClassicProtocol(Message):
        name: str
        metadata: bytes
        def __init__(
            self,
            *,
            name: str = ...,
            metadata: bytes = ...,
        ) -> None: ...

    class ClassicMemberMetadata(Message):
        session_timeout_ms: int
        supported_protocols: list[ConsumerGroupMemberMetadataValue.ClassicProtocol]
        def __init__(
            self,
            *,
            session_timeout_ms: int = ...,
            supported_protocols: list[ConsumerGroupMemberMetadataValue.ClassicProtocol] = ...,
        ) -> None: ...

    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    subscribed_topic_names: list[str]
    subscribed_topic_regex: str | None
    rebalance_timeout_ms: int
    server_assignor: str | None
    classic_member_metadata: ConsumerGroupMemberMetadataValue.ClassicMemberMetadata | None
    def __init__(
        self,
        *,
        instance_id: str | None = ...,
        rack_id: str | None = ...,
        client_id: str = ...,
        client_host: str = ...,
        subscribed_topic_names: list[str] = ...,
        subscribed_topic_regex: str | None = ...,
        rebalance_timeout_ms: int = ...,
        server_assignor: str | None = ...,
        classic_member_metadata: ConsumerGroupMemberMetadataValue.ClassicMemberMetadata | None = ...,
    ) -> None: ...

class ConsumerGroupMetadataKey(Message):
    group_id: str
    def __init__(
        self,
        *,
        group_id: str = ...,
    ) -> None: ...

class ConsumerGroupMetadataValue(Message):
    epoch: int
    metadata_hash: int
    def __init__(
        self,
        *,
        epoch: int = ...,
        metadata_hash: int = ...,
    ) -> None: ...

class ConsumerGroupPartitionMetadataKey(Message):
    group_id: str
    def __init__(
        self,
        *,
        group_id: str = ...,
    ) -> None: ...

class ConsumerGroupPartitionMetadataValue(Message):
    class PartitionMetadata(Message):
        partition: int
        racks: list[str]
        def __init__(
            self,
            *,
            partition: int = ...,
            racks: list[str] = ...,
        ) -> None: ...

    class TopicMetadata(Message):
        topic_id: UUID
        topic_name: str
        num_partitions: int
        partition_metadata: list[ConsumerGroupPartitionMetadataValue.PartitionMetadata]
        def __init__(
            self,
            *,
            topic_id: UUID = ...,
            topic_name: str = ...,
            num_partitions: int = ...,
            partition_metadata: list[ConsumerGroupPartitionMetadataValue.PartitionMetadata] = ...,
        ) -> None: ...

    topics: list[ConsumerGroupPartitionMetadataValue.TopicMetadata]
    def __init__(
        self,
        *,
        topics: list[ConsumerGroupPartitionMetadataValue.TopicMetadata] = ...,
    ) -> None: ...

class ConsumerGroupRegularExpressionKey(Message):
    group_id: str
    regular_expression: str
    def __init__(
        self,
        *,
        group_id: str = ...,
        regular_expression: str = ...,
    ) -> None: ...

class ConsumerGroupRegularExpressionValue(Message):
    topics: list[str]
    version: int
    timestamp: int
    def __init__(
        self,
        *,
        topics: list[str] = ...,
        version: int = ...,
        timestamp: int = ...,
    ) -> None: ...

class ConsumerGroupTargetAssignmentMemberKey(Message):
    group_id: str
    member_id: str
    def __init__(
        self,
        *,
        group_id: str = ...,
        member_id: str = ...,
    ) -> None: ...

class ConsumerGroupTargetAssignmentMemberValue(Message):
    class TopicPartition(Message):
        topic_id: UUID
        partitions: list[int]
        def __init__(
            self,
            *,
            topic_id: UUID = ...,
            partitions: list[int] = ...,
        ) -> None: ...

    topic_partitions: list[ConsumerGroupTargetAssignmentMemberValue.TopicPartition]
    def __init__(
        self,
        *,
        topic_partitions: list[ConsumerGroupTargetAssignmentMemberValue.TopicPartition] = ...,
    ) -> None: ...

class ConsumerGroupTargetAssignmentMetadataKey(Message):
    group_id: str
    def __init__(
        self,
        *,
        group_id: str = ...,
    ) -> None: ...

class ConsumerGroupTargetAssignmentMetadataValue(Message):
    assignment_epoch: int
    assignment_timestamp: int
    def __init__(
        self,
        *,
        assignment_epoch: int = ...,
        assignment_timestamp: int = ...,
    ) -> None: ...

class ConsumerProtocolAssignment(Message):
    class TopicPartition(Message):
        topic: str
        partitions: list[int]
        def __init__(
            self,
            *,
            topic: str = ...,
            partitions: list[int] = ...,
        ) -> None: ...

    assigned_partitions: list[ConsumerProtocolAssignment.TopicPartition]
    user_data: bytes | None
    def __init__(
        self,
        *,
        assigned_partitions: list[ConsumerProtocolAssignment.TopicPartition] = ...,
        user_data: bytes | None = ...,
    ) -> None: ...

class ConsumerProtocolSubscription(Message):
    class TopicPartition(Message):
        topic: str
        partitions: list[int]
        def __init__(
            self,
            *,
            topic: str = ...,
            partitions: list[int] = ...,
        ) -> None: ...

    topics: list[str]
    user_data: bytes | None
    owned_partitions: list[ConsumerProtocolSubscription.TopicPartition]
    generation_id: int
    rack_id: str | None
    def __init__(
        self,
        *,
        topics: list[str] = ...,
        user_data: bytes | None = ...,
        owned_partitions: list[ConsumerProtocolSubscription.TopicPartition] = ...,
        generation_id: int = ...,
        rack_id: str | None = ...,
    ) -> None: ...

class ControlRecordTypeSchema(Message):
    type: int
    def __init__(
        self,
        *,
        type: int = ...,
    ) -> None: ...

class ControllerRegistrationRequest(Message):
    class Listener(Message):
        name: str
        host: str
        port: int
        security_protocol: int
        def __init__(
            self,
            *,
            name: str = ...,
            host: str = ...,
            port: int = ...,
            security_protocol: int = ...,
        ) -> None: ...

    class Feature(Message):
        name: str
        min_supported_version: int
        max_supported_version: int
        def __init__(
            self,
            *,
            name: str = ...,
            min_supported_version: int = ...,
            max_supported_version: int = ...,
        ) -> None: ...

    controller_id: int
    incarnation_id: UUID
    zk_migration_ready: bool
    listeners: list[ControllerRegistrationRequest.Listener]
    features: list[ControllerRegistrationRequest.Feature]
    def __init__(
        self,
        *,
        controller_id: int = ...,
        incarnation_id: UUID = ...,
        zk_migration_ready: bool = ...,
        listeners: list[ControllerRegistrationRequest.Listener] = ...,
        features: list[ControllerRegistrationRequest.Feature] = ...,
    ) -> None: ...

class ControllerRegistrationResponse(Message):
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        error_message: str | None = ...,
    ) -> None: ...

class CreateAclsRequest(Message):
    class AclCreation(Message):
        resource_type: int
        resource_name: str
        resource_pattern_type: int
        principal: str
        host: str
        operation: int
        permission_type: int
        def __init__(
            self,
            *,
            resource_type: int = ...,
            resource_name: str = ...,
            resource_pattern_type: int = ...,
            principal: str = ...,
            host: str = ...,
            operation: int = ...,
            permission_type: int = ...,
        ) -> None: ...

    creations: list[CreateAclsRequest.AclCreation]
    def __init__(
        self,
        *,
        creations: list[CreateAclsRequest.AclCreation] = ...,
    ) -> None: ...

class CreateAclsResponse(Message):
    class AclCreationResult(Message):
        error_code: int
        error_message: str | None
        def __init__(
            self,
            *,
            error_code: int = ...,
            error_message: str | None = ...,
        ) -> None: ...

    throttle_time_ms: int
    results: list[CreateAclsResponse.AclCreationResult]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        results: list[CreateAclsResponse.AclCreationResult] = ...,
    ) -> None: ...

class CreateDelegationTokenRequest(Message):
    class CreatableRenewers(Message):
        principal_type: str
        principal_name: str
        def __init__(
            self,
            *,
            principal_type: str = ...,
            principal_name: str = ...,
        ) -> None: ...

    owner_principal_type: str | None
    owner_principal_name: str | None
    renewers: list[CreateDelegationTokenRequest.CreatableRenewers]
    max_lifetime_ms: int
    def __init__(
        self,
        *,
        owner_principal_type: str | None = ...,
        owner_principal_name: str | None = ...,
        renewers: list[CreateDelegationTokenRequest.CreatableRenewers] = ...,
        max_lifetime_ms: int = ...,
    ) -> None: ...

class CreateDelegationTokenResponse(Message):
    error_code: int
    principal_type: str
    principal_name: str
    token_requester_principal_type: str
    token_requester_principal_name: str
    issue_timestamp_ms: int
    expiry_timestamp_ms: int
    max_timestamp_ms: int
    token_id: str
    hmac: bytes
    throttle_time_ms: int
    def __init__(
        self,
        *,
        error_code: int = ...,
        principal_type: str = ...,
        principal_name: str = ...,
        token_requester_principal_type: str = ...,
        token_requester_principal_name: str = ...,
        issue_timestamp_ms: int = ...,
        expiry_timestamp_ms: int = ...,
        max_timestamp_ms: int = ...,
        token_id: str = ...,
        hmac: bytes = ...,
        throttle_time_ms: int = ...,
    ) -> None: ...

class CreatePartitionsRequest(Message):
    class CreatePartitionsAssignment(Message):
        broker_ids: list[int]
        def __init__(
            self,
            *,
            broker_ids: list[int] = ...,
        ) -> None: ...

    class CreatePartitionsTopic(Message):
        name: str
        count: int
        assignments: list[CreatePartitionsRequest.CreatePartitionsAssignment] | None
        def __init__(
            self,
            *,
            name: str = ...,
            count: int = ...,
            assignments: list[CreatePartitionsRequest.CreatePartitionsAssignment] | None = ...,
        ) -> None: ...

    topics: list[CreatePartitionsRequest.CreatePartitionsTopic]
    timeout_ms: int
    validate_only: bool
    def __init__(
        self,
        *,
        topics: list[CreatePartitionsRequest.CreatePartitionsTopic] = ...,
        timeout_ms: int = ...,
        validate_only: bool = ...,
    ) -> None: ...

class CreatePartitionsResponse(Message):
    class CreatePartitionsTopicResult(Message):
        name: str
        error_code: int
        error_message: str | None
        def __init__(
            self,
            *,
            name: str = ...,
            error_code: int = ...,
            error_message: str | None = ...,
        ) -> None: ...

    throttle_time_ms: int
    results: list[CreatePartitionsResponse.CreatePartitionsTopicResult]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        results: list[CreatePartitionsResponse.CreatePartitionsTopicResult] = ...,
    ) -> None: ...

class CreateTopicsRequest(Message):
    class CreatableReplicaAssignment(Message):
        partition_index: int
        broker_ids: list[int]
        def __init__(
            self,
            *,
            partition_index: int = ...,
            broker_ids: list[int] = ...,
        ) -> None: ...

    class CreatableTopicConfig(Message):
        name: str
        value: str | None
        def __init__(
            self,
            *,
            name: str = ...,
            value: str | None = ...,
        ) -> None: ...

    class CreatableTopic(Message):
        name: str
        num_partitions: int
        replication_factor: int
        assignments: list[CreateTopicsRequest.CreatableReplicaAssignment]
        configs: list[CreateTopicsRequest.CreatableTopicConfig]
        def __init__(
            self,
            *,
            name: str = ...,
            num_partitions: int = ...,
            replication_factor: int = ...,
            assignments: list[CreateTopicsRequest.CreatableReplicaAssignment] = ...,
            configs: list[CreateTopicsRequest.CreatableTopicConfig] = ...,
        ) -> None: ...

    topics: list[CreateTopicsRequest.CreatableTopic]
    timeout_ms: int
    validate_only: bool
    def __init__(
        self,
        *,
        topics: list[CreateTopicsRequest.CreatableTopic] = ...,
        timeout_ms: int = ...,
        validate_only: bool = ...,
    ) -> None: ...

class CreateTopicsResponse(Message):
    class CreatableTopicConfigs(Message):
        name: str
        value: str | None
        read_only: bool
        config_source: int
        is_sensitive: bool
        def __init__(
            self,
            *,
            name: str = ...,
            value: str | None = ...,
            read_only: bool = ...,
            config_source: int = ...,
            is_sensitive: bool = ...,
        ) -> None: ...

    class CreatableTopicResult(Message):
        name: str
        topic_id: UUID
        error_code: int
        error_message: str | None
        topic_config_error_code: int
        num_partitions: int
        replication_factor: int
        configs: list[CreateTopicsResponse.CreatableTopicConfigs] | None
        def __init__(
            self,
            *,
            name: str = ...,
            topic_id: UUID = ...,
            error_code: int = ...,
            error_message: str | None = ...,
            topic_config_error_code: int = ...,
            num_partitions: int = ...,
            replication_factor: int = ...,
            configs: list[CreateTopicsResponse.CreatableTopicConfigs] | None = ...,
        ) -> None: ...

    throttle_time_ms: int
    topics: list[CreateTopicsResponse.CreatableTopicResult]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        topics: list[CreateTopicsResponse.CreatableTopicResult] = ...,
    ) -> None: ...

class DefaultPrincipalData(Message):
    type: str
    name: str
    token_authenticated: bool
    def __init__(
        self,
        *,
        type: str = ...,
        name: str = ...,
        token_authenticated: bool = ...,
    ) -> None: ...

class DelegationTokenRecord(Message):
    owner: str
    requester: str
    renewers: list[str]
    issue_timestamp: int
    max_timestamp: int
    expiration_timestamp: int
    token_id: str
    def __init__(
        self,
        *,
        owner: str = ...,
        requester: str = ...,
        renewers: list[str] = ...,
        issue_timestamp: int = ...,
        max_timestamp: int = ...,
        expiration_timestamp: int = ...,
        token_id: str = ...,
    ) -> None: ...

class DeleteAclsRequest(Message):
    class DeleteAclsFilter(Message):
        resource_type_filter: int
        resource_name_filter: str | None
        pattern_type_filter: int
        principal_filter: str | None
        host_filter: str | None
        operation: int
        permission_type: int
        def __init__(
            self,
            *,
            resource_type_filter: int = ...,
            resource_name_filter: str | None = ...,
            pattern_type_filter: int = ...,
            principal_filter: str | None = ...,
            host_filter: str | None = ...,
            operation: int = ...,
            permission_type: int = ...,
        ) -> None: ...

    filters: list[DeleteAclsRequest.DeleteAclsFilter]
    def __init__(
        self,
        *,
        filters: list[DeleteAclsRequest.DeleteAclsFilter] = ...,
    ) -> None: ...

class DeleteAclsResponse(Message):
    class DeleteAclsMatchingAcl(Message):
        error_code: int
        error_message: str | None
        resource_type: int
        resource_name: str
        pattern_type: int
        principal: str
        host: str
        operation: int
        permission_type: int
        def __init__(
            self,
            *,
            error_code: int = ...,
            error_message: str | None = ...,
            resource_type: int = ...,
            resource_name: str = ...,
            pattern_type: int = ...,
            principal: str = ...,
            host: str = ...,
            operation: int = ...,
            permission_type: int = ...,
        ) -> None: ...

    class DeleteAclsFilterResult(Message):
        error_code: int
        error_message: str | None
        matching_acls: list[DeleteAclsResponse.DeleteAclsMatchingAcl]
        def __init__(
            self,
            *,
            error_code: int = ...,
            error_message: str | None = ...,
            matching_acls: list[DeleteAclsResponse.DeleteAclsMatchingAcl] = ...,
        ) -> None: ...

    throttle_time_ms: int
    filter_results: list[DeleteAclsResponse.DeleteAclsFilterResult]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        filter_results: list[DeleteAclsResponse.DeleteAclsFilterResult] = ...,
    ) -> None: ...

class DeleteGroupsRequest(Message):
    groups_names: list[str]
    def __init__(
        self,
        *,
        groups_names: list[str] = ...,
    ) -> None: ...

class DeleteGroupsResponse(Message):
    class DeletableGroupResult(Message):
        group_id: str
        error_code: int
        def __init__(
            self,
            *,
            group_id: str = ...,
            error_code: int = ...,
        ) -> None: ...

    throttle_time_ms: int
    results: list[DeleteGroupsResponse.DeletableGroupResult]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        results: list[DeleteGroupsResponse.DeletableGroupResult] = ...,
    ) -> None: ...

class DeleteRecordsRequest(Message):
    class DeleteRecordsPartition(Message):
        partition_index: int
        offset: int
        def __init__(
            self,
            *,
            partition_index: int = ...,
            offset: int = ...,
        ) -> None: ...

    class DeleteRecordsTopic(Message):
        name: str
        partitions: list[DeleteRecordsRequest.DeleteRecordsPartition]
        def __init__(
            self,
            *,
            name: str = ...,
            partitions: list[DeleteRecordsRequest.DeleteRecordsPartition] = ...,
        ) -> None: ...

    topics: list[DeleteRecordsRequest.DeleteRecordsTopic]
    timeout_ms: int
    def __init__(
        self,
        *,
        topics: list[DeleteRecordsRequest.DeleteRecordsTopic] = ...,
        timeout_ms: int = ...,
    ) -> None: ...

class DeleteRecordsResponse(Message):
    class DeleteRecordsPartitionResult(Message):
        partition_index: int
        low_watermark: int
        error_code: int
        def __init__(
            self,
            *,
            partition_index: int = ...,
            low_watermark: int = ...,
            error_code: int = ...,
        ) -> None: ...

    class DeleteRecordsTopicResult(Message):
        name: str
        partitions: list[DeleteRecordsResponse.DeleteRecordsPartitionResult]
        def __init__(
            self,
            *,
            name: str = ...,
            partitions: list[DeleteRecordsResponse.DeleteRecordsPartitionResult] = ...,
        ) -> None: ...

    throttle_time_ms: int
    topics: list[DeleteRecordsResponse.DeleteRecordsTopicResult]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        topics: list[DeleteRecordsResponse.DeleteRecordsTopicResult] = ...,
    ) -> None: ...

class DeleteShareGroupOffsetsRequest(Message):
    class DeleteShareGroupOffsetsRequestTopic(Message):
        topic_name: str
        def __init__(
            self,
            *,
            topic_name: str = ...,
        ) -> None: ...

    group_id: str
    topics: list[DeleteShareGroupOffsetsRequest.DeleteShareGroupOffsetsRequestTopic]
    def __init__(
        self,
        *,
        group_id: str = ...,
        topics: list[DeleteShareGroupOffsetsRequest.DeleteShareGroupOffsetsRequestTopic] = ...,
    ) -> None: ...

class DeleteShareGroupOffsetsResponse(Message):
    class DeleteShareGroupOffsetsResponseTopic(Message):
        topic_name: str
        topic_id: UUID
        error_code: int
        error_message: str | None
        def __init__(
            self,
            *,
            topic_name: str = ...,
            topic_id: UUID = ...,
            error_code: int = ...,
            error_message: str | None = ...,
        ) -> None: ...

    throttle_time_ms: int
    error_code: int
    error_message: str | None
    responses: list[DeleteShareGroupOffsetsResponse.DeleteShareGroupOffsetsResponseTopic]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        error_message: str | None = ...,
        responses: list[DeleteShareGroupOffsetsResponse.DeleteShareGroupOffsetsResponseTopic] = ...,
    ) -> None: ...

class DeleteShareGroupStateRequest(Message):
    class PartitionData(Message):
        partition: int
        def __init__(
            self,
            *,
            partition: int = ...,
        ) -> None: ...

    class DeleteStateData(Message):
        topic_id: UUID
        partitions: list[DeleteShareGroupStateRequest.PartitionData]
        def __init__(
            self,
            *,
            topic_id: UUID = ...,
            partitions: list[DeleteShareGroupStateRequest.PartitionData] = ...,
        ) -> None: ...

    group_id: str
    topics: list[DeleteShareGroupStateRequest.DeleteStateData]
    def __init__(
        self,
        *,
        group_id: str = ...,
        topics: list[DeleteShareGroupStateRequest.DeleteStateData] = ...,
    ) -> None: ...

class DeleteShareGroupStateResponse(Message):
    class PartitionResult(Message):
        partition: int
        error_code: int
        error_message: str | None
        def __init__(
            self,
            *,
            partition: int = ...,
            error_code: int = ...,
            error_message: str | None = ...,
        ) -> None: ...

    class DeleteStateResult(Message):
        topic_id: UUID
        partitions: list[DeleteShareGroupStateResponse.PartitionResult]
        def __init__(
            self,
            *,
            topic_id: UUID = ...,
            partitions: list[DeleteShareGroupStateResponse.PartitionResult] = ...,
        ) -> None: ...

    results: list[DeleteShareGroupStateResponse.DeleteStateResult]
    def __init__(
        self,
        *,
        results: list[DeleteShareGroupStateResponse.DeleteStateResult] = ...,
    ) -> None: ...

class DeleteTopicsRequest(Message):
    class DeleteTopicState(Message):
        name: str | None
        topic_id: UUID
        def __init__(
            self,
            *,
            name: str | None = ...,
            topic_id: UUID = ...,
        ) -> None: ...

    topics: list[DeleteTopicsRequest.DeleteTopicState]
    topic_names: list[str]
    timeout_ms: int
    def __init__(
        self,
        *,
        topics: list[DeleteTopicsRequest.DeleteTopicState] = ...,
        topic_names: list[str] = ...,
        timeout_ms: int = ...,
    ) -> None: ...

class DeleteTopicsResponse(Message):
    class DeletableTopicResult(Message):
        name: str | None
        topic_id: UUID
        error_code: int
        error_message: str | None
        def __init__(
            self,
            *,
            name: str | None = ...,
            topic_id: UUID = ...,
            error_code: int = ...,
            error_message: str | None = ...,
        ) -> None: ...

    throttle_time_ms: int
    responses: list[DeleteTopicsResponse.DeletableTopicResult]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        responses: list[DeleteTopicsResponse.DeletableTopicResult] = ...,
    ) -> None: ...

class DescribeAclsRequest(Message):
    resource_type_filter: int
    resource_name_filter: str | None
    pattern_type_filter: int
    principal_filter: str | None
    host_filter: str | None
    operation: int
    permission_type: int
    def __init__(
        self,
        *,
        resource_type_filter: int = ...,
        resource_name_filter: str | None = ...,
        pattern_type_filter: int = ...,
        principal_filter: str | None = ...,
        host_filter: str | None = ...,
        operation: int = ...,
        permission_type: int = ...,
    ) -> None: ...

class DescribeAclsResponse(Message):
    class AclDescription(Message):
        principal: str
        host: str
        operation: int
        permission_type: int
        def __init__(
            self,
            *,
            principal: str = ...,
            host: str = ...,
            operation: int = ...,
            permission_type: int = ...,
        ) -> None: ...

    class DescribeAclsResource(Message):
        resource_type: int
        resource_name: str
        pattern_type: int
        acls: list[DescribeAclsResponse.AclDescription]
        def __init__(
            self,
            *,
            resource_type: int = ...,
            resource_name: str = ...,
            pattern_type: int = ...,
            acls: list[DescribeAclsResponse.AclDescription] = ...,
        ) -> None: ...

    throttle_time_ms: int
    error_code: int
    error_message: str | None
    resources: list[DescribeAclsResponse.DescribeAclsResource]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        error_message: str | None = ...,
        resources: list[DescribeAclsResponse.DescribeAclsResource] = ...,
    ) -> None: ...

class DescribeClientQuotasRequest(Message):
    class ComponentData(Message):
        entity_type: str
        match_type: int
        match: str | None
        def __init__(
            self,
            *,
            entity_type: str = ...,
            match_type: int = ...,
            match: str | None = ...,
        ) -> None: ...

    components: list[DescribeClientQuotasRequest.ComponentData]
    strict: bool
    def __init__(
        self,
        *,
        components: list[DescribeClientQuotasRequest.ComponentData] = ...,
        strict: bool = ...,
    ) -> None: ...

class DescribeClientQuotasResponse(Message):
    class EntityData(Message):
        entity_type: str
        entity_name: str | None
        def __init__(
            self,
            *,
            entity_type: str = ...,
            entity_name: str | None = ...,
        ) -> None: ...

    class ValueData(Message):
        key: str
        value: float
        def __init__(
            self,
            *,
            key: str = ...,
            value: float = ...,
        ) -> None: ...

    class EntryData(Message):
        entity: list[DescribeClientQuotasResponse.EntityData]
        values: list[DescribeClientQuotasResponse.ValueData]
        def __init__(
            self,
            *,
            entity: list[DescribeClientQuotasResponse.EntityData] = ...,
            values: list[DescribeClientQuotasResponse.ValueData] = ...,
        ) -> None: ...

    throttle_time_ms: int
    error_code: int
    error_message: str | None
    entries: list[DescribeClientQuotasResponse.EntryData] | None
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        error_message: str | None = ...,
        entries: list[DescribeClientQuotasResponse.EntryData] | None = ...,
    ) -> None: ...

class DescribeClusterRequest(Message):
    include_cluster_authorized_operations: bool
    endpoint_type: int
    include_fenced_brokers: bool
    def __init__(
        self,
        *,
        include_cluster_authorized_operations: bool = ...,
        endpoint_type: int = ...,
        include_fenced_brokers: bool = ...,
    ) -> None: ...

class DescribeClusterResponse(Message):
    class DescribeClusterBroker(Message):
        broker_id: int
        host: str
        port: int
        rack: str | None
        is_fenced: bool
        def __init__(
            self,
            *,
            broker_id: int = ...,
            host: str = ...,
            port: int = ...,
            rack: str | None = ...,
            is_fenced: bool = ...,
        ) -> None: ...

    throttle_time_ms: int
    error_code: int
    error_message: str | None
    endpoint_type: int
    cluster_id: str
    controller_id: int
    brokers: list[DescribeClusterResponse.DescribeClusterBroker]
    cluster_authorized_operations: int
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        error_message: str | None = ...,
        endpoint_type: int = ...,
        cluster_id: str = ...,
        controller_id: int = ...,
        brokers: list[DescribeClusterResponse.DescribeClusterBroker] = ...,
        cluster_authorized_operations: int = ...,
    ) -> None: ...

class DescribeConfigsRequest(Message):
    class DescribeConfigsResource(Message):
        resource_type: int
        resource_name: str
        configuration_keys: list[str] | None
        def __init__(
            self,
            *,
            resource_type: int = ...,
            resource_name: str = ...,
            configuration_keys: list[str] | None = ...,
        ) -> None: ...

    resources: list[DescribeConfigsRequest.DescribeConfigsResource]
    include_synonyms: bool
    include_documentation: bool
    def __init__(
        self,
        *,
        resources: list[DescribeConfigsRequest.DescribeConfigsResource] = ...,
        include_synonyms: bool = ...,
        include_documentation: bool = ...,
    ) -> None: ...

class DescribeConfigsResponse(Message):
    class DescribeConfigsSynonym(Message):
        name: str
        value: str | None
        source: int
        def __init__(
            self,
            *,
            name: str = ...,
            value: str | None = ...,
            source: int = ...,
        ) -> None: ...

    class DescribeConfigsResourceResult(Message):
        name: str
        value: str | None
        read_only: bool
        config_source: int
        is_sensitive: bool
        synonyms: list[DescribeConfigsResponse.DescribeConfigsSynonym]
        config_type: int
        documentation: str | None
        def __init__(
            self,
            *,
            name: str = ...,
            value: str | None = ...,
            read_only: bool = ...,
            config_source: int = ...,
            is_sensitive: bool = ...,
            synonyms: list[DescribeConfigsResponse.DescribeConfigsSynonym] = ...,
            config_type: int = ...,
            documentation: str | None = ...,
        ) -> None: ...

    class DescribeConfigsResult(Message):
        error_code: int
        error_message: str | None
        resource_type: int
        resource_name: str
        configs: list[DescribeConfigsResponse.DescribeConfigsResourceResult]
        def __init__(
            self,
            *,
            error_code: int = ...,
            error_message: str | None = ...,
            resource_type: int = ...,
            resource_name: str = ...,
            configs: list[DescribeConfigsResponse.DescribeConfigsResourceResult] = ...,
        ) -> None: ...

    throttle_time_ms: int
    results: list[DescribeConfigsResponse.DescribeConfigsResult]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        results: list[DescribeConfigsResponse.DescribeConfigsResult] = ...,
    ) -> None: ...

class DescribeDelegationTokenRequest(Message):
    class DescribeDelegationTokenOwner(Message):
        principal_type: str
        principal_name: str
        def __init__(
            self,
            *,
            principal_type: str = ...,
            principal_name: str = ...,
        ) -> None: ...

    owners: list[DescribeDelegationTokenRequest.DescribeDelegationTokenOwner] | None
    def __init__(
        self,
        *,
        owners: list[DescribeDelegationTokenRequest.DescribeDelegationTokenOwner] | None = ...,
    ) -> None: ...

class DescribeDelegationTokenResponse(Message):
    class DescribedDelegationTokenRenewer(Message):
        principal_type: str
        principal_name: str
        def __init__(
            self,
            *,
            principal_type: str = ...,
            principal_name: str = ...,
        ) -> None: ...

    class DescribedDelegationToken(Message):
        principal_type: str
        principal_name: str
        token_requester_principal_type: str
        token_requester_principal_name: str
        issue_timestamp: int
        expiry_timestamp: int
        max_timestamp: int
        token_id: str
        hmac: bytes
        renewers: list[DescribeDelegationTokenResponse.DescribedDelegationTokenRenewer]
        def __init__(
            self,
            *,
            principal_type: str = ...,
            principal_name: str = ...,
            token_requester_principal_type: str = ...,
            token_requester_principal_name: str = ...,
            issue_timestamp: int = ...,
            expiry_timestamp: int = ...,
            max_timestamp: int = ...,
            token_id: str = ...,
            hmac: bytes = ...,
            renewers: list[DescribeDelegationTokenResponse.DescribedDelegationTokenRenewer] = ...,
        ) -> None: ...

    error_code: int
    tokens: list[DescribeDelegationTokenResponse.DescribedDelegationToken]
    throttle_time_ms: int
    def __init__(
        self,
        *,
        error_code: int = ...,
        tokens: list[DescribeDelegationTokenResponse.DescribedDelegationToken] = ...,
        throttle_time_ms: int = ...,
    ) -> None: ...

class DescribeGroupsRequest(Message):
    groups: list[str]
    include_authorized_operations: bool
    def __init__(
        self,
        *,
        groups: list[str] = ...,
        include_authorized_operations: bool = ...,
    ) -> None: ...

class DescribeGroupsResponse(Message):
    class DescribedGroupMember(Message):
        member_id: str
        group_instance_id: str | None
        client_id: str
        client_host: str
        member_metadata: bytes
        member_assignment: bytes
        def __init__(
            self,
            *,
            member_id: str = ...,
            group_instance_id: str | None = ...,
            client_id: str = ...,
            client_host: str = ...,
            member_metadata: bytes = ...,
            member_assignment: bytes = ...,
        ) -> None: ...

    class DescribedGroup(Message):
        error_code: int
        error_message: str | None
        group_id: str
        group_state: str
        protocol_type: str
        protocol_data: str
        members: list[DescribeGroupsResponse.DescribedGroupMember]
        authorized_operations: int
        def __init__(
            self,
            *,
            error_code: int = ...,
            error_message: str | None = ...,
            group_id: str = ...,
            group_state: str = ...,
            protocol_type: str = ...,
            protocol_data: str = ...,
            members: list[DescribeGroupsResponse.DescribedGroupMember] = ...,
            authorized_operations: int = ...,
        ) -> None: ...

    throttle_time_ms: int
    groups: list[DescribeGroupsResponse.DescribedGroup]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        groups: list[DescribeGroupsResponse.DescribedGroup] = ...,
    ) -> None: ...

class DescribeLogDirsRequest(Message):
    class DescribableLogDirTopic(Message):
        topic: str
        partitions: list[int]
        def __init__(
            self,
            *,
            topic: str = ...,
            partitions: list[int] = ...,
        ) -> None: ...

    topics: list[DescribeLogDirsRequest.DescribableLogDirTopic] | None
    def __init__(
        self,
        *,
        topics: list[DescribeLogDirsRequest.DescribableLogDirTopic] | None = ...,
    ) -> None: ...

class DescribeLogDirsResponse(Message):
    class DescribeLogDirsPartition(Message):
        partition_index: int
        partition_size: int
        offset_lag: int
        is_future_key: bool
        def __init__(
            self,
            *,
            partition_index: int = ...,
            partition_size: int = ...,
            offset_lag: int = ...,
            is_future_key: bool = ...,
        ) -> None: ...

    class DescribeLogDirsTopic(Message):
        name: str
        partitions: list[DescribeLogDirsResponse.DescribeLogDirsPartition]
        def __init__(
            self,
            *,
            name: str = ...,
            partitions: list[DescribeLogDirsResponse.DescribeLogDirsPartition] = ...,
        ) -> None: ...

    class DescribeLogDirsResult(Message):
        error_code: int
        log_dir: str
        topics: list[DescribeLogDirsResponse.DescribeLogDirsTopic]
        total_bytes: int
        usable_bytes: int
        is_cordoned: bool
        def __init__(
            self,
            *,
            error_code: int = ...,
            log_dir: str = ...,
            topics: list[DescribeLogDirsResponse.DescribeLogDirsTopic] = ...,
            total_bytes: int = ...,
            usable_bytes: int = ...,
            is_cordoned: bool = ...,
        ) -> None: ...

    throttle_time_ms: int
    error_code: int
    results: list[DescribeLogDirsResponse.DescribeLogDirsResult]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        results: list[DescribeLogDirsResponse.DescribeLogDirsResult] = ...,
    ) -> None: ...

class DescribeProducersRequest(Message):
    class TopicRequest(Message):
        name: str
        partition_indexes: list[int]
        def __init__(
            self,
            *,
            name: str = ...,
            partition_indexes: list[int] = ...,
        ) -> None: ...

    topics: list[DescribeProducersRequest.TopicRequest]
    def __init__(
        self,
        *,
        topics: list[DescribeProducersRequest.TopicRequest] = ...,
    ) -> None: ...

class DescribeProducersResponse(Message):
    class ProducerState(Message):
        producer_id: int
        producer_epoch: int
        last_sequence: int
        last_timestamp: int
        coordinator_epoch: int
        current_txn_start_offset: int
        def __init__(
            self,
            *,
            producer_id: int = ...,
            producer_epoch: int = ...,
            last_sequence: int = ...,
            last_timestamp: int = ...,
            coordinator_epoch: int = ...,
            current_txn_start_offset: int = ...,
        ) -> None: ...

    class PartitionResponse(Message):
        partition_index: int
        error_code: int
        error_message: str | None
        active_producers: list[DescribeProducersResponse.ProducerState]
        def __init__(
            self,
            *,
            partition_index: int = ...,
            error_code: int = ...,
            error_message: str | None = ...,
            active_producers: list[DescribeProducersResponse.ProducerState] = ...,
        ) -> None: ...

    class TopicResponse(Message):
        name: str
        partitions: list[DescribeProducersResponse.PartitionResponse]
        def __init__(
            self,
            *,
            name: str = ...,
            partitions: list[DescribeProducersResponse.PartitionResponse] = ...,
        ) -> None: ...

    throttle_time_ms: int
    topics: list[DescribeProducersResponse.TopicResponse]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        topics: list[DescribeProducersResponse.TopicResponse] = ...,
    ) -> None: ...

class DescribeQuorumRequest(Message):
    class PartitionData(Message):
        partition_index: int
        def __init__(
            self,
            *,
            partition_index: int = ...,
        ) -> None: ...

    class TopicData(Message):
        topic_name: str
        partitions: list[DescribeQuorumRequest.PartitionData]
        def __init__(
            self,
            *,
            topic_name: str = ...,
            partitions: list[DescribeQuorumRequest.PartitionData] = ...,
        ) -> None: ...

    topics: list[DescribeQuorumRequest.TopicData]
    def __init__(
        self,
        *,
        topics: list[DescribeQuorumRequest.TopicData] = ...,
    ) -> None: ...

class DescribeQuorumResponse(Message):
    class ReplicaState(Message):
        replica_id: int
        replica_directory_id: UUID
        log_end_offset: int
        last_fetch_timestamp: int
        last_caught_up_timestamp: int
        def __init__(
            self,
            *,
            replica_id: int = ...,
            replica_directory_id: UUID = ...,
            log_end_offset: int = ...,
            last_fetch_timestamp: int = ...,
            last_caught_up_timestamp: int = ...,
        ) -> None: ...

    class PartitionData(Message):
        partition_index: int
        error_code: int
        error_message: str | None
        leader_id: int
        leader_epoch: int
        high_watermark: int
        current_voters: list[DescribeQuorumResponse.ReplicaState]
        observers: list[DescribeQuorumResponse.ReplicaState]
        def __init__(
            self,
            *,
            partition_index: int = ...,
            error_code: int = ...,
            error_message: str | None = ...,
            leader_id: int = ...,
            leader_epoch: int = ...,
            high_watermark: int = ...,
            current_voters: list[DescribeQuorumResponse.ReplicaState] = ...,
            observers: list[DescribeQuorumResponse.ReplicaState] = ...,
        ) -> None: ...

    class TopicData(Message):
        topic_name: str
        partitions: list[DescribeQuorumResponse.PartitionData]
        def __init__(
            self,
            *,
            topic_name: str = ...,
            partitions: list[DescribeQuorumResponse.PartitionData] = ...,
        ) -> None: ...

    class Listener(Message):
        name: str
        host: str
        port: int
        def __init__(
            self,
            *,
            name: str = ...,
            host: str = ...,
            port: int = ...,
        ) -> None: ...

    class Node(Message):
        node_id: int
        listeners: list[DescribeQuorumResponse.Listener]
        def __init__(
            self,
            *,
            node_id: int = ...,
            listeners: list[DescribeQuorumResponse.Listener] = ...,
        ) -> None: ...

    error_code: int
    error_message: str | None
    topics: list[DescribeQuorumResponse.TopicData]
    nodes: list[DescribeQuorumResponse.Node]
    def __init__(
        self,
        *,
        error_code: int = ...,
        error_message: str | None = ...,
        topics: list[DescribeQuorumResponse.TopicData] = ...,
        nodes: list[DescribeQuorumResponse.Node] = ...,
    ) -> None: ...

class DescribeShareGroupOffsetsRequest(Message):
    class DescribeShareGroupOffsetsRequestTopic(Message):
        topic_name: str
        partitions: list[int]
        def __init__(
            self,
            *,
            topic_name: str = ...,
            partitions: list[int] = ...,
        ) -> None: ...

    class DescribeShareGroupOffsetsRequestGroup(Message):
        group_id: str
        topics: list[DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestTopic] | None
        def __init__(
            self,
            *,
            group_id: str = ...,
            topics: list[DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestTopic] | None = ...,
        ) -> None: ...

    groups: list[DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup]
    def __init__(
        self,
        *,
        groups: list[DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup] = ...,
    ) -> None: ...

class DescribeShareGroupOffsetsResponse(Message):
    class DescribeShareGroupOffsetsResponsePartition(Message):
        partition_index: int
        start_offset: int
        leader_epoch: int
        lag: int
        error_code: int
        error_message: str | None
        def __init__(
            self,
            *,
            partition_index: int = ...,
            start_offset: int = ...,
            leader_epoch: int = ...,
            lag: int = ...,
            error_code: int = ...,
            error_message: str | None = ...,
        ) -> None: ...

    class DescribeShareGroupOffsetsResponseTopic(Message):
        topic_name: str
        topic_id: UUID
        partitions: list[DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponsePartition]
        def __init__(
            self,
            *,
            topic_name: str = ...,
            topic_id: UUID = ...,
            partitions: list[DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponsePartition] = ...,
        ) -> None: ...

    class DescribeShareGroupOffsetsResponseGroup(Message):
        group_id: str
        topics: list[DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseTopic]
        error_code: int
        error_message: str | None
        def __init__(
            self,
            *,
            group_id: str = ...,
            topics: list[DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseTopic] = ...,
            error_code: int = ...,
            error_message: str | None = ...,
        ) -> None: ...

    throttle_time_ms: int
    groups: list[DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseGroup]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        groups: list[DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseGroup] = ...,
    ) -> None: ...

class DescribeTopicPartitionsRequest(Message):
    class TopicRequest(Message):
        name: str
        def __init__(
            self,
            *,
            name: str = ...,
        ) -> None: ...

    class Cursor(Message):
        topic_name: str
        partition_index: int
        def __init__(
            self,
            *,
            topic_name: str = ...,
            partition_index: int = ...,
        ) -> None: ...

    topics: list[DescribeTopicPartitionsRequest.TopicRequest]
    response_partition_limit: int
    cursor: DescribeTopicPartitionsRequest.Cursor | None
    def __init__(
        self,
        *,
        topics: list[DescribeTopicPartitionsRequest.TopicRequest] = ...,
        response_partition_limit: int = ...,
        cursor: DescribeTopicPartitionsRequest.Cursor | None = ...,
    ) -> None: ...

class DescribeTopicPartitionsResponse(Message):
    class DescribeTopicPartitionsResponsePartition(Message):
        error_code: int
        partition_index: int
        leader_id: int
        leader_epoch: int
        replica_nodes: list[int]
        isr_nodes: list[int]
        eligible_leader_replicas: list[int] | None
        last_known_elr: list[int] | None
        offline_replicas: list[int]
        def __init__(
            self,
            *,
            error_code: int = ...,
            partition_index: int = ...,
            leader_id: int = ...,
            leader_epoch: int = ...,
            replica_nodes: list[int] = ...,
            isr_nodes: list[int] = ...,
            eligible_leader_replicas: list[int] | None = ...,
            last_known_elr: list[int] | None = ...,
            offline_replicas: list[int] = ...,
        ) -> None: ...

    class DescribeTopicPartitionsResponseTopic(Message):
        error_code: int
        name: str | None
        topic_id: UUID
        is_internal: bool
        partitions: list[DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponsePartition]
        topic_authorized_operations: int
        def __init__(
            self,
            *,
            error_code: int = ...,
            name: str | None = ...,
            topic_id: UUID = ...,
            is_internal: bool = ...,
            partitions: list[DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponsePartition] = ...,
            topic_authorized_operations: int = ...,
        ) -> None: ...

    class Cursor(Message):
        topic_name: str
        partition_index: int
        def __init__(
            self,
            *,
            topic_name: str = ...,
            partition_index: int = ...,
        ) -> None: ...

    throttle_time_ms: int
    topics: list[DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic]
    next_cursor: DescribeTopicPartitionsResponse.Cursor | None
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        topics: list[DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic] = ...,
        next_cursor: DescribeTopicPartitionsResponse.Cursor | None = ...,
    ) -> None: ...

class DescribeTransactionsRequest(Message):
    transactional_ids: list[str]
    def __init__(
        self,
        *,
        transactional_ids: list[str] = ...,
    ) -> None: ...

class DescribeTransactionsResponse(Message):
    class TopicData(Message):
        topic: str
        partitions: list[int]
        def __init__(
            self,
            *,
            topic: str = ...,
            partitions: list[int] = ...,
        ) -> None: ...

    class TransactionState(Message):
        error_code: int
        transactional_id: str
        transaction_state: str
        transaction_timeout_ms: int
        transaction_start_time_ms: int
        producer_id: int
        producer_epoch: int
        topics: list[DescribeTransactionsResponse.TopicData]
        def __init__(
            self,
            *,
            error_code: int = ...,
            transactional_id: str = ...,
            transaction_state: str = ...,
            transaction_timeout_ms: int = ...,
            transaction_start_time_ms: int = ...,
            producer_id: int = ...,
            producer_epoch: int = ...,
            topics: list[DescribeTransactionsResponse.TopicData] = ...,
        ) -> None: ...

    throttle_time_ms: int
    transaction_states: list[DescribeTransactionsResponse.TransactionState]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        transaction_states: list[DescribeTransactionsResponse.TransactionState] = ...,
    ) -> None: ...

class DescribeUserScramCredentialsRequest(Message):
    class UserName(Message):
        name: str
        def __init__(
            self,
            *,
            name: str = ...,
        ) -> None: ...

    users: list[DescribeUserScramCredentialsRequest.UserName] | None
    def __init__(
        self,
        *,
        users: list[DescribeUserScramCredentialsRequest.UserName] | None = ...,
    ) -> None: ...

class DescribeUserScramCredentialsResponse(Message):
    class CredentialInfo(Message):
        mechanism: int
        iterations: int
        def __init__(
            self,
            *,
            mechanism: int = ...,
            iterations: int = ...,
        ) -> None: ...

    class DescribeUserScramCredentialsResult(Message):
        user: str
        error_code: int
        error_message: str | None
        credential_infos: list[DescribeUserScramCredentialsResponse.CredentialInfo]
        def __init__(
            self,
            *,
            user: str = ...,
            error_code: int = ...,
            error_message: str | None = ...,
            credential_infos: list[DescribeUserScramCredentialsResponse.CredentialInfo] = ...,
        ) -> None: ...

    throttle_time_ms: int
    error_code: int
    error_message: str | None
    results: list[DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        error_message: str | None = ...,
        results: list[DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult] = ...,
    ) -> None: ...

class ElectLeadersRequest(Message):
    class TopicPartitions(Message):
        topic: str
        partitions: list[int]
        def __init__(
            self,
            *,
            topic: str = ...,
            partitions: list[int] = ...,
        ) -> None: ...

    election_type: int
    topic_partitions: list[ElectLeadersRequest.TopicPartitions] | None
    timeout_ms: int
    def __init__(
        self,
        *,
        election_type: int = ...,
        topic_partitions: list[ElectLeadersRequest.TopicPartitions] | None = ...,
        timeout_ms: int = ...,
    ) -> None: ...

class ElectLeadersResponse(Message):
    class PartitionResult(Message):
        partition_id: int
        error_code: int
        error_message: str | None
        def __init__(
            self,
            *,
            partition_id: int = ...,
            error_code: int = ...,
            error_message: str | None = ...,
        ) -> None: ...

    class ReplicaElectionResult(Message):
        topic: str
        partition_result: list[ElectLeadersResponse.PartitionResult]
        def __init__(
            self,
            *,
            topic: str = ...,
            partition_result: list[ElectLeadersResponse.PartitionResult] = ...,
        ) -> None: ...

    throttle_time_ms: int
    error_code: int
    replica_election_results: list[ElectLeadersResponse.ReplicaElectionResult]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        replica_election_results: list[ElectLeadersResponse.ReplicaElectionResult] = ...,
    ) -> None: ...

class EndQuorumEpochRequest(Message):
    class ReplicaInfo(Message):
        candidate_id: int
        candidate_directory_id: UUID
        def __init__(
            self,
            *,
            candidate_id: int = ...,
            candidate_directory_id: UUID = ...,
        ) -> None: ...

    class PartitionData(Message):
        partition_index: int
        leader_id: int
        leader_epoch: int
        preferred_successors: list[int]
        preferred_candidates: list[EndQuorumEpochRequest.ReplicaInfo]
        def __init__(
            self,
            *,
            partition_index: int = ...,
            leader_id: int = ...,
            leader_epoch: int = ...,
            preferred_successors: list[int] = ...,
            preferred_candidates: list[EndQuorumEpochRequest.ReplicaInfo] = ...,
        ) -> None: ...

    class TopicData(Message):
        topic_name: str
        partitions: list[EndQuorumEpochRequest.PartitionData]
        def __init__(
            self,
            *,
            topic_name: str = ...,
            partitions: list[EndQuorumEpochRequest.PartitionData] = ...,
        ) -> None: ...

    class LeaderEndpoint(Message):
        name: str
        host: str
        port: int
        def __init__(
            self,
            *,
            name: str = ...,
            host: str = ...,
            port: int = ...,
        ) -> None: ...

    cluster_id: str | None
    topics: list[EndQuorumEpochRequest.TopicData]
    leader_endpoints: list[EndQuorumEpochRequest.LeaderEndpoint]
    def __init__(
        self,
        *,
        cluster_id: str | None = ...,
        topics: list[EndQuorumEpochRequest.TopicData] = ...,
        leader_endpoints: list[EndQuorumEpochRequest.LeaderEndpoint] = ...,
    ) -> None: ...

class EndQuorumEpochResponse(Message):
    class PartitionData(Message):
        partition_index: int
        error_code: int
        leader_id: int
        leader_epoch: int
        def __init__(
            self,
            *,
            partition_index: int = ...,
            error_code: int = ...,
            leader_id: int = ...,
            leader_epoch: int = ...,
        ) -> None: ...

    class TopicData(Message):
        topic_name: str
        partitions: list[EndQuorumEpochResponse.PartitionData]
        def __init__(
            self,
            *,
            topic_name: str = ...,
            partitions: list[EndQuorumEpochResponse.PartitionData] = ...,
        ) -> None: ...

    class NodeEndpoint(Message):
        node_id: int
        host: str
        port: int
        def __init__(
            self,
            *,
            node_id: int = ...,
            host: str = ...,
            port: int = ...,
        ) -> None: ...

    error_code: int
    topics: list[EndQuorumEpochResponse.TopicData]
    node_endpoints: list[EndQuorumEpochResponse.NodeEndpoint]
    def __init__(
        self,
        *,
        error_code: int = ...,
        topics: list[EndQuorumEpochResponse.TopicData] = ...,
        node_endpoints: list[EndQuorumEpochResponse.NodeEndpoint] = ...,
    ) -> None: ...

class EndTransactionRecord(Message): ...

class EndTxnMarker(Message):
    coordinator_epoch: int
    def __init__(
        self,
        *,
        coordinator_epoch: int = ...,
    ) -> None: ...

class EndTxnRequest(Message):
    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool
    def __init__(
        self,
        *,
        transactional_id: str = ...,
        producer_id: int = ...,
        producer_epoch: int = ...,
        committed: bool = ...,
    ) -> None: ...

class EndTxnResponse(Message):
    throttle_time_ms: int
    error_code: int
    producer_id: int
    producer_epoch: int
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        producer_id: int = ...,
        producer_epoch: int = ...,
    ) -> None: ...

class EnvelopeRequest(Message):
    request_data: bytes
    request_principal: bytes | None
    client_host_address: bytes
    def __init__(
        self,
        *,
        request_data: bytes = ...,
        request_principal: bytes | None = ...,
        client_host_address: bytes = ...,
    ) -> None: ...

class EnvelopeResponse(Message):
    response_data: bytes | None
    error_code: int
    def __init__(
        self,
        *,
        response_data: bytes | None = ...,
        error_code: int = ...,
    ) -> None: ...

class ExpireDelegationTokenRequest(Message):
    hmac: bytes
    expiry_time_period_ms: int
    def __init__(
        self,
        *,
        hmac: bytes = ...,
        expiry_time_period_ms: int = ...,
    ) -> None: ...

class ExpireDelegationTokenResponse(Message):
    error_code: int
    expiry_timestamp_ms: int
    throttle_time_ms: int
    def __init__(
        self,
        *,
        error_code: int = ...,
        expiry_timestamp_ms: int = ...,
        throttle_time_ms: int = ...,
    ) -> None: ...

class FeatureLevelRecord(Message):
    name: str
    feature_level: int
    def __init__(
        self,
        *,
        name: str = ...,
        feature_level: int = ...,
    ) -> None: ...

class FenceBrokerRecord(Message):
    id: int
    epoch: int
    def __init__(
        self,
        *,
        id: int = ...,
        epoch: int = ...,
    ) -> None: ...

class FetchRequest(Message):
    class ReplicaState(Message):
        replica_id: int
        replica_epoch: int
        def __init__(
            self,
            *,
            replica_id: int = ...,
            replica_epoch: int = ...,
        ) -> None: ...

    class FetchPartition(Message):
        partition: int
        current_leader_epoch: int
        fetch_offset: int
        last_fetched_epoch: int
        log_start_offset: int
        partition_max_bytes: int
        replica_directory_id: UUID
        high_watermark: int
        def __init__(
            self,
            *,
            partition: int = ...,
            current_leader_epoch: int = ...,
            fetch_offset: int = ...,
            last_fetched_epoch: int = ...,
            log_start_offset: int = ...,
            partition_max_bytes: int = ...,
            replica_directory_id: UUID = ...,
            high_watermark: int = ...,
        ) -> None: ...

    class FetchTopic(Message):
        topic: str
        topic_id: UUID
        partitions: list[FetchRequest.FetchPartition]
        def __init__(
            self,
            *,
            topic: str = ...,
            topic_id: UUID = ...,
            partitions: list[FetchRequest.FetchPartition] = ...,
        ) -> None: ...

    class ForgottenTopic(Message):
        topic: str
        topic_id: UUID
        partitions: list[int]
        def __init__(
            self,
            *,
            topic: str = ...,
            topic_id: UUID = ...,
            partitions: list[int] = ...,
        ) -> None: ...

    cluster_id: str | None
    replica_id: int
    replica_state: FetchRequest.ReplicaState
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    session_id: int
    session_epoch: int
    topics: list[FetchRequest.FetchTopic]
    forgotten_topics_data: list[FetchRequest.ForgottenTopic]
    rack_id: str
    def __init__(
        self,
        *,
        cluster_id: str | None = ...,
        replica_id: int = ...,
        replica_state: FetchRequest.ReplicaState = ...,
        max_wait_ms: int = ...,
        min_bytes: int = ...,
        max_bytes: int = ...,
        isolation_level: int = ...,
        session_id: int = ...,
        session_epoch: int = ...,
        topics: list[FetchRequest.FetchTopic] = ...,
        forgotten_topics_data: list[FetchRequest.ForgottenTopic] = ...,
        rack_id: str = ...,
    ) -> None: ...

class FetchResponse(Message):
    class EpochEndOffset(Message):
        epoch: int
        end_offset: int
        def __init__(
            self,
            *,
            epoch: int = ...,
            end_offset: int = ...,
        ) -> None: ...

    class LeaderIdAndEpoch(Message):
        leader_id: int
        leader_epoch: int
        def __init__(
            self,
            *,
            leader_id: int = ...,
            leader_epoch: int = ...,
        ) -> None: ...

    class SnapshotId(Message):
        end_offset: int
        epoch: int
        def __init__(
            self,
            *,
            end_offset: int = ...,
            epoch: int = ...,
        ) -> None: ...

    class AbortedTransaction(Message):
        producer_id: int
        first_offset: int
        def __init__(
            self,
            *,
            producer_id: int = ...,
            first_offset: int = ...,
        ) -> None: ...

    class PartitionData(Message):
        partition_index: int
        error_code: int
        high_watermark: int
        last_stable_offset: int
        log_start_offset: int
        diverging_epoch: FetchResponse.EpochEndOffset
        current_leader: FetchResponse.LeaderIdAndEpoch
        snapshot_id: FetchResponse.SnapshotId
        aborted_transactions: list[FetchResponse.AbortedTransaction] | None
        preferred_read_replica: int
        records: memoryview | None
        def __init__(
            self,
            *,
            partition_index: int = ...,
            error_code: int = ...,
            high_watermark: int = ...,
            last_stable_offset: int = ...,
            log_start_offset: int = ...,
            diverging_epoch: FetchResponse.EpochEndOffset = ...,
            current_leader: FetchResponse.LeaderIdAndEpoch = ...,
            snapshot_id: FetchResponse.SnapshotId = ...,
            aborted_transactions: list[FetchResponse.AbortedTransaction] | None = ...,
            preferred_read_replica: int = ...,
            records: Buffer | None = ...,
        ) -> None: ...

    class FetchableTopicResponse(Message):
        topic: str
        topic_id: UUID
        partitions: list[FetchResponse.PartitionData]
        def __init__(
            self,
            *,
            topic: str = ...,
            topic_id: UUID = ...,
            partitions: list[FetchResponse.PartitionData] = ...,
        ) -> None: ...

    class NodeEndpoint(Message):
        node_id: int
        host: str
        port: int
        rack: str | None
        def __init__(
            self,
            *,
            node_id: int = ...,
            host: str = ...,
            port: int = ...,
            rack: str | None = ...,
        ) -> None: ...

    throttle_time_ms: int
    error_code: int
    session_id: int
    responses: list[FetchResponse.FetchableTopicResponse]
    node_endpoints: list[FetchResponse.NodeEndpoint]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        session_id: int = ...,
        responses: list[FetchResponse.FetchableTopicResponse] = ...,
        node_endpoints: list[FetchResponse.NodeEndpoint] = ...,
    ) -> None: ...

class FetchSnapshotRequest(Message):
    class SnapshotId(Message):
        end_offset: int
        epoch: int
        def __init__(
            self,
            *,
            end_offset: int = ...,
            epoch: int = ...,
        ) -> None: ...

    class PartitionSnapshot(Message):
        partition: int
        current_leader_epoch: int
        snapshot_id: FetchSnapshotRequest.SnapshotId
        position: int
        replica_directory_id: UUID
        def __init__(
            self,
            *,
            partition: int = ...,
            current_leader_epoch: int = ...,
            snapshot_id: FetchSnapshotRequest.SnapshotId = ...,
            position: int = ...,
            replica_directory_id: UUID = ...,
        ) -> None: ...

    class TopicSnapshot(Message):
        name: str
        partitions: list[FetchSnapshotRequest.PartitionSnapshot]
        def __init__(
            self,
            *,
            name: str = ...,
            partitions: list[FetchSnapshotRequest.PartitionSnapshot] = ...,
        ) -> None: ...

    cluster_id: str | None
    replica_id: int
    max_bytes: int
    topics: list[FetchSnapshotRequest.TopicSnapshot]
    def __init__(
        self,
        *,
        cluster_id: str | None = ...,
        replica_id: int = ...,
        max_bytes: int = ...,
        topics: list[FetchSnapshotRequest.TopicSnapshot] = ...,
    ) -> None: ...

class FetchSnapshotResponse(Message):
    class SnapshotId(Message):
        end_offset: int
        epoch: int
        def __init__(
            self,
            *,
            end_offset: int = ...,
            epoch: int = ...,
        ) -> None: ...

    class LeaderIdAndEpoch(Message):
        leader_id: int
        leader_epoch: int
        def __init__(
            self,
            *,
            leader_id: int = ...,
            leader_epoch: int = ...,
        ) -> None: ...

    class PartitionSnapshot(Message):
        index: int
        error_code: int
        snapshot_id: FetchSnapshotResponse.SnapshotId
        current_leader: FetchSnapshotResponse.LeaderIdAndEpoch
        size: int
        position: int
        unaligned_records: memoryview
        def __init__(
            self,
            *,
            index: int = ...,
            error_code: int = ...,
            snapshot_id: FetchSnapshotResponse.SnapshotId = ...,
            current_leader: FetchSnapshotResponse.LeaderIdAndEpoch = ...,
            size: int = ...,
            position: int = ...,
            unaligned_records: Buffer = ...,
        ) -> None: ...

    class TopicSnapshot(Message):
        name: str
        partitions: list[FetchSnapshotResponse.PartitionSnapshot]
        def __init__(
            self,
            *,
            name: str = ...,
            partitions: list[FetchSnapshotResponse.PartitionSnapshot] = ...,
        ) -> None: ...

    class NodeEndpoint(Message):
        node_id: int
        host: str
        port: int
        def __init__(
            self,
            *,
            node_id: int = ...,
            host: str = ...,
            port: int = ...,
        ) -> None: ...

    throttle_time_ms: int
    error_code: int
    topics: list[FetchSnapshotResponse.TopicSnapshot]
    node_endpoints: list[FetchSnapshotResponse.NodeEndpoint]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        topics: list[FetchSnapshotResponse.TopicSnapshot] = ...,
        node_endpoints: list[FetchSnapshotResponse.NodeEndpoint] = ...,
    ) -> None: ...

class FindCoordinatorRequest(Message):
    key: str
    key_type: int
    coordinator_keys: list[str]
    def __init__(
        self,
        *,
        key: str = ...,
        key_type: int = ...,
        coordinator_keys: list[str] = ...,
    ) -> None: ...

class FindCoordinatorResponse(Message):
    class Coordinator(Message):
        key: str
        node_id: int
        host: str
        port: int
        error_code: int
        error_message: str | None
        def __init__(
            self,
            *,
            key: str = ...,
            node_id: int = ...,
            host: str = ...,
            port: int = ...,
            error_code: int = ...,
            error_message: str | None = ...,
        ) -> None: ...

    throttle_time_ms: int
    error_code: int
    error_message: str | None
    node_id: int
    host: str
    port: int
    coordinators: list[FindCoordinatorResponse.Coordinator]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        error_message: str | None = ...,
        node_id: int = ...,
        host: str = ...,
        port: int = ...,
        coordinators: list[FindCoordinatorResponse.Coordinator] = ...,
    ) -> None: ...

class GetTelemetrySubscriptionsRequest(Message):
    client_instance_id: UUID
    def __init__(
        self,
        *,
        client_instance_id: UUID = ...,
    ) -> None: ...

class GetTelemetrySubscriptionsResponse(Message):
    throttle_time_ms: int
    error_code: int
    client_instance_id: UUID
    subscription_id: int
    accepted_compression_types: list[int]
    push_interval_ms: int
    telemetry_max_bytes: int
    delta_temporality: bool
    requested_metrics: list[str]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        client_instance_id: UUID = ...,
        subscription_id: int = ...,
        accepted_compression_types: list[int] = ...,
        push_interval_ms: int = ...,
        telemetry_max_bytes: int = ...,
        delta_temporality: bool = ...,
        requested_metrics: list[str] = ...,
    ) -> None: ...

class GroupMetadataKey(Message):
    group: str
    def __init__(
        self,
        *,
        group: str = ...,
    ) -> None: ...

class GroupMetadataValue(Message):
    class MemberMetadata(Message):
        member_id: str
        group_instance_id: str | None
        client_id: str
        client_host: str
        rebalance_timeout: int
        session_timeout: int
        subscription: bytes
        assignment: bytes
        def __init__(
            self,
            *,
            member_id: str = ...,
            group_instance_id: str | None = ...,
            client_id: str = ...,
            client_host: str = ...,
            rebalance_timeout: int = ...,
            session_timeout: int = ...,
            subscription: bytes = ...,
            assignment: bytes = ...,
        ) -> None: ...

    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    current_state_timestamp: int
    members: list[GroupMetadataValue.MemberMetadata]
    def __init__(
        self,
        *,
        protocol_type: str = ...,
        generation: int = ...,
        protocol: str | None = ...,
        leader: str | None = ...,
        current_state_timestamp: int = ...,
        members: list[GroupMetadataValue.MemberMetadata] = ...,
    ) -> None: ...

class HeartbeatRequest(Message):
    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None
    def __init__(
        self,
        *,
        group_id: str = ...,
        generation_id: int = ...,
        member_id: str = ...,
        group_instance_id: str | None = ...,
    ) -> None: ...

class HeartbeatResponse(Message):
    throttle_time_ms: int
    error_code: int
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        error_code: int = ...,
    ) -> None: ...

class IncrementalAlterConfigsRequest(Message):
    class AlterableConfig(Message):
        name: str
        config_operation: int
        value: str | None
        def __init__(
            self,
            *,
            name: str = ...,
            config_operation: int = ...,
            value: str | None = ...,
        ) -> None: ...

    class AlterConfigsResource(Message):
        resource_type: int
        resource_name: str
        configs: list[IncrementalAlterConfigsRequest.AlterableConfig]
        def __init__(
            self,
            *,
            resource_type: int = ...,
            resource_name: str = ...,
            configs: list[IncrementalAlterConfigsRequest.AlterableConfig] = ...,
        ) -> None: ...

    resources: list[IncrementalAlterConfigsRequest.AlterConfigsResource]
    validate_only: bool
    def __init__(
        self,
        *,
        resources: list[IncrementalAlterConfigsRequest.AlterConfigsResource] = ...,
        validate_only: bool = ...,
    ) -> None: ...

class IncrementalAlterConfigsResponse(Message):
    class AlterConfigsResourceResponse(Message):
        error_code: int
        error_message: str | None
        resource_type: int
        resource_name: str
        def __init__(
            self,
            *,
            error_code: int = ...,
            error_message: str | None = ...,
            resource_type: int = ...,
            resource_name: str = ...,
        ) -> None: ...

    throttle_time_ms: int
    responses: list[IncrementalAlterConfigsResponse.AlterConfigsResourceResponse]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        responses: list[IncrementalAlterConfigsResponse.AlterConfigsResourceResponse] = ...,
    ) -> None: ...

class InitProducerIdRequest(Message):
    transactional_id: str | None
    transaction_timeout_ms: int
    producer_id: int
    producer_epoch: int
    enable2_pc: bool
    keep_prepared_txn: bool
    def __init__(
        self,
        *,
        transactional_id: str | None = ...,
        transaction_timeout_ms: int = ...,
        producer_id: int = ...,
        producer_epoch: int = ...,
        enable2_pc: bool = ...,
        keep_prepared_txn: bool = ...,
    ) -> None: ...

class InitProducerIdResponse(Message):
    throttle_time_ms: int
    error_code: int
    producer_id: int
    producer_epoch: int
    ongoing_txn_producer_id: int
    ongoing_txn_producer_epoch: int
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        producer_id: int = ...,
        producer_epoch: int = ...,
        ongoing_txn_producer_id: int = ...,
        ongoing_txn_producer_epoch: int = ...,
    ) -> None: ...

class InitializeShareGroupStateRequest(Message):
    class PartitionData(Message):
        partition: int
        state_epoch: int
        start_offset: int
        def __init__(
            self,
            *,
            partition: int = ...,
            state_epoch: int = ...,
            start_offset: int = ...,
        ) -> None: ...

    class InitializeStateData(Message):
        topic_id: UUID
        partitions: list[InitializeShareGroupStateRequest.PartitionData]
        def __init__(
            self,
            *,
            topic_id: UUID = ...,
            partitions: list[InitializeShareGroupStateRequest.PartitionData] = ...,
        ) -> None: ...

    group_id: str
    topics: list[InitializeShareGroupStateRequest.InitializeStateData]
    def __init__(
        self,
        *,
        group_id: str = ...,
        topics: list[InitializeShareGroupStateRequest.InitializeStateData] = ...,
    ) -> None: ...

class InitializeShareGroupStateResponse(Message):
    class PartitionResult(Message):
        partition: int
        error_code: int
        error_message: str | None
        def __init__(
            self,
            *,
            partition: int = ...,
            error_code: int = ...,
            error_message: str | None = ...,
        ) -> None: ...

    class InitializeStateResult(Message):
        topic_id: UUID
        partitions: list[InitializeShareGroupStateResponse.PartitionResult]
        def __init__(
            self,
            *,
            topic_id: UUID = ...,
            partitions: list[InitializeShareGroupStateResponse.PartitionResult] = ...,
        ) -> None: ...

    results: list[InitializeShareGroupStateResponse.InitializeStateResult]
    def __init__(
        self,
        *,
        results: list[InitializeShareGroupStateResponse.InitializeStateResult] = ...,
    ) -> None: ...

class JoinGroupRequest(Message):
    class JoinGroupRequestProtocol(Message):
        name: str
        metadata: bytes
        def __init__(
            self,
            *,
            name: str = ...,
            metadata: bytes = ...,
        ) -> None: ...

    group_id: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    member_id: str
    group_instance_id: str | None
    protocol_type: str
    protocols: list[JoinGroupRequest.JoinGroupRequestProtocol]
    reason: str | None
    def __init__(
        self,
        *,
        group_id: str = ...,
        session_timeout_ms: int = ...,
        rebalance_timeout_ms: int = ...,
        member_id: str = ...,
        group_instance_id: str | None = ...,
        protocol_type: str = ...,
        protocols: list[JoinGroupRequest.JoinGroupRequestProtocol] = ...,
        reason: str | None = ...,
    ) -> None: ...

class JoinGroupResponse(Message):
    class JoinGroupResponseMember(Message):
        member_id: str
        group_instance_id: str | None
        metadata: bytes
        def __init__(
            self,
            *,
            member_id: str = ...,
            group_instance_id: str | None = ...,
            metadata: bytes = ...,
        ) -> None: ...

    throttle_time_ms: int
    error_code: int
    generation_id: int
    protocol_type: str | None
    protocol_name: str | None
    leader: str
    skip_assignment: bool
    member_id: str
    members: list[JoinGroupResponse.JoinGroupResponseMember]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        generation_id: int = ...,
        protocol_type: str | None = ...,
        protocol_name: str | None = ...,
        leader: str = ...,
        skip_assignment: bool = ...,
        member_id: str = ...,
        members: list[JoinGroupResponse.JoinGroupResponseMember] = ...,
    ) -> None: ...

class KRaftVersionRecord(Message):
    version: int
    k_raft_version: int
    def __init__(
        self,
        *,
        version: int = ...,
        k_raft_version: int = ...,
    ) -> None: ...

class LeaderChangeMessage(Message):
    class Voter(Message):
        voter_id: int
        voter_directory_id: UUID
        def __init__(
            self,
            *,
            voter_id: int = ...,
            voter_directory_id: UUID = ...,
        ) -> None: ...

    version: int
    leader_id: int
    voters: list[LeaderChangeMessage.Voter]
    granting_voters: list[LeaderChangeMessage.Voter]
    def __init__(
        self,
        *,
        version: int = ...,
        leader_id: int = ...,
        voters: list[LeaderChangeMessage.Voter] = ...,
        granting_voters: list[LeaderChangeMessage.Voter] = ...,
    ) -> None: ...

class LeaveGroupRequest(Message):
    class MemberIdentity(Message):
        member_id: str
        group_instance_id: str | None
        reason: str | None
        def __init__(
            self,
            *,
            member_id: str = ...,
            group_instance_id: str | None = ...,
            reason: str | None = ...,
        ) -> None: ...

    group_id: str
    member_id: str
    members: list[LeaveGroupRequest.MemberIdentity]
    def __init__(
        self,
        *,
        group_id: str = ...,
        member_id: str = ...,
        members: list[LeaveGroupRequest.MemberIdentity] = ...,
    ) -> None: ...

class LeaveGroupResponse(Message):
    class MemberResponse(Message):
        member_id: str
        group_instance_id: str | None
        error_code: int
        def __init__(
            self,
            *,
            member_id: str = ...,
            group_instance_id: str | None = ...,
            error_code: int = ...,
        ) -> None: ...

    throttle_time_ms: int
    error_code: int
    members: list[LeaveGroupResponse.MemberResponse]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        members: list[LeaveGroupResponse.MemberResponse] = ...,
    ) -> None: ...

class LegacyOffsetCommitKey(Message):
    group: str
    topic: str
    partition: int
    def __init__(
        self,
        *,
        group: str = ...,
        topic: str = ...,
        partition: int = ...,
    ) -> None: ...

class LegacyOffsetCommitValue(Message):
    offset: int
    metadata: str
    commit_timestamp: int
    def __init__(
        self,
        *,
        offset: int = ...,
        metadata: str = ...,
        commit_timestamp: int = ...,
    ) -> None: ...

class ListConfigResourcesRequest(Message):
    resource_types: list[int]
    def __init__(
        self,
        *,
        resource_types: list[int] = ...,
    ) -> None: ...

class ListConfigResourcesResponse(Message):
    class ConfigResource(Message):
        resource_name: str
        resource_type: int
        def __init__(
            self,
            *,
            resource_name: str = ...,
            resource_type: int = ...,
        ) -> None: ...

    throttle_time_ms: int
    error_code: int
    config_resources: list[ListConfigResourcesResponse.ConfigResource]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        config_resources: list[ListConfigResourcesResponse.ConfigResource] = ...,
    ) -> None: ...

class ListGroupsRequest(Message):
    states_filter: list[str]
    types_filter: list[str]
    def __init__(
        self,
        *,
        states_filter: list[str] = ...,
        types_filter: list[str] = ...,
    ) -> None: ...

class ListGroupsResponse(Message):
    class ListedGroup(Message):
        group_id: str
        protocol_type: str
        group_state: str
        group_type: str
        def __init__(
            self,
            *,
            group_id: str = ...,
            protocol_type: str = ...,
            group_state: str = ...,
            group_type: str = ...,
        ) -> None: ...

    throttle_time_ms: int
    error_code: int
    groups: list[ListGroupsResponse.ListedGroup]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        groups: list[ListGroupsResponse.ListedGroup] = ...,
    ) -> None: ...

class ListOffsetsRequest(Message):
    class ListOffsetsPartition(Message):
        partition_index: int
        current_leader_epoch: int
        timestamp: int
        def __init__(
            self,
            *,
            partition_index: int = ...,
            current_leader_epoch: int = ...,
            timestamp: int = ...,
        ) -> None: ...

    class ListOffsetsTopic(Message):
        name: str
        partitions: list[ListOffsetsRequest.ListOffsetsPartition]
        def __init__(
            self,
            *,
            name: str = ...,
            partitions: list[ListOffsetsRequest.ListOffsetsPartition] = ...,
        ) -> None: ...

    replica_id: int
    isolation_level: int
    topics: list[ListOffsetsRequest.ListOffsetsTopic]
    timeout_ms: int
    def __init__(
        self,
        *,
        replica_id: int = ...,
        isolation_level: int = ...,
        topics: list[ListOffsetsRequest.ListOffsetsTopic] = ...,
        timeout_ms: int = ...,
    ) -> None: ...

class ListOffsetsResponse(Message):
    class ListOffsetsPartitionResponse(Message):
        partition_index: int
        error_code: int
        timestamp: int
        offset: int
        leader_epoch: int
        def __init__(
            self,
            *,
            partition_index: int = ...,
            error_code: int = ...,
            timestamp: int = ...,
            offset: int = ...,
            leader_epoch: int = ...,
        ) -> None: ...

    class ListOffsetsTopicResponse(Message):
        name: str
        partitions: list[ListOffsetsResponse.ListOffsetsPartitionResponse]
        def __init__(
            self,
            *,
            name: str = ...,
            partitions: list[ListOffsetsResponse.ListOffsetsPartitionResponse] = ...,
        ) -> None: ...

    throttle_time_ms: int
    topics: list[ListOffsetsResponse.ListOffsetsTopicResponse]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        topics: list[ListOffsetsResponse.ListOffsetsTopicResponse] = ...,
    ) -> None: ...

class ListPartitionReassignmentsRequest(Message):
    class ListPartitionReassignmentsTopics(Message):
        name: str
        partition_indexes: list[int]
        def __init__(
            self,
            *,
            name: str = ...,
            partition_indexes: list[int] = ...,
        ) -> None: ...

    timeout_ms: int
    topics: list[ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics] | None
    def __init__(
        self,
        *,
        timeout_ms: int = ...,
        topics: list[ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics] | None = ...,
    ) -> None: ...

class ListPartitionReassignmentsResponse(Message):
    class OngoingPartitionReassignment(Message):
        partition_index: int
        replicas: list[int]
        adding_replicas: list[int]
        removing_replicas: list[int]
        def __init__(
            self,
            *,
            partition_index: int = ...,
            replicas: list[int] = ...,
            adding_replicas: list[int] = ...,
            removing_replicas: list[int] = ...,
        ) -> None: ...

    class OngoingTopicReassignment(Message):
        name: str
        partitions: list[ListPartitionReassignmentsResponse.OngoingPartitionReassignment]
        def __init__(
            self,
            *,
            name: str = ...,
            partitions: list[ListPartitionReassignmentsResponse.OngoingPartitionReassignment] = ...,
        ) -> None: ...

    throttle_time_ms: int
    error_code: int
    error_message: str | None
    topics: list[ListPartitionReassignmentsResponse.OngoingTopicReassignment]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        error_message: str | None = ...,
        topics: list[ListPartitionReassignmentsResponse.OngoingTopicReassignment] = ...,
    ) -> None: ...

class ListTransactionsRequest(Message):
    state_filters: list[str]
    producer_id_filters: list[int]
    duration_filter: int
    transactional_id_pattern: str | None
    def __init__(
        self,
        *,
        state_filters: list[str] = ...,
        producer_id_filters: list[int] = ...,
        duration_filter: int = ...,
        transactional_id_pattern: str | None = ...,
    ) -> None: ...

class ListTransactionsResponse(Message):
    class TransactionState(Message):
        transactional_id: str
        producer_id: int
        transaction_state: str
        def __init__(
            self,
            *,
            transactional_id: str = ...,
            producer_id: int = ...,
            transaction_state: str = ...,
        ) -> None: ...

    throttle_time_ms: int
    error_code: int
    unknown_state_filters: list[str]
    transaction_states: list[ListTransactionsResponse.TransactionState]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        unknown_state_filters: list[str] = ...,
        transaction_states: list[ListTransactionsResponse.TransactionState] = ...,
    ) -> None: ...

class MetadataRequest(Message):
    class MetadataRequestTopic(Message):
        topic_id: UUID
        name: str | None
        def __init__(
            self,
            *,
            topic_id: UUID = ...,
            name: str | None = ...,
        ) -> None: ...

    topics: list[MetadataRequest.MetadataRequestTopic] | None
    allow_auto_topic_creation: bool
    include_cluster_authorized_operations: bool
    include_topic_authorized_operations: bool
    def __init__(
        self,
        *,
        topics: list[MetadataRequest.MetadataRequestTopic] | None = ...,
        allow_auto_topic_creation: bool = ...,
        include_cluster_authorized_operations: bool = ...,
        include_topic_authorized_operations: bool = ...,
    ) -> None: ...

class MetadataResponse(Message):
    class MetadataResponseBroker(Message):
        node_id: int
        host: str
        port: int
        rack: str | None
        def __init__(
            self,
            *,
            node_id: int = ...,
            host: str = ...,
            port: int = ...,
            rack: str | None = ...,
        ) -> None: ...

    class MetadataResponsePartition(Message):
        error_code: int
        partition_index: int
        leader_id: int
        leader_epoch: int
        replica_nodes: list[int]
        isr_nodes: list[int]
        offline_replicas: list[int]
        def __init__(
            self,
            *,
            error_code: int = ...,
            partition_index: int = ...,
            leader_id: int = ...,
            leader_epoch: int = ...,
            replica_nodes: list[int] = ...,
            isr_nodes: list[int] = ...,
            offline_replicas: list[int] = ...,
        ) -> None: ...

    class MetadataResponseTopic(Message):
        error_code: int
        name: str | None
        topic_id: UUID
        is_internal: bool
        partitions: list[MetadataResponse.MetadataResponsePartition]
        topic_authorized_operations: int
        def __init__(
            self,
            *,
            error_code: int = ...,
            name: str | None = ...,
            topic_id: UUID = ...,
            is_internal: bool = ...,
            partitions: list[MetadataResponse.MetadataResponsePartition] = ...,
            topic_authorized_operations: int = ...,
        ) -> None: ...

    throttle_time_ms: int
    brokers: list[MetadataResponse.MetadataResponseBroker]
    cluster_id: str | None
    controller_id: int
    topics: list[MetadataResponse.MetadataResponseTopic]
    cluster_authorized_operations: int
    error_code: int
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        brokers: list[MetadataResponse.MetadataResponseBroker] = ...,
        cluster_id: str | None = ...,
        controller_id: int = ...,
        topics: list[MetadataResponse.MetadataResponseTopic] = ...,
        cluster_authorized_operations: int = ...,
        error_code: int = ...,
    ) -> None: ...

class NoOpRecord(Message): ...

class OffsetCommitKey(Message):
    group: str
    topic: str
    partition: int
    def __init__(
        self,
        *,
        group: str = ...,
        topic: str = ...,
        partition: int = ...,
    ) -> None: ...

class OffsetCommitRequest(Message):
    class OffsetCommitRequestPartition(Message):
        partition_index: int
        committed_offset: int
        committed_leader_epoch: int
        committed_metadata: str | None
        def __init__(
            self,
            *,
            partition_index: int = ...,
            committed_offset: int = ...,
            committed_leader_epoch: int = ...,
            committed_metadata: str | None = ...,
        ) -> None: ...

    class OffsetCommitRequestTopic(Message):
        name: str
        topic_id: UUID
        partitions: list[OffsetCommitRequest.OffsetCommitRequestPartition]
        def __init__(
            self,
            *,
            name: str = ...,
            topic_id: UUID = ...,
            partitions: list[OffsetCommitRequest.OffsetCommitRequestPartition] = ...,
        ) -> None: ...

    group_id: str
    generation_id_or_member_epoch: int
    member_id: str
    group_instance_id: str | None
    retention_time_ms: int
    topics: list[OffsetCommitRequest.OffsetCommitRequestTopic]
    def __init__(
        self,
        *,
        group_id: str = ...,
        generation_id_or_member_epoch: int = ...,
        member_id: str = ...,
        group_instance_id: str | None = ...,
        retention_time_ms: int = ...,
        topics: list[OffsetCommitRequest.OffsetCommitRequestTopic] = ...,
    ) -> None: ...

class OffsetCommitResponse(Message):
    class OffsetCommitResponsePartition(Message):
        partition_index: int
        error_code: int
        def __init__(
            self,
            *,
            partition_index: int = ...,
            error_code: int = ...,
        ) -> None: ...

    class OffsetCommitResponseTopic(Message):
        name: str
        topic_id: UUID
        partitions: list[OffsetCommitResponse.OffsetCommitResponsePartition]
        def __init__(
            self,
            *,
            name: str = ...,
            topic_id: UUID = ...,
            partitions: list[OffsetCommitResponse.OffsetCommitResponsePartition] = ...,
        ) -> None: ...

    throttle_time_ms: int
    topics: list[OffsetCommitResponse.OffsetCommitResponseTopic]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        topics: list[OffsetCommitResponse.OffsetCommitResponseTopic] = ...,
    ) -> None: ...

class OffsetCommitValue(Message):
    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp: int
    expire_timestamp: int
    topic_id: UUID
    def __init__(
        self,
        *,
        offset: int = ...,
        leader_epoch: int = ...,
        metadata: str = ...,
        commit_timestamp: int = ...,
        expire_timestamp: int = ...,
        topic_id: UUID = ...,
    ) -> None: ...

class OffsetDeleteRequest(Message):
    class OffsetDeleteRequestPartition(Message):
        partition_index: int
        def __init__(
            self,
            *,
            partition_index: int = ...,
        ) -> None: ...

    class OffsetDeleteRequestTopic(Message):
        name: str
        partitions: list[OffsetDeleteRequest.OffsetDeleteRequestPartition]
        def __init__(
            self,
            *,
            name: str = ...,
            partitions: list[OffsetDeleteRequest.OffsetDeleteRequestPartition] = ...,
        ) -> None: ...

    group_id: str
    topics: list[OffsetDeleteRequest.OffsetDeleteRequestTopic]
    def __init__(
        self,
        *,
        group_id: str = ...,
        topics: list[OffsetDeleteRequest.OffsetDeleteRequestTopic] = ...,
    ) -> None: ...

class OffsetDeleteResponse(Message):
    class OffsetDeleteResponsePartition(Message):
        partition_index: int
        error_code: int
        def __init__(
            self,
            *,
            partition_index: int = ...,
            error_code: int = ...,
        ) -> None: ...

    class OffsetDeleteResponseTopic(Message):
        name: str
        partitions: list[OffsetDeleteResponse.OffsetDeleteResponsePartition]
        def __init__(
            self,
            *,
            name: str = ...,
            partitions: list[OffsetDeleteResponse.OffsetDeleteResponsePartition] = ...,
        ) -> None: ...

    error_code: int
    throttle_time_ms: int
    topics: list[OffsetDeleteResponse.OffsetDeleteResponseTopic]
    def __init__(
        self,
        *,
        error_code: int = ...,
        throttle_time_ms: int = ...,
        topics: list[OffsetDeleteResponse.OffsetDeleteResponseTopic] = ...,
    ) -> None: ...

class OffsetFetchRequest(Message):
    class OffsetFetchRequestTopic(Message):
        name: str
        partition_indexes: list[int]
        def __init__(
            self,
            *,
            name: str = ...,
            partition_indexes: list[int] = ...,
        ) -> None: ...

    class OffsetFetchRequestTopics(Message):
        name: str
        topic_id: UUID
        partition_indexes: list[int]
        def __init__(
            self,
            *,
            name: str = ...,
            topic_id: UUID = ...,
            partition_indexes: list[int] = ...,
        ) -> None: ...

    class OffsetFetchRequestGroup(Message):
        group_id: str
        member_id: str | None
        member_epoch: int
        topics: list[OffsetFetchRequest.OffsetFetchRequestTopics] | None
        def __init__(
            self,
            *,
            group_id: str = ...,
            member_id: str | None = ...,
            member_epoch: int = ...,
            topics: list[OffsetFetchRequest.OffsetFetchRequestTopics] | None = ...,
        ) -> None: ...

    group_id: str
    topics: list[OffsetFetchRequest.OffsetFetchRequestTopic] | None
    groups: list[OffsetFetchRequest.OffsetFetchRequestGroup]
    require_stable: bool
    def __init__(
        self,
        *,
        group_id: str = ...,
        topics: list[OffsetFetchRequest.OffsetFetchRequestTopic] | None = ...,
        groups: list[OffsetFetchRequest.OffsetFetchRequestGroup] = ...,
        require_stable: bool = ...,
    ) -> None: ...

class OffsetFetchResponse(Message):
    class OffsetFetchResponsePartition(Message):
        partition_index: int
        committed_offset: int
        committed_leader_epoch: int
        metadata: str | None
        error_code: int
        def __init__(
            self,
            *,
            partition_index: int = ...,
            committed_offset: int = ...,
            committed_leader_epoch: int = ...,
            metadata: str | None = ...,
            error_code: int = ...,
        ) -> None: ...

    class OffsetFetchResponseTopic(Message):
        name: str
        partitions: list[OffsetFetchResponse.OffsetFetchResponsePartition]
        def __init__(
            self,
            *,
            name: str = ...,
            partitions: list[OffsetFetchResponse.OffsetFetchResponsePartition] = ...,
        ) -> None: ...

    class OffsetFetchResponsePartitions(Message):
        partition_index: int
        committed_offset: int
        committed_leader_epoch: int
        metadata: str | None
        error_code: int
        def __init__(
            self,
            *,
            partition_index: int = ...,
            committed_offset: int = ...,
            committed_leader_epoch: int = ...,
            metadata: str | None = ...,
            error_code: int = ...,
        ) -> None: ...

    class OffsetFetchResponseTopics(Message):
        name: str
        topic_id: UUID
        partitions: list[OffsetFetchResponse.OffsetFetchResponsePartitions]
        def __init__(
            self,
            *,
            name: str = ...,
            topic_id: UUID = ...,
            partitions: list[OffsetFetchResponse.OffsetFetchResponsePartitions] = ...,
        ) -> None: ...

    class OffsetFetchResponseGroup(Message):
        group_id: str
        topics: list[OffsetFetchResponse.OffsetFetchResponseTopics]
        error_code: int
        def __init__(
            self,
            *,
            group_id: str = ...,
            topics: list[OffsetFetchResponse.OffsetFetchResponseTopics] = ...,
            error_code: int = ...,
        ) -> None: ...

    throttle_time_ms: int
    topics: list[OffsetFetchResponse.OffsetFetchResponseTopic]
    error_code: int
    groups: list[OffsetFetchResponse.OffsetFetchResponseGroup]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        topics: list[OffsetFetchResponse.OffsetFetchResponseTopic] = ...,
        error_code: int = ...,
        groups: list[OffsetFetchResponse.OffsetFetchResponseGroup] = ...,
    ) -> None: ...

class OffsetForLeaderEpochRequest(Message):
    class OffsetForLeaderPartition(Message):
        partition: int
        current_leader_epoch: int
        leader_epoch: int
        def __init__(
            self,
            *,
            partition: int = ...,
            current_leader_epoch: int = ...,
            leader_epoch: int = ...,
        ) -> None: ...

    class OffsetForLeaderTopic(Message):
        topic: str
        partitions: list[OffsetForLeaderEpochRequest.OffsetForLeaderPartition]
        def __init__(
            self,
            *,
            topic: str = ...,
            partitions: list[OffsetForLeaderEpochRequest.OffsetForLeaderPartition] = ...,
        ) -> None: ...

    replica_id: int
    topics: list[OffsetForLeaderEpochRequest.OffsetForLeaderTopic]
    def __init__(
        self,
        *,
        replica_id: int = ...,
        topics: list[OffsetForLeaderEpochRequest.OffsetForLeaderTopic] = ...,
    ) -> None: ...

class OffsetForLeaderEpochResponse(Message):
    class EpochEndOffset(Message):
        error_code: int
        partition: int
        leader_epoch: int
        end_offset: int
        def __init__(
            self,
            *,
            error_code: int = ...,
            partition: int = ...,
            leader_epoch: int = ...,
            end_offset: int = ...,
        ) -> None: ...

    class OffsetForLeaderTopicResult(Message):
        topic: str
        partitions: list[OffsetForLeaderEpochResponse.EpochEndOffset]
        def __init__(
            self,
            *,
            topic: str = ...,
            partitions: list[OffsetForLeaderEpochResponse.EpochEndOffset] = ...,
        ) -> None: ...

    throttle_time_ms: int
    topics: list[OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        topics: list[OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult] = ...,
    ) -> None: ...

class PartitionChangeRecord(Message):
    partition_id: int
    topic_id: UUID
    isr: list[int] | None
    leader: int
    replicas: list[int] | None
    removing_replicas: list[int] | None
    adding_replicas: list[int] | None
    leader_recovery_state: int
    directories: list[UUID] | None
    eligible_leader_replicas: list[int] | None
    last_known_elr: list[int] | None
    def __init__(
        self,
        *,
        partition_id: int = ...,
        topic_id: UUID = ...,
        isr: list[int] | None = ...,
        leader: int = ...,
        replicas: list[int] | None = ...,
        removing_replicas: list[int] | None = ...,
        adding_replicas: list[int] | None = ...,
        leader_recovery_state: int = ...,
        directories: list[UUID] | None = ...,
        eligible_leader_replicas: list[int] | None = ...,
        last_known_elr: list[int] | None = ...,
    ) -> None: ...

class PartitionRecord(Message):
    partition_id: int
    topic_id: UUID
    replicas: list[int]
    isr: list[int]
    removing_replicas: list[int]
    adding_replicas: list[int]
    leader: int
    leader_recovery_state: int
    leader_epoch: int
    partition_epoch: int
    directories: list[UUID]
    eligible_leader_replicas: list[int] | None
    last_known_elr: list[int] | None
    def __init__(
        self,
        *,
        partition_id: int = ...,
        topic_id: UUID = ...,
        replicas: list[int] = ...,
        isr: list[int] = ...,
        removing_replicas: list[int] = ...,
        adding_replicas: list[int] = ...,
        leader: int = ...,
        leader_recovery_state: int = ...,
        leader_epoch: int = ...,
        partition_epoch: int = ...,
        directories: list[UUID] = ...,
        eligible_leader_replicas: list[int] | None = ...,
        last_known_elr: list[int] | None = ...,
    ) -> None: ...

class ProduceRequest(Message):
    class PartitionProduceData(Message):
        index: int
        records: memoryview | None
        def __init__(
            self,
            *,
            index: int = ...,
            records: Buffer | None = ...,
        ) -> None: ...

    class TopicProduceData(Message):
        name: str
        topic_id: UUID
        partition_data: list[ProduceRequest.PartitionProduceData]
        def __init__(
            self,
            *,
            name: str = ...,
            topic_id: UUID = ...,
            partition_data: list[ProduceRequest.PartitionProduceData] = ...,
        ) -> None: ...

    transactional_id: str | None
    acks: int
    timeout_ms: int
    topic_data: list[ProduceRequest.TopicProduceData]
    def __init__(
        self,
        *,
        transactional_id: str | None = ...,
        acks: int = ...,
        timeout_ms: int = ...,
        topic_data: list[ProduceRequest.TopicProduceData] = ...,
    ) -> None: ...

class ProduceResponse(Message):
    class BatchIndexAndErrorMessage(Message):
        batch_index: int
        batch_index_error_message: str | None
        def __init__(
            self,
            *,
            batch_index: int = ...,
            batch_index_error_message: str | None = ...,
        ) -> None: ...

    class LeaderIdAndEpoch(Message):
        leader_id: int
        leader_epoch: int
        def __init__(
            self,
            *,
            leader_id: int = ...,
            leader_epoch: int = ...,
        ) -> None: ...

    class PartitionProduceResponse(Message):
        index: int
        error_code: int
        base_offset: int
        log_append_time_ms: int
        log_start_offset: int
        record_errors: list[ProduceResponse.BatchIndexAndErrorMessage]
        error_message: str | None
        current_leader: ProduceResponse.LeaderIdAndEpoch
        def __init__(
            self,
            *,
            index: int = ...,
            error_code: int = ...,
            base_offset: int = ...,
            log_append_time_ms: int = ...,
            log_start_offset: int = ...,
            record_errors: list[ProduceResponse.BatchIndexAndErrorMessage] = ...,
            error_message: str | None = ...,
            current_leader: ProduceResponse.LeaderIdAndEpoch = ...,
        ) -> None: ...

    class TopicProduceResponse(Message):
        name: str
        topic_id: UUID
        partition_responses: list[ProduceResponse.PartitionProduceResponse]
        def __init__(
            self,
            *,
            name: str = ...,
            topic_id: UUID = ...,
            partition_responses: list[ProduceResponse.PartitionProduceResponse] = ...,
        ) -> None: ...

    class NodeEndpoint(Message):
        node_id: int
        host: str
        port: int
        rack: str | None
        def __init__(
            self,
            *,
            node_id: int = ...,
            host: str = ...,
            port: int = ...,
            rack: str | None = ...,
        ) -> None: ...

    responses: list[ProduceResponse.TopicProduceResponse]
    throttle_time_ms: int
    node_endpoints: list[ProduceResponse.NodeEndpoint]
    def __init__(
        self,
        *,
        responses: list[ProduceResponse.TopicProduceResponse] = ...,
        throttle_time_ms: int = ...,
        node_endpoints: list[ProduceResponse.NodeEndpoint] = ...,
    ) -> None: ...

class ProducerIdsRecord(Message):
    broker_id: int
    broker_epoch: int
    next_producer_id: int
    def __init__(
        self,
        *,
        broker_id: int = ...,
        broker_epoch: int = ...,
        next_producer_id: int = ...,
    ) -> None: ...

class PushTelemetryRequest(Message):
    client_instance_id: UUID
    subscription_id: int
    terminating: bool
    compression_type: int
    metrics: bytes
    def __init__(
        self,
        *,
        client_instance_id: UUID = ...,
        subscription_id: int = ...,
        terminating: bool = ...,
        compression_type: int = ...,
        metrics: bytes = ...,
    ) -> None: ...

class PushTelemetryResponse(Message):
    throttle_time_ms: int
    error_code: int
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        error_code: int = ...,
    ) -> None: ...

class QuorumStateData(Message):
    class Voter(Message):
        voter_id: int
        def __init__(
            self,
            *,
            voter_id: int = ...,
        ) -> None: ...

    cluster_id: str
    leader_id: int
    leader_epoch: int
    voted_id: int
    voted_directory_id: UUID
    applied_offset: int
    current_voters: list[QuorumStateData.Voter] | None
    def __init__(
        self,
        *,
        cluster_id: str = ...,
        leader_id: int = ...,
        leader_epoch: int = ...,
        voted_id: int = ...,
        voted_directory_id: UUID = ...,
        applied_offset: int = ...,
        current_voters: list[QuorumStateData.Voter] | None = ...,
    ) -> None: ...

class ReadShareGroupStateRequest(Message):
    class PartitionData(Message):
        partition: int
        leader_epoch: int
        def __init__(
            self,
            *,
            partition: int = ...,
            leader_epoch: int = ...,
        ) -> None: ...

    class ReadStateData(Message):
        topic_id: UUID
        partitions: list[ReadShareGroupStateRequest.PartitionData]
        def __init__(
            self,
            *,
            topic_id: UUID = ...,
            partitions: list[ReadShareGroupStateRequest.PartitionData] = ...,
        ) -> None: ...

    group_id: str
    topics: list[ReadShareGroupStateRequest.ReadStateData]
    def __init__(
        self,
        *,
        group_id: str = ...,
        topics: list[ReadShareGroupStateRequest.ReadStateData] = ...,
    ) -> None: ...

class ReadShareGroupStateResponse(Message):
    class StateBatch(Message):
        first_offset: int
        last_offset: int
        delivery_state: int
        delivery_count: int
        def __init__(
            self,
            *,
            first_offset: int = ...,
            last_offset: int = ...,
            delivery_state: int = ...,
            delivery_count: int = ...,
        ) -> None: ...

    class PartitionResult(Message):
        partition: int
        error_code: int
        error_message: str | None
        state_epoch: int
        start_offset: int
        state_batches: list[ReadShareGroupStateResponse.StateBatch]
        def __init__(
            self,
            *,
            partition: int = ...,
            error_code: int = ...,
            error_message: str | None = ...,
            state_epoch: int = ...,
            start_offset: int = ...,
            state_batches: list[ReadShareGroupStateResponse.StateBatch] = ...,
        ) -> None: ...

    class ReadStateResult(Message):
        topic_id: UUID
        partitions: list[ReadShareGroupStateResponse.PartitionResult]
        def __init__(
            self,
            *,
            topic_id: UUID = ...,
            partitions: list[ReadShareGroupStateResponse.PartitionResult] = ...,
        ) -> None: ...

    results: list[ReadShareGroupStateResponse.ReadStateResult]
    def __init__(
        self,
        *,
        results: list[ReadShareGroupStateResponse.ReadStateResult] = ...,
    ) -> None: ...

class ReadShareGroupStateSummaryRequest(Message):
    class PartitionData(Message):
        partition: int
        leader_epoch: int
        def __init__(
            self,
            *,
            partition: int = ...,
            leader_epoch: int = ...,
        ) -> None: ...

    class ReadStateSummaryData(Message):
        topic_id: UUID
        partitions: list[ReadShareGroupStateSummaryRequest.PartitionData]
        def __init__(
            self,
            *,
            topic_id: UUID = ...,
            partitions: list[ReadShareGroupStateSummaryRequest.PartitionData] = ...,
        ) -> None: ...

    group_id: str
    topics: list[ReadShareGroupStateSummaryRequest.ReadStateSummaryData]
    def __init__(
        self,
        *,
        group_id: str = ...,
        topics: list[ReadShareGroupStateSummaryRequest.ReadStateSummaryData] = ...,
    ) -> None: ...

class ReadShareGroupStateSummaryResponse(Message):
    class PartitionResult(Message):
        partition: int
        error_code: int
        error_message: str | None
        state_epoch: int
        leader_epoch: int
        start_offset: int
        delivery_complete_count: int
        def __init__(
            self,
            *,
            partition: int = ...,
            error_code: int = ...,
            error_message: str | None = ...,
            state_epoch: int = ...,
            leader_epoch: int = ...,
            start_offset: int = ...,
            delivery_complete_count: int = ...,
        ) -> None: ...

    class ReadStateSummaryResult(Message):
        topic_id: UUID
        partitions: list[ReadShareGroupStateSummaryResponse.PartitionResult]
        def __init__(
            self,
            *,
            topic_id: UUID = ...,
            partitions: list[ReadShareGroupStateSummaryResponse.PartitionResult] = ...,
        ) -> None: ...

    results: list[ReadShareGroupStateSummaryResponse.ReadStateSummaryResult]
    def __init__(
        self,
        *,
        results: list[ReadShareGroupStateSummaryResponse.ReadStateSummaryResult] = ...,
    ) -> None: ...

class RegisterBrokerRecord(Message):
    class BrokerEndpoint(Message):
        name: str
        host: str
        port: int
        security_protocol: int
        def __init__(
            self,
            *,
            name: str = ...,
            host: str = ...,
            port: int = ...,
            security_protocol: int = ...,
        ) -> None: ...

    class BrokerFeature(Message):
        name: str
        min_supported_version: int
        max_supported_version: int
        def __init__(
            self,
            *,
            name: str = ...,
            min_supported_version: int = ...,
            max_supported_version: int = ...,
        ) -> None: ...

    broker_id: int
    is_migrating_zk_broker: bool
    incarnation_id: UUID
    broker_epoch: int
    end_points: list[RegisterBrokerRecord.BrokerEndpoint]
    features: list[RegisterBrokerRecord.BrokerFeature]
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool
    log_dirs: list[UUID]
    cordoned_log_dirs: list[UUID] | None
    def __init__(
        self,
        *,
        broker_id: int = ...,
        is_migrating_zk_broker: bool = ...,
        incarnation_id: UUID = ...,
        broker_epoch: int = ...,
        end_points: list[RegisterBrokerRecord.BrokerEndpoint] = ...,
        features: list[RegisterBrokerRecord.BrokerFeature] = ...,
        rack: str | None = ...,
        fenced: bool = ...,
        in_controlled_shutdown: bool = ...,
        log_dirs: list[UUID] = ...,
        cordoned_log_dirs: list[UUID] | None = ...,
    ) -> None: ...

class RegisterControllerRecord(Message):
    class ControllerEndpoint(Message):
        name: str
        host: str
        port: int
        security_protocol: int
        def __init__(
            self,
            *,
            name: str = ...,
            host: str = ...,
            port: int = ...,
            security_protocol: int = ...,
        ) -> None: ...

    class ControllerFeature(Message):
        name: str
        min_supported_version: int
        max_supported_version: int
        def __init__(
            self,
            *,
            name: str = ...,
            min_supported_version: int = ...,
            max_supported_version: int = ...,
        ) -> None: ...

    controller_id: int
    incarnation_id: UUID
    zk_migration_ready: bool
    end_points: list[RegisterControllerRecord.ControllerEndpoint]
    features: list[RegisterControllerRecord.ControllerFeature]
    def __init__(
        self,
        *,
        controller_id: int = ...,
        incarnation_id: UUID = ...,
        zk_migration_ready: bool = ...,
        end_points: list[RegisterControllerRecord.ControllerEndpoint] = ...,
        features: list[RegisterControllerRecord.ControllerFeature] = ...,
    ) -> None: ...

class RemoveAccessControlEntryRecord(Message):
    id: UUID
    def __init__(
        self,
        *,
        id: UUID = ...,
    ) -> None: ...

class RemoveDelegationTokenRecord(Message):
    token_id: str
    def __init__(
        self,
        *,
        token_id: str = ...,
    ) -> None: ...

class RemoveRaftVoterRequest(Message):
    cluster_id: str | None
    voter_id: int
    voter_directory_id: UUID
    def __init__(
        self,
        *,
        cluster_id: str | None = ...,
        voter_id: int = ...,
        voter_directory_id: UUID = ...,
    ) -> None: ...

class RemoveRaftVoterResponse(Message):
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        error_message: str | None = ...,
    ) -> None: ...

class RemoveTopicRecord(Message):
    topic_id: UUID
    def __init__(
        self,
        *,
        topic_id: UUID = ...,
    ) -> None: ...

class RemoveUserScramCredentialRecord(Message):
    name: str
    mechanism: int
    def __init__(
        self,
        *,
        name: str = ...,
        mechanism: int = ...,
    ) -> None: ...

class RenewDelegationTokenRequest(Message):
    hmac: bytes
    renew_period_ms: int
    def __init__(
        self,
        *,
        hmac: bytes = ...,
        renew_period_ms: int = ...,
    ) -> None: ...

class RenewDelegationTokenResponse(Message):
    error_code: int
    expiry_timestamp_ms: int
    throttle_time_ms: int
    def __init__(
        self,
        *,
        error_code: int = ...,
        expiry_timestamp_ms: int = ...,
        throttle_time_ms: int = ...,
    ) -> None: ...

class RequestHeader(Message):
    request_api_key: int
    request_api_version: int
    correlation_id: int
    client_id: str | None
    def __init__(
        self,
        *,
        request_api_key: int = ...,
        request_api_version: int = ...,
        correlation_id: int = ...,
        client_id: str | None = ...,
    ) -> None: ...

class ResponseHeader(Message):
    correlation_id: int
    def __init__(
        self,
        *,
        correlation_id: int = ...,
    ) -> None: ...

class SaslAuthenticateRequest(Message):
    auth_bytes: bytes
    def __init__(
        self,
        *,
        auth_bytes: bytes = ...,
    ) -> None: ...

class SaslAuthenticateResponse(Message):
    error_code: int
    error_message: str | None
    auth_bytes: bytes
    session_lifetime_ms: int
    def __init__(
        self,
        *,
        error_code: int = ...,
        error_message: str | None = ...,
        auth_bytes: bytes = ...,
        session_lifetime_ms: int = ...,
    ) -> None: ...

class SaslHandshakeRequest(Message):
    mechanism: str
    def __init__(
        self,
        *,
        mechanism: str = ...,
    ) -> None: ...

class SaslHandshakeResponse(Message):
    error_code: int
    mechanisms: list[str]
    def __init__(
        self,
        *,
        error_code: int = ...,
        mechanisms: list[str] = ...,
    ) -> None: ...

class ShareAcknowledgeRequest(Message):
    class AcknowledgementBatch(Message):
        first_offset: int
        last_offset: int
        acknowledge_types: list[int]
        def __init__(
            self,
            *,
            first_offset: int = ...,
            last_offset: int = ...,
            acknowledge_types: list[int] = ...,
        ) -> None: ...

    class AcknowledgePartition(Message):
        partition_index: int
        acknowledgement_batches: list[ShareAcknowledgeRequest.AcknowledgementBatch]
        def __init__(
            self,
            *,
            partition_index: int = ...,
            acknowledgement_batches: list[ShareAcknowledgeRequest.AcknowledgementBatch] = ...,
        ) -> None: ...

    class AcknowledgeTopic(Message):
        topic_id: UUID
        partitions: list[ShareAcknowledgeRequest.AcknowledgePartition]
        def __init__(
            self,
            *,
            topic_id: UUID = ...,
            partitions: list[ShareAcknowledgeRequest.AcknowledgePartition] = ...,
        ) -> None: ...

    group_id: str | None
    member_id: str | None
    share_session_epoch: int
    is_renew_ack: bool
    topics: list[ShareAcknowledgeRequest.AcknowledgeTopic]
    def __init__(
        self,
        *,
        group_id: str | None = ...,
        member_id: str | None = ...,
        share_session_epoch: int = ...,
        is_renew_ack: bool = ...,
        topics: list[ShareAcknowledgeRequest.AcknowledgeTopic] = ...,
    ) -> None: ...

class ShareAcknowledgeResponse(Message):
    class LeaderIdAndEpoch(Message):
        leader_id: int
        leader_epoch: int
        def __init__(
            self,
            *,
            leader_id: int = ...,
            leader_epoch: int = ...,
        ) -> None: ...

    class PartitionData(Message):
        partition_index: int
        error_code: int
        error_message: str | None
        current_leader: ShareAcknowledgeResponse.LeaderIdAndEpoch
        def __init__(
            self,
            *,
            partition_index: int = ...,
            error_code: int = ...,
            error_message: str | None = ...,
            current_leader: ShareAcknowledgeResponse.LeaderIdAndEpoch = ...,
        ) -> None: ...

    class ShareAcknowledgeTopicResponse(Message):
        topic_id: UUID
        partitions: list[ShareAcknowledgeResponse.PartitionData]
        def __init__(
            self,
            *,
            topic_id: UUID = ...,
            partitions: list[ShareAcknowledgeResponse.PartitionData] = ...,
        ) -> None: ...

    class NodeEndpoint(Message):
        node_id: int
        host: str
        port: int
        rack: str | None
        def __init__(
            self,
            *,
            node_id: int = ...,
            host: str = ...,
            port: int = ...,
            rack: str | None = ...,
        ) -> None: ...

    throttle_time_ms: int
    error_code: int
    error_message: str | None
    acquisition_lock_timeout_ms: int
    responses: list[ShareAcknowledgeResponse.ShareAcknowledgeTopicResponse]
    node_endpoints: list[ShareAcknowledgeResponse.NodeEndpoint]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        error_message: str | None = ...,
        acquisition_lock_timeout_ms: int = ...,
        responses: list[ShareAcknowledgeResponse.ShareAcknowledgeTopicResponse] = ...,
        node_endpoints: list[ShareAcknowledgeResponse.NodeEndpoint] = ...,
    ) -> None: ...

class ShareFetchRequest(Message):
    class AcknowledgementBatch(Message):
        first_offset: int
        last_offset: int
        acknowledge_types: list[int]
        def __init__(
            self,
            *,
            first_offset: int = ...,
            last_offset: int = ...,
            acknowledge_types: list[int] = ...,
        ) -> None: ...

    class FetchPartition(Message):
        partition_index: int
        acknowledgement_batches: list[ShareFetchRequest.AcknowledgementBatch]
        def __init__(
            self,
            *,
            partition_index: int = ...,
            acknowledgement_batches: list[ShareFetchRequest.AcknowledgementBatch] = ...,
        ) -> None: ...

    class FetchTopic(Message):
        topic_id: UUID
        partitions: list[ShareFetchRequest.FetchPartition]
        def __init__(
            self,
            *,
            topic_id: UUID = ...,
            partitions: list[ShareFetchRequest.FetchPartition] = ...,
        ) -> None: ...

    class ForgottenTopic(Message):
        topic_id: UUID
        partitions: list[int]
        def __init__(
            self,
            *,
            topic_id: UUID = ...,
            partitions: list[int] = ...,
        ) -> None: ...

    group_id: str | None
    member_id: str | None
    share_session_epoch: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    max_records: int
    batch_size: int
    share_acquire_mode: int
    is_renew_ack: bool
    topics: list[ShareFetchRequest.FetchTopic]
    forgotten_topics_data: list[ShareFetchRequest.ForgottenTopic]
    def __init__(
        self,
        *,
        group_id: str | None = ...,
        member_id: str | None = ...,
        share_session_epoch: int = ...,
        max_wait_ms: int = ...,
        min_bytes: int = ...,
        max_bytes: int = ...,
        max_records: int = ...,
        batch_size: int = ...,
        share_acquire_mode: int = ...,
        is_renew_ack: bool = ...,
        topics: list[ShareFetchRequest.FetchTopic] = ...,
        forgotten_topics_data: list[ShareFetchRequest.ForgottenTopic] = ...,
    ) -> None: ...

class ShareFetchResponse(Message):
    class LeaderIdAndEpoch(Message):
        leader_id: int
        leader_epoch: int
        def __init__(
            self,
            *,
            leader_id: int = ...,
            leader_epoch: int = ...,
        ) -> None: ...

    class AcquiredRecords(Message):
        first_offset: int
        last_offset: int
        delivery_count: int
        def __init__(
            self,
            *,
            first_offset: int = ...,
            last_offset: int = ...,
            delivery_count: int = ...,
        ) -> None: ...

    class PartitionData(Message):
        partition_index: int
        error_code: int
        error_message: str | None
        acknowledge_error_code: int
        acknowledge_error_message: str | None
        current_leader: ShareFetchResponse.LeaderIdAndEpoch
        records: memoryview
        acquired_records: list[ShareFetchResponse.AcquiredRecords]
        def __init__(
            self,
            *,
            partition_index: int = ...,
            error_code: int = ...,
            error_message: str | None = ...,
            acknowledge_error_code: int = ...,
            acknowledge_error_message: str | None = ...,
            current_leader: ShareFetchResponse.LeaderIdAndEpoch = ...,
            records: Buffer = ...,
            acquired_records: list[ShareFetchResponse.AcquiredRecords] = ...,
        ) -> None: ...

    class ShareFetchableTopicResponse(Message):
        topic_id: UUID
        partitions: list[ShareFetchResponse.PartitionData]
        def __init__(
            self,
            *,
            topic_id: UUID = ...,
            partitions: list[ShareFetchResponse.PartitionData] = ...,
        ) -> None: ...

    class NodeEndpoint(Message):
        node_id: int
        host: str
        port: int
        rack: str | None
        def __init__(
            self,
            *,
            node_id: int = ...,
            host: str = ...,
            port: int = ...,
            rack: str | None = ...,
        ) -> None: ...

    throttle_time_ms: int
    error_code: int
    error_message: str | None
    acquisition_lock_timeout_ms: int
    responses: list[ShareFetchResponse.ShareFetchableTopicResponse]
    node_endpoints: list[ShareFetchResponse.NodeEndpoint]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        error_message: str | None = ...,
        acquisition_lock_timeout_ms: int = ...,
        responses: list[ShareFetchResponse.ShareFetchableTopicResponse] = ...,
        node_endpoints: list[ShareFetchResponse.NodeEndpoint] = ...,
    ) -> None: ...

class ShareGroupCurrentMemberAssignmentKey(Message):
    group_id: str
    member_id: str
    def __init__(
        self,
        *,
        group_id: str = ...,
        member_id: str = ...,
    ) -> None: ...

class ShareGroupCurrentMemberAssignmentValue(Message):
    class TopicPartitions(Message):
        topic_id: UUID
        partitions: list[int]
        def __init__(
            self,
            *,
            topic_id: UUID = ...,
            partitions: list[int] = ...,
        ) -> None: ...

    member_epoch: int
    previous_member_epoch: int
    state: int
    assigned_partitions: list[ShareGroupCurrentMemberAssignmentValue.TopicPartitions]
    def __init__(
        self,
        *,
        member_epoch: int = ...,
        previous_member_epoch: int = ...,
        state: int = ...,
        assigned_partitions: list[ShareGroupCurrentMemberAssignmentValue.TopicPartitions] = ...,
    ) -> None: ...

class ShareGroupDescribeRequest(Message):
    group_ids: list[str]
    include_authorized_operations: bool
    def __init__(
        self,
        *,
        group_ids: list[str] = ...,
        include_authorized_operations: bool = ...,
    ) -> None: ...

class ShareGroupDescribeResponse(Message):
    class TopicPartitions(Message):
        topic_id: UUID
        topic_name: str
        partitions: list[int]
        def __init__(
            self,
            *,
            topic_id: UUID = ...,
            topic_name: str = ...,
            partitions: list[int] = ...,
        ) -> None: ...

    class Assignment(Message):
        topic_partitions: list[ShareGroupDescribeResponse.TopicPartitions]
        def __init__(
            self,
            *,
            topic_partitions: list[ShareGroupDescribeResponse.TopicPartitions] = ...,
        ) -> None: ...

    class Member(Message):
        member_id: str
        rack_id: str | None
        member_epoch: int
        client_id: str
        client_host: str
        subscribed_topic_names: list[str]
        assignment: ShareGroupDescribeResponse.Assignment
        def __init__(
            self,
            *,
            member_id: str = ...,
            rack_id: str | None = ...,
            member_epoch: int = ...,
            client_id: str = ...,
            client_host: str = ...,
            subscribed_topic_names: list[str] = ...,
            assignment: ShareGroupDescribeResponse.Assignment = ...,
        ) -> None: ...

    class DescribedGroup(Message):
        error_code: int
        error_message: str | None
        group_id: str
        group_state: str
        group_epoch: int
        assignment_epoch: int
        assignor_name: str
        members: list[ShareGroupDescribeResponse.Member]
        authorized_operations: int
        def __init__(
            self,
            *,
            error_code: int = ...,
            error_message: str | None = ...,
            group_id: str = ...,
            group_state: str = ...,
            group_epoch: int = ...,
            assignment_epoch: int = ...,
            assignor_name: str = ...,
            members: list[ShareGroupDescribeResponse.Member] = ...,
            authorized_operations: int = ...,
        ) -> None: ...

    throttle_time_ms: int
    groups: list[ShareGroupDescribeResponse.DescribedGroup]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        groups: list[ShareGroupDescribeResponse.DescribedGroup] = ...,
    ) -> None: ...

class ShareGroupHeartbeatRequest(Message):
    group_id: str
    member_id: str
    member_epoch: int
    rack_id: str | None
    subscribed_topic_names: list[str] | None
    def __init__(
        self,
        *,
        group_id: str = ...,
        member_id: str = ...,
        member_epoch: int = ...,
        rack_id: str | None = ...,
        subscribed_topic_names: list[str] | None = ...,
    ) -> None: ...

class ShareGroupHeartbeatResponse(Message):
    class TopicPartitions(Message):
        topic_id: UUID
        partitions: list[int]
        def __init__(
            self,
            *,
            topic_id: UUID = ...,
            partitions: list[int] = ...,
        ) -> None: ...

    class Assignment(Message):
        topic_partitions: list[ShareGroupHeartbeatResponse.TopicPartitions]
        def __init__(
            self,
            *,
            topic_partitions: list[ShareGroupHeartbeatResponse.TopicPartitions] = ...,
        ) -> None: ...

    throttle_time_ms: int
    error_code: int
    error_message: str | None
    member_id: str | None
    member_epoch: int
    heartbeat_interval_ms: int
    assignment: ShareGroupHeartbeatResponse.Assignment | None
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        error_message: str | None = ...,
        member_id: str | None = ...,
        member_epoch: int = ...,
        heartbeat_interval_ms: int = ...,
        assignment: ShareGroupHeartbeatResponse.Assignment | None = ...,
    ) -> None: ...

class ShareGroupMemberMetadataKey(Message):
    group_id: str
    member_id: str
    def __init__(
        self,
        *,
        group_id: str = ...,
        member_id: str = ...,
    ) -> None: ...

class ShareGroupMemberMetadataValue(Message):
    rack_id: str | None
    client_id: str
    client_host: str
    subscribed_topic_names: list[str]
    def __init__(
        self,
        *,
        rack_id: str | None = ...,
        client_id: str = ...,
        client_host: str = ...,
        subscribed_topic_names: list[str] = ...,
    ) -> None: ...

class ShareGroupMetadataKey(Message):
    group_id: str
    def __init__(
        self,
        *,
        group_id: str = ...,
    ) -> None: ...

class ShareGroupMetadataValue(Message):
    epoch: int
    metadata_hash: int
    def __init__(
        self,
        *,
        epoch: int = ...,
        metadata_hash: int = ...,
    ) -> None: ...

class ShareGroupStatePartitionMetadataKey(Message):
    group_id: str
    def __init__(
        self,
        *,
        group_id: str = ...,
    ) -> None: ...

class ShareGroupStatePartitionMetadataValue(Message):
    class TopicPartitionsInfo(Message):
        topic_id: UUID
        topic_name: str
        partitions: list[int]
        def __init__(
            self,
            *,
            topic_id: UUID = ...,
            topic_name: str = ...,
            partitions: list[int] = ...,
        ) -> None: ...

    class TopicInfo(Message):
        topic_id: UUID
        topic_name: str
        def __init__(
            self,
            *,
            topic_id: UUID = ...,
            topic_name: str = ...,
        ) -> None: ...

    initializing_topics: list[ShareGroupStatePartitionMetadataValue.TopicPartitionsInfo]
    initialized_topics: list[ShareGroupStatePartitionMetadataValue.TopicPartitionsInfo]
    deleting_topics: list[ShareGroupStatePartitionMetadataValue.TopicInfo]
    def __init__(
        self,
        *,
        initializing_topics: list[ShareGroupStatePartitionMetadataValue.TopicPartitionsInfo] = ...,
        initialized_topics: list[ShareGroupStatePartitionMetadataValue.TopicPartitionsInfo] = ...,
        deleting_topics: list[ShareGroupStatePartitionMetadataValue.TopicInfo] = ...,
    ) -> None: ...

class ShareGroupTargetAssignmentMemberKey(Message):
    group_id: str
    member_id: str
    def __init__(
        self,
        *,
        group_id: str = ...,
        member_id: str = ...,
    ) -> None: ...

class ShareGroupTargetAssignmentMemberValue(Message):
    class TopicPartition(Message):
        topic_id: UUID
        partitions: list[int]
        def __init__(
            self,
            *,
            topic_id: UUID = ...,
            partitions: list[int] = ...,
        ) -> None: ...

    topic_partitions: list[ShareGroupTargetAssignmentMemberValue.TopicPartition]
    def __init__(
        self,
        *,
        topic_partitions: list[ShareGroupTargetAssignmentMemberValue.TopicPartition] = ...,
    ) -> None: ...

class ShareGroupTargetAssignmentMetadataKey(Message):
    group_id: str
    def __init__(
        self,
        *,
        group_id: str = ...,
    ) -> None: ...

class ShareGroupTargetAssignmentMetadataValue(Message):
    assignment_epoch: int
    assignment_timestamp: int
    def __init__(
        self,
        *,
        assignment_epoch: int = ...,
        assignment_timestamp: int = ...,
    ) -> None: ...

class ShareSnapshotKey(Message):
    group_id: str
    topic_id: UUID
    partition: int
    def __init__(
        self,
        *,
        group_id: str = ...,
        topic_id: UUID = ...,
        partition: int = ...,
    ) -> None: ...

class ShareSnapshotValue(Message):
    class StateBatch(Message):
        first_offset: int
        last_offset: int
        delivery_state: int
        delivery_count: int
        def __init__(
            self,
            *,
            first_offset: int = ...,
            last_offset: int = ...,
            delivery_state: int = ...,
            delivery_count: int = ...,
        ) -> None: ...

    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    create_timestamp: int
    write_timestamp: int
    state_batches: list[ShareSnapshotValue.StateBatch]
    def __init__(
        self,
        *,
        snapshot_epoch: int = ...,
        state_epoch: int = ...,
        leader_epoch: int = ...,
        start_offset: int = ...,
        delivery_complete_count: int = ...,
        create_timestamp: int = ...,
        write_timestamp: int = ...,
        state_batches: list[ShareSnapshotValue.StateBatch] = ...,
    ) -> None: ...

class ShareUpdateKey(Message):
    group_id: str
    topic_id: UUID
    partition: int
    def __init__(
        self,
        *,
        group_id: str = ...,
        topic_id: UUID = ...,
        partition: int = ...,
    ) -> None: ...

class ShareUpdateValue(Message):
    class StateBatch(Message):
        first_offset: int
        last_offset: int
        delivery_state: int
        delivery_count: int
        def __init__(
            self,
            *,
            first_offset: int = ...,
            last_offset: int = ...,
            delivery_state: int = ...,
            delivery_count: int = ...,
        ) -> None: ...

    snapshot_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    state_batches: list[ShareUpdateValue.StateBatch]
    def __init__(
        self,
        *,
        snapshot_epoch: int = ...,
        leader_epoch: int = ...,
        start_offset: int = ...,
        delivery_complete_count: int = ...,
        state_batches: list[ShareUpdateValue.StateBatch] = ...,
    ) -> None: ...

class SnapshotFooterRecord(Message):
    version: int
    def __init__(
        self,
        *,
        version: int = ...,
    ) -> None: ...

class SnapshotHeaderRecord(Message):
    version: int
    last_contained_log_timestamp: int
    def __init__(
        self,
        *,
        version: int = ...,
        last_contained_log_timestamp: int = ...,
    ) -> None: ...

class StreamsGroupCurrentMemberAssignmentKey(Message):
    group_id: str
    member_id: str
    def __init__(
        self,
        *,
        group_id: str = ...,
        member_id: str = ...,
    ) -> None: ...

class StreamsGroupCurrentMemberAssignmentValue(Message):
    class TaskIds(Message):
        subtopology_id: str
        partitions: list[int]
        assignment_epochs: list[int] | None
        def __init__(
            self,
            *,
            subtopology_id: str = ...,
            partitions: list[int] = ...,
            assignment_epochs: list[int] | None = ...,
        ) -> None: ...

    member_epoch: int
    previous_member_epoch: int
    state: int
    active_tasks: list[StreamsGroupCurrentMemberAssignmentValue.TaskIds]
    standby_tasks: list[StreamsGroupCurrentMemberAssignmentValue.TaskIds]
    warmup_tasks: list[StreamsGroupCurrentMemberAssignmentValue.TaskIds]
    active_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentValue.TaskIds]
    standby_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentValue.TaskIds]
    warmup_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentValue.TaskIds]
    def __init__(
        self,
        *,
        member_epoch: int = ...,
        previous_member_epoch: int = ...,
        state: int = ...,
        active_tasks: list[StreamsGroupCurrentMemberAssignmentValue.TaskIds] = ...,
        standby_tasks: list[StreamsGroupCurrentMemberAssignmentValue.TaskIds] = ...,
        warmup_tasks: list[StreamsGroupCurrentMemberAssignmentValue.TaskIds] = ...,
        active_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentValue.TaskIds] = ...,
        standby_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentValue.TaskIds] = ...,
        warmup_tasks_pending_revocation: list[StreamsGroupCurrentMemberAssignmentValue.TaskIds] = ...,
    ) -> None: ...

class StreamsGroupDescribeRequest(Message):
    group_ids: list[str]
    include_authorized_operations: bool
    def __init__(
        self,
        *,
        group_ids: list[str] = ...,
        include_authorized_operations: bool = ...,
    ) -> None: ...

class StreamsGroupDescribeResponse(Message):
    class KeyValue(Message):
        key: str
        value: str
        def __init__(
            self,
            *,
            key: str = ...,
            value: str = ...,
        ) -> None: ...

    class TopicInfo(Message):
        name: str
        partitions: int
        replication_factor: int
        topic_configs: list[StreamsGroupDescribeResponse.KeyValue]
        def __init__(
            self,
            *,
            name: str = ...,
            partitions: int = ...,
            replication_factor: int = ...,
            topic_configs: list[StreamsGroupDescribeResponse.KeyValue] = ...,
        ) -> None: ...

    class Subtopology(Message):
        subtopology_id: str
        source_topics: list[str]
        repartition_sink_topics: list[str]
        state_changelog_topics: list[StreamsGroupDescribeResponse.TopicInfo]
        repartition_source_topics: list[StreamsGroupDescribeResponse.TopicInfo]
        def __init__(
            self,
            *,
            subtopology_id: str = ...,
            source_topics: list[str] = ...,
            repartition_sink_topics: list[str] = ...,
            state_changelog_topics: list[StreamsGroupDescribeResponse.TopicInfo] = ...,
            repartition_source_topics: list[StreamsGroupDescribeResponse.TopicInfo] = ...,
        ) -> None: ...

    class Topology(Message):
        epoch: int
        subtopologies: list[StreamsGroupDescribeResponse.Subtopology] | None
        def __init__(
            self,
            *,
            epoch: int = ...,
            subtopologies: list[StreamsGroupDescribeResponse.Subtopology] | None = ...,
        ) -> None: ...

    class Endpoint(Message):
        host: str
        port: int
        def __init__(
            self,
            *,
            host: str = ...,
            port: int = ...,
        ) -> None: ...

    class TaskOffset(Message):
        subtopology_id: str
        partition: int
        offset: int
        def __init__(
            self,
            *,
            subtopology_id: str = ...,
            partition: int = ...,
            offset: int = ...,
        ) -> None: ...

    class TaskIds(Message):
        subtopology_id: str
        partitions: list[int]
        def __init__(
            self,
            *,
            subtopology_id: str = ...,
            partitions: list[int] = ...,
        ) -> None: ...

    class Assignment(Message):
        active_tasks: list[StreamsGroupDescribeResponse.TaskIds]
        standby_tasks: list[StreamsGroupDescribeResponse.TaskIds]
        warmup_tasks: list[StreamsGroupDescribeResponse.TaskIds]
        def __init__(
            self,
            *,
            active_tasks: list[StreamsGroupDescribeResponse.TaskIds] = ...,
            standby_tasks: list[StreamsGroupDescribeResponse.TaskIds] = ...,
            warmup_tasks: list[StreamsGroupDescribeResponse.TaskIds] = ...,
        ) -> None: ...

    class Member(Message):
        member_id: str
        member_epoch: int
        instance_id: str | None
        rack_id: str | None
        client_id: str
        client_host: str
        topology_epoch: int
        process_id: str
        user_endpoint: StreamsGroupDescribeResponse.Endpoint | None
        client_tags: list[StreamsGroupDescribeResponse.KeyValue]
        task_offsets: list[StreamsGroupDescribeResponse.TaskOffset]
        task_end_offsets: list[StreamsGroupDescribeResponse.TaskOffset]
        assignment: StreamsGroupDescribeResponse.Assignment
        target_assignment: StreamsGroupDescribeResponse.Assignment
        is_classic: bool
        def __init__(
            self,
            *,
            member_id: str = ...,
            member_epoch: int = ...,
            instance_id: str | None = ...,
            rack_id: str | None = ...,
            client_id: str = ...,
            client_host: str = ...,
            topology_epoch: int = ...,
            process_id: str = ...,
            user_endpoint: StreamsGroupDescribeResponse.Endpoint | None = ...,
            client_tags: list[StreamsGroupDescribeResponse.KeyValue] = ...,
            task_offsets: list[StreamsGroupDescribeResponse.TaskOffset] = ...,
            task_end_offsets: list[StreamsGroupDescribeResponse.TaskOffset] = ...,
            assignment: StreamsGroupDescribeResponse.Assignment = ...,
            target_assignment: StreamsGroupDescribeResponse.Assignment = ...,
            is_classic: bool = ...,
        ) -> None: ...

    class DescribedGroup(Message):
        error_code: int
        error_message: str | None
        group_id: str
        group_state: str
        group_epoch: int
        assignment_epoch: int
        topology: StreamsGroupDescribeResponse.Topology | None
        members: list[StreamsGroupDescribeResponse.Member]
        authorized_operations: int
        def __init__(
            self,
            *,
            error_code: int = ...,
            error_message: str | None = ...,
            group_id: str = ...,
            group_state: str = ...,
            group_epoch: int = ...,
            assignment_epoch: int = ...,
            topology: StreamsGroupDescribeResponse.Topology | None = ...,
            members: list[StreamsGroupDescribeResponse.Member] = ...,
            authorized_operations: int = ...,
        ) -> None: ...

    throttle_time_ms: int
    groups: list[StreamsGroupDescribeResponse.DescribedGroup]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        groups: list[StreamsGroupDescribeResponse.DescribedGroup] = ...,
    ) -> None: ...

class StreamsGroupHeartbeatRequest(Message):
    class KeyValue(Message):
        key: str
        value: str
        def __init__(
            self,
            *,
            key: str = ...,
            value: str = ...,
        ) -> None: ...

    class TopicInfo(Message):
        name: str
        partitions: int
        replication_factor: int
        topic_configs: list[StreamsGroupHeartbeatRequest.KeyValue]
        def __init__(
            self,
            *,
            name: str = ...,
            partitions: int = ...,
            replication_factor: int = ...,
            topic_configs: list[StreamsGroupHeartbeatRequest.KeyValue] = ...,
        ) -> None: ...

    class CopartitionGroup(Message):
        source_topics: list[int]
        source_topic_regex: list[int]
        repartition_source_topics: list[int]
        def __init__(
            self,
            *,
            source_topics: list[int] = ...,
            source_topic_regex: list[int] = ...,
            repartition_source_topics: list[int] = ...,
        ) -> None: ...

    class Subtopology(Message):
        subtopology_id: str
        source_topics: list[str]
        source_topic_regex: list[str]
        state_changelog_topics: list[StreamsGroupHeartbeatRequest.TopicInfo]
        repartition_sink_topics: list[str]
        repartition_source_topics: list[StreamsGroupHeartbeatRequest.TopicInfo]
        copartition_groups: list[StreamsGroupHeartbeatRequest.CopartitionGroup]
        def __init__(
            self,
            *,
            subtopology_id: str = ...,
            source_topics: list[str] = ...,
            source_topic_regex: list[str] = ...,
            state_changelog_topics: list[StreamsGroupHeartbeatRequest.TopicInfo] = ...,
            repartition_sink_topics: list[str] = ...,
            repartition_source_topics: list[StreamsGroupHeartbeatRequest.TopicInfo] = ...,
            copartition_groups: list[StreamsGroupHeartbeatRequest.CopartitionGroup] = ...,
        ) -> None: ...

    class Topology(Message):
        epoch: int
        subtopologies: list[StreamsGroupHeartbeatRequest.Subtopology]
        def __init__(
            self,
            *,
            epoch: int = ...,
            subtopologies: list[StreamsGroupHeartbeatRequest.Subtopology] = ...,
        ) -> None: ...

    class TaskIds(Message):
        subtopology_id: str
        partitions: list[int]
        def __init__(
            self,
            *,
            subtopology_id: str = ...,
            partitions: list[int] = ...,
        ) -> None: ...

    class Endpoint(Message):
        host: str
        port: int
        def __init__(
            self,
            *,
            host: str = ...,
            port: int = ...,
        ) -> None: ...

    class TaskOffset(Message):
        subtopology_id: str
        partition: int
        offset: int
        def __init__(
            self,
            *,
            subtopology_id: str = ...,
            partition: int = ...,
            offset: int = ...,
        ) -> None: ...

    group_id: str
    member_id: str
    member_epoch: int
    endpoint_information_epoch: int
    instance_id: str | None
    rack_id: str | None
    rebalance_timeout_ms: int
    topology: StreamsGroupHeartbeatRequest.Topology | None
    active_tasks: list[StreamsGroupHeartbeatRequest.TaskIds] | None
    standby_tasks: list[StreamsGroupHeartbeatRequest.TaskIds] | None
    warmup_tasks: list[StreamsGroupHeartbeatRequest.TaskIds] | None
    process_id: str | None
    user_endpoint: StreamsGroupHeartbeatRequest.Endpoint | None
    client_tags: list[StreamsGroupHeartbeatRequest.KeyValue] | None
    task_offsets: list[StreamsGroupHeartbeatRequest.TaskOffset] | None
    task_end_offsets: list[StreamsGroupHeartbeatRequest.TaskOffset] | None
    shutdown_application: bool
    def __init__(
        self,
        *,
        group_id: str = ...,
        member_id: str = ...,
        member_epoch: int = ...,
        endpoint_information_epoch: int = ...,
        instance_id: str | None = ...,
        rack_id: str | None = ...,
        rebalance_timeout_ms: int = ...,
        topology: StreamsGroupHeartbeatRequest.Topology | None = ...,
        active_tasks: list[StreamsGroupHeartbeatRequest.TaskIds] | None = ...,
        standby_tasks: list[StreamsGroupHeartbeatRequest.TaskIds] | None = ...,
        warmup_tasks: list[StreamsGroupHeartbeatRequest.TaskIds] | None = ...,
        process_id: str | None = ...,
        user_endpoint: StreamsGroupHeartbeatRequest.Endpoint | None = ...,
        client_tags: list[StreamsGroupHeartbeatRequest.KeyValue] | None = ...,
        task_offsets: list[StreamsGroupHeartbeatRequest.TaskOffset] | None = ...,
        task_end_offsets: list[StreamsGroupHeartbeatRequest.TaskOffset] | None = ...,
        shutdown_application: bool = ...,
    ) -> None: ...

class StreamsGroupHeartbeatResponse(Message):
    class Status(Message):
        status_code: int
        status_detail: str
        def __init__(
            self,
            *,
            status_code: int = ...,
            status_detail: str = ...,
        ) -> None: ...

    class TaskIds(Message):
        subtopology_id: str
        partitions: list[int]
        def __init__(
            self,
            *,
            subtopology_id: str = ...,
            partitions: list[int] = ...,
        ) -> None: ...

    class Endpoint(Message):
        host: str
        port: int
        def __init__(
            self,
            *,
            host: str = ...,
            port: int = ...,
        ) -> None: ...

    class TopicPartition(Message):
        topic: str
        partitions: list[int]
        def __init__(
            self,
            *,
            topic: str = ...,
            partitions: list[int] = ...,
        ) -> None: ...

    class EndpointToPartitions(Message):
        user_endpoint: StreamsGroupHeartbeatResponse.Endpoint
        active_partitions: list[StreamsGroupHeartbeatResponse.TopicPartition]
        standby_partitions: list[StreamsGroupHeartbeatResponse.TopicPartition]
        def __init__(
            self,
            *,
            user_endpoint: StreamsGroupHeartbeatResponse.Endpoint = ...,
            active_partitions: list[StreamsGroupHeartbeatResponse.TopicPartition] = ...,
            standby_partitions: list[StreamsGroupHeartbeatResponse.TopicPartition] = ...,
        ) -> None: ...

    throttle_time_ms: int
    error_code: int
    error_message: str | None
    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int
    acceptable_recovery_lag: int
    task_offset_interval_ms: int
    status: list[StreamsGroupHeartbeatResponse.Status] | None
    active_tasks: list[StreamsGroupHeartbeatResponse.TaskIds] | None
    standby_tasks: list[StreamsGroupHeartbeatResponse.TaskIds] | None
    warmup_tasks: list[StreamsGroupHeartbeatResponse.TaskIds] | None
    endpoint_information_epoch: int
    partitions_by_user_endpoint: list[StreamsGroupHeartbeatResponse.EndpointToPartitions] | None
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        error_message: str | None = ...,
        member_id: str = ...,
        member_epoch: int = ...,
        heartbeat_interval_ms: int = ...,
        acceptable_recovery_lag: int = ...,
        task_offset_interval_ms: int = ...,
        status: list[StreamsGroupHeartbeatResponse.Status] | None = ...,
        active_tasks: list[StreamsGroupHeartbeatResponse.TaskIds] | None = ...,
        standby_tasks: list[StreamsGroupHeartbeatResponse.TaskIds] | None = ...,
        warmup_tasks: list[StreamsGroupHeartbeatResponse.TaskIds] | None = ...,
        endpoint_information_epoch: int = ...,
        partitions_by_user_endpoint: list[StreamsGroupHeartbeatResponse.EndpointToPartitions] | None = ...,
    ) -> None: ...

class StreamsGroupMemberMetadataKey(Message):
    group_id: str
    member_id: str
    def __init__(
        self,
        *,
        group_id: str = ...,
        member_id: str = ...,
    ) -> None: ...

class StreamsGroupMemberMetadataValue(Message):
    class Endpoint(Message):
        host: str
        port: int
        def __init__(
            self,
            *,
            host: str = ...,
            port: int = ...,
        ) -> None: ...

    class KeyValue(Message):
        key: str
        value: str
        def __init__(
            self,
            *,
            key: str = ...,
            value: str = ...,
        ) -> None: ...

    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    topology_epoch: int
    process_id: str
    user_endpoint: StreamsGroupMemberMetadataValue.Endpoint | None
    client_tags: list[StreamsGroupMemberMetadataValue.KeyValue]
    def __init__(
        self,
        *,
        instance_id: str | None = ...,
        rack_id: str | None = ...,
        client_id: str = ...,
        client_host: str = ...,
        rebalance_timeout_ms: int = ...,
        topology_epoch: int = ...,
        process_id: str = ...,
        user_endpoint: StreamsGroupMemberMetadataValue.Endpoint | None = ...,
        client_tags: list[StreamsGroupMemberMetadataValue.KeyValue] = ...,
    ) -> None: ...

class StreamsGroupMetadataKey(Message):
    group_id: str
    def __init__(
        self,
        *,
        group_id: str = ...,
    ) -> None: ...

class StreamsGroupMetadataValue(Message):
    class LastAssignmentConfig(Message):
        key: str
        value: str
        def __init__(
            self,
            *,
            key: str = ...,
            value: str = ...,
        ) -> None: ...

    epoch: int
    metadata_hash: int
    validated_topology_epoch: int
    last_assignment_configs: list[StreamsGroupMetadataValue.LastAssignmentConfig] | None
    def __init__(
        self,
        *,
        epoch: int = ...,
        metadata_hash: int = ...,
        validated_topology_epoch: int = ...,
        last_assignment_configs: list[StreamsGroupMetadataValue.LastAssignmentConfig] | None = ...,
    ) -> None: ...

class StreamsGroupTargetAssignmentMemberKey(Message):
    group_id: str
    member_id: str
    def __init__(
        self,
        *,
        group_id: str = ...,
        member_id: str = ...,
    ) -> None: ...

class StreamsGroupTargetAssignmentMemberValue(Message):
    class TaskIds(Message):
        subtopology_id: str
        partitions: list[int]
        def __init__(
            self,
            *,
            subtopology_id: str = ...,
            partitions: list[int] = ...,
        ) -> None: ...

    active_tasks: list[StreamsGroupTargetAssignmentMemberValue.TaskIds]
    standby_tasks: list[StreamsGroupTargetAssignmentMemberValue.TaskIds]
    warmup_tasks: list[StreamsGroupTargetAssignmentMemberValue.TaskIds]
    def __init__(
        self,
        *,
        active_tasks: list[StreamsGroupTargetAssignmentMemberValue.TaskIds] = ...,
        standby_tasks: list[StreamsGroupTargetAssignmentMemberValue.TaskIds] = ...,
        warmup_tasks: list[StreamsGroupTargetAssignmentMemberValue.TaskIds] = ...,
    ) -> None: ...

class StreamsGroupTargetAssignmentMetadataKey(Message):
    group_id: str
    def __init__(
        self,
        *,
        group_id: str = ...,
    ) -> None: ...

class StreamsGroupTargetAssignmentMetadataValue(Message):
    assignment_epoch: int
    assignment_timestamp: int
    def __init__(
        self,
        *,
        assignment_epoch: int = ...,
        assignment_timestamp: int = ...,
    ) -> None: ...

class StreamsGroupTopologyKey(Message):
    group_id: str
    def __init__(
        self,
        *,
        group_id: str = ...,
    ) -> None: ...

class StreamsGroupTopologyValue(Message):
    class TopicConfig(Message):
        key: str
        value: str
        def __init__(
            self,
            *,
            key: str = ...,
            value: str = ...,
        ) -> None: ...

    class TopicInfo(Message):
        name: str
        partitions: int
        replication_factor: int
        topic_configs: list[StreamsGroupTopologyValue.TopicConfig]
        def __init__(
            self,
            *,
            name: str = ...,
            partitions: int = ...,
            replication_factor: int = ...,
            topic_configs: list[StreamsGroupTopologyValue.TopicConfig] = ...,
        ) -> None: ...

    class CopartitionGroup(Message):
        source_topics: list[int]
        source_topic_regex: list[int]
        repartition_source_topics: list[int]
        def __init__(
            self,
            *,
            source_topics: list[int] = ...,
            source_topic_regex: list[int] = ...,
            repartition_source_topics: list[int] = ...,
        ) -> None: ...

    class Subtopology(Message):
        subtopology_id: str
        source_topics: list[str]
        source_topic_regex: list[str]
        state_changelog_topics: list[StreamsGroupTopologyValue.TopicInfo]
        repartition_sink_topics: list[str]
        repartition_source_topics: list[StreamsGroupTopologyValue.TopicInfo]
        copartition_groups: list[StreamsGroupTopologyValue.CopartitionGroup]
        def __init__(
            self,
            *,
            subtopology_id: str = ...,
            source_topics: list[str] = ...,
            source_topic_regex: list[str] = ...,
            state_changelog_topics: list[StreamsGroupTopologyValue.TopicInfo] = ...,
            repartition_sink_topics: list[str] = ...,
            repartition_source_topics: list[StreamsGroupTopologyValue.TopicInfo] = ...,
            copartition_groups: list[StreamsGroupTopologyValue.CopartitionGroup] = ...,
        ) -> None: ...

    epoch: int
    subtopologies: list[StreamsGroupTopologyValue.Subtopology]
    def __init__(
        self,
        *,
        epoch: int = ...,
        subtopologies: list[StreamsGroupTopologyValue.Subtopology] = ...,
    ) -> None: ...

class SyncGroupRequest(Message):
    class SyncGroupRequestAssignment(Message):
        member_id: str
        assignment: bytes
        def __init__(
            self,
            *,
            member_id: str = ...,
            assignment: bytes = ...,
        ) -> None: ...

    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None
    protocol_type: str | None
    protocol_name: str | None
    assignments: list[SyncGroupRequest.SyncGroupRequestAssignment]
    def __init__(
        self,
        *,
        group_id: str = ...,
        generation_id: int = ...,
        member_id: str = ...,
        group_instance_id: str | None = ...,
        protocol_type: str | None = ...,
        protocol_name: str | None = ...,
        assignments: list[SyncGroupRequest.SyncGroupRequestAssignment] = ...,
    ) -> None: ...

class SyncGroupResponse(Message):
    throttle_time_ms: int
    error_code: int
    protocol_type: str | None
    protocol_name: str | None
    assignment: bytes
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        protocol_type: str | None = ...,
        protocol_name: str | None = ...,
        assignment: bytes = ...,
    ) -> None: ...

class TopicRecord(Message):
    name: str
    topic_id: UUID
    def __init__(
        self,
        *,
        name: str = ...,
        topic_id: UUID = ...,
    ) -> None: ...

class TransactionLogKey(Message):
    transactional_id: str
    def __init__(
        self,
        *,
        transactional_id: str = ...,
    ) -> None: ...

class TransactionLogValue(Message):
    class PartitionsSchema(Message):
        topic: str
        partition_ids: list[int]
        def __init__(
            self,
            *,
            topic: str = ...,
            partition_ids: list[int] = ...,
        ) -> None: ...

    producer_id: int
    previous_producer_id: int
    next_producer_id: int
    producer_epoch: int
    next_producer_epoch: int
    transaction_timeout_ms: int
    transaction_status: int
    transaction_partitions: list[TransactionLogValue.PartitionsSchema] | None
    transaction_last_update_timestamp_ms: int
    transaction_start_timestamp_ms: int
    client_transaction_version: int
    def __init__(
        self,
        *,
        producer_id: int = ...,
        previous_producer_id: int = ...,
        next_producer_id: int = ...,
        producer_epoch: int = ...,
        next_producer_epoch: int = ...,
        transaction_timeout_ms: int = ...,
        transaction_status: int = ...,
        transaction_partitions: list[TransactionLogValue.PartitionsSchema] | None = ...,
        transaction_last_update_timestamp_ms: int = ...,
        transaction_start_timestamp_ms: int = ...,
        client_transaction_version: int = ...,
    ) -> None: ...

class TxnOffsetCommitRequest(Message):
    class TxnOffsetCommitRequestPartition(Message):
        partition_index: int
        committed_offset: int
        committed_leader_epoch: int
        committed_metadata: str | None
        def __init__(
            self,
            *,
            partition_index: int = ...,
            committed_offset: int = ...,
            committed_leader_epoch: int = ...,
            committed_metadata: str | None = ...,
        ) -> None: ...

    class TxnOffsetCommitRequestTopic(Message):
        name: str
        partitions: list[TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition]
        def __init__(
            self,
            *,
            name: str = ...,
            partitions: list[TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition] = ...,
        ) -> None: ...

    transactional_id: str
    group_id: str
    producer_id: int
    producer_epoch: int
    generation_id: int
    member_id: str
    group_instance_id: str | None
    topics: list[TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic]
    def __init__(
        self,
        *,
        transactional_id: str = ...,
        group_id: str = ...,
        producer_id: int = ...,
        producer_epoch: int = ...,
        generation_id: int = ...,
        member_id: str = ...,
        group_instance_id: str | None = ...,
        topics: list[TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic] = ...,
    ) -> None: ...

class TxnOffsetCommitResponse(Message):
    class TxnOffsetCommitResponsePartition(Message):
        partition_index: int
        error_code: int
        def __init__(
            self,
            *,
            partition_index: int = ...,
            error_code: int = ...,
        ) -> None: ...

    class TxnOffsetCommitResponseTopic(Message):
        name: str
        partitions: list[TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition]
        def __init__(
            self,
            *,
            name: str = ...,
            partitions: list[TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition] = ...,
        ) -> None: ...

    throttle_time_ms: int
    topics: list[TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        topics: list[TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic] = ...,
    ) -> None: ...

class UnfenceBrokerRecord(Message):
    id: int
    epoch: int
    def __init__(
        self,
        *,
        id: int = ...,
        epoch: int = ...,
    ) -> None: ...

class UnregisterBrokerRecord(Message):
    broker_id: int
    broker_epoch: int
    def __init__(
        self,
        *,
        broker_id: int = ...,
        broker_epoch: int = ...,
    ) -> None: ...

class UnregisterBrokerRequest(Message):
    broker_id: int
    def __init__(
        self,
        *,
        broker_id: int = ...,
    ) -> None: ...

class UnregisterBrokerResponse(Message):
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        error_message: str | None = ...,
    ) -> None: ...

class UpdateFeaturesRequest(Message):
    class FeatureUpdateKey(Message):
        feature: str
        max_version_level: int
        allow_downgrade: bool
        upgrade_type: int
        def __init__(
            self,
            *,
            feature: str = ...,
            max_version_level: int = ...,
            allow_downgrade: bool = ...,
            upgrade_type: int = ...,
        ) -> None: ...

    timeout_ms: int
    feature_updates: list[UpdateFeaturesRequest.FeatureUpdateKey]
    validate_only: bool
    def __init__(
        self,
        *,
        timeout_ms: int = ...,
        feature_updates: list[UpdateFeaturesRequest.FeatureUpdateKey] = ...,
        validate_only: bool = ...,
    ) -> None: ...

class UpdateFeaturesResponse(Message):
    class UpdatableFeatureResult(Message):
        feature: str
        error_code: int
        error_message: str | None
        def __init__(
            self,
            *,
            feature: str = ...,
            error_code: int = ...,
            error_message: str | None = ...,
        ) -> None: ...

    throttle_time_ms: int
    error_code: int
    error_message: str | None
    results: list[UpdateFeaturesResponse.UpdatableFeatureResult]
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        error_message: str | None = ...,
        results: list[UpdateFeaturesResponse.UpdatableFeatureResult] = ...,
    ) -> None: ...

class UpdateRaftVoterRequest(Message):
    class Listener(Message):
        name: str
        host: str
        port: int
        def __init__(
            self,
            *,
            name: str = ...,
            host: str = ...,
            port: int = ...,
        ) -> None: ...

    class KRaftVersionFeature(Message):
        min_supported_version: int
        max_supported_version: int
        def __init__(
            self,
            *,
            min_supported_version: int = ...,
            max_supported_version: int = ...,
        ) -> None: ...

    cluster_id: str | None
    current_leader_epoch: int
    voter_id: int
    voter_directory_id: UUID
    listeners: list[UpdateRaftVoterRequest.Listener]
    k_raft_version_feature: UpdateRaftVoterRequest.KRaftVersionFeature
    def __init__(
        self,
        *,
        cluster_id: str | None = ...,
        current_leader_epoch: int = ...,
        voter_id: int = ...,
        voter_directory_id: UUID = ...,
        listeners: list[UpdateRaftVoterRequest.Listener] = ...,
        k_raft_version_feature: UpdateRaftVoterRequest.KRaftVersionFeature = ...,
    ) -> None: ...

class UpdateRaftVoterResponse(Message):
    class CurrentLeader(Message):
        leader_id: int
        leader_epoch: int
        host: str
        port: int
        def __init__(
            self,
            *,
            leader_id: int = ...,
            leader_epoch: int = ...,
            host: str = ...,
            port: int = ...,
        ) -> None: ...

    throttle_time_ms: int
    error_code: int
    current_leader: UpdateRaftVoterResponse.CurrentLeader
    def __init__(
        self,
        *,
        throttle_time_ms: int = ...,
        error_code: int = ...,
        current_leader: UpdateRaftVoterResponse.CurrentLeader = ...,
    ) -> None: ...

class UserScramCredentialRecord(Message):
    name: str
    mechanism: int
    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int
    def __init__(
        self,
        *,
        name: str = ...,
        mechanism: int = ...,
        salt: bytes = ...,
        stored_key: bytes = ...,
        server_key: bytes = ...,
        iterations: int = ...,
    ) -> None: ...

class VoteRequest(Message):
    class PartitionData(Message):
        partition_index: int
        replica_epoch: int
        replica_id: int
        replica_directory_id: UUID
        voter_directory_id: UUID
        last_offset_epoch: int
        last_offset: int
        pre_vote: bool
        def __init__(
            self,
            *,
            partition_index: int = ...,
            replica_epoch: int = ...,
            replica_id: int = ...,
            replica_directory_id: UUID = ...,
            voter_directory_id: UUID = ...,
            last_offset_epoch: int = ...,
            last_offset: int = ...,
            pre_vote: bool = ...,
        ) -> None: ...

    class TopicData(Message):
        topic_name: str
        partitions: list[VoteRequest.PartitionData]
        def __init__(
            self,
            *,
            topic_name: str = ...,
            partitions: list[VoteRequest.PartitionData] = ...,
        ) -> None: ...

    cluster_id: str | None
    voter_id: int
    topics: list[VoteRequest.TopicData]
    def __init__(
        self,
        *,
        cluster_id: str | None = ...,
        voter_id: int = ...,
        topics: list[VoteRequest.TopicData] = ...,
    ) -> None: ...

class VoteResponse(Message):
    class PartitionData(Message):
        partition_index: int
        error_code: int
        leader_id: int
        leader_epoch: int
        vote_granted: bool
        def __init__(
            self,
            *,
            partition_index: int = ...,
            error_code: int = ...,
            leader_id: int = ...,
            leader_epoch: int = ...,
            vote_granted: bool = ...,
        ) -> None: ...

    class TopicData(Message):
        topic_name: str
        partitions: list[VoteResponse.PartitionData]
        def __init__(
            self,
            *,
            topic_name: str = ...,
            partitions: list[VoteResponse.PartitionData] = ...,
        ) -> None: ...

    class NodeEndpoint(Message):
        node_id: int
        host: str
        port: int
        def __init__(
            self,
            *,
            node_id: int = ...,
            host: str = ...,
            port: int = ...,
        ) -> None: ...

    error_code: int
    topics: list[VoteResponse.TopicData]
    node_endpoints: list[VoteResponse.NodeEndpoint]
    def __init__(
        self,
        *,
        error_code: int = ...,
        topics: list[VoteResponse.TopicData] = ...,
        node_endpoints: list[VoteResponse.NodeEndpoint] = ...,
    ) -> None: ...

class VotersRecord(Message):
    class Endpoint(Message):
        name: str
        host: str
        port: int
        def __init__(
            self,
            *,
            name: str = ...,
            host: str = ...,
            port: int = ...,
        ) -> None: ...

    class KRaftVersionFeature(Message):
        min_supported_version: int
        max_supported_version: int
        def __init__(
            self,
            *,
            min_supported_version: int = ...,
            max_supported_version: int = ...,
        ) -> None: ...

    class Voter(Message):
        voter_id: int
        voter_directory_id: UUID
        endpoints: list[VotersRecord.Endpoint]
        k_raft_version_feature: VotersRecord.KRaftVersionFeature
        def __init__(
            self,
            *,
            voter_id: int = ...,
            voter_directory_id: UUID = ...,
            endpoints: list[VotersRecord.Endpoint] = ...,
            k_raft_version_feature: VotersRecord.KRaftVersionFeature = ...,
        ) -> None: ...

    version: int
    voters: list[VotersRecord.Voter]
    def __init__(
        self,
        *,
        version: int = ...,
        voters: list[VotersRecord.Voter] = ...,
    ) -> None: ...

class WriteShareGroupStateRequest(Message):
    class StateBatch(Message):
        first_offset: int
        last_offset: int
        delivery_state: int
        delivery_count: int
        def __init__(
            self,
            *,
            first_offset: int = ...,
            last_offset: int = ...,
            delivery_state: int = ...,
            delivery_count: int = ...,
        ) -> None: ...

    class PartitionData(Message):
        partition: int
        state_epoch: int
        leader_epoch: int
        start_offset: int
        delivery_complete_count: int
        state_batches: list[WriteShareGroupStateRequest.StateBatch]
        def __init__(
            self,
            *,
            partition: int = ...,
            state_epoch: int = ...,
            leader_epoch: int = ...,
            start_offset: int = ...,
            delivery_complete_count: int = ...,
            state_batches: list[WriteShareGroupStateRequest.StateBatch] = ...,
        ) -> None: ...

    class WriteStateData(Message):
        topic_id: UUID
        partitions: list[WriteShareGroupStateRequest.PartitionData]
        def __init__(
            self,
            *,
            topic_id: UUID = ...,
            partitions: list[WriteShareGroupStateRequest.PartitionData] = ...,
        ) -> None: ...

    group_id: str
    topics: list[WriteShareGroupStateRequest.WriteStateData]
    def __init__(
        self,
        *,
        group_id: str = ...,
        topics: list[WriteShareGroupStateRequest.WriteStateData] = ...,
    ) -> None: ...

class WriteShareGroupStateResponse(Message):
    class PartitionResult(Message):
        partition: int
        error_code: int
        error_message: str | None
        def __init__(
            self,
            *,
            partition: int = ...,
            error_code: int = ...,
            error_message: str | None = ...,
        ) -> None: ...

    class WriteStateResult(Message):
        topic_id: UUID
        partitions: list[WriteShareGroupStateResponse.PartitionResult]
        def __init__(
            self,
            *,
            topic_id: UUID = ...,
            partitions: list[WriteShareGroupStateResponse.PartitionResult] = ...,
        ) -> None: ...

    results: list[WriteShareGroupStateResponse.WriteStateResult]
    def __init__(
        self,
        *,
        results: list[WriteShareGroupStateResponse.WriteStateResult] = ...,
    ) -> None: ...

class WriteTxnMarkersRequest(Message):
    class WritableTxnMarkerTopic(Message):
        name: str
        partition_indexes: list[int]
        def __init__(
            self,
            *,
            name: str = ...,
            partition_indexes: list[int] = ...,
        ) -> None: ...

    class WritableTxnMarker(Message):
        producer_id: int
        producer_epoch: int
        transaction_result: bool
        topics: list[WriteTxnMarkersRequest.WritableTxnMarkerTopic]
        coordinator_epoch: int
        transaction_version: int
        def __init__(
            self,
            *,
            producer_id: int = ...,
            producer_epoch: int = ...,
            transaction_result: bool = ...,
            topics: list[WriteTxnMarkersRequest.WritableTxnMarkerTopic] = ...,
            coordinator_epoch: int = ...,
            transaction_version: int = ...,
        ) -> None: ...

    markers: list[WriteTxnMarkersRequest.WritableTxnMarker]
    def __init__(
        self,
        *,
        markers: list[WriteTxnMarkersRequest.WritableTxnMarker] = ...,
    ) -> None: ...

class WriteTxnMarkersResponse(Message):
    class WritableTxnMarkerPartitionResult(Message):
        partition_index: int
        error_code: int
        def __init__(
            self,
            *,
            partition_index: int = ...,
            error_code: int = ...,
        ) -> None: ...

    class WritableTxnMarkerTopicResult(Message):
        name: str
        partitions: list[WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult]
        def __init__(
            self,
            *,
            name: str = ...,
            partitions: list[WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult] = ...,
        ) -> None: ...

    class WritableTxnMarkerResult(Message):
        producer_id: int
        topics: list[WriteTxnMarkersResponse.WritableTxnMarkerTopicResult]
        def __init__(
            self,
            *,
            producer_id: int = ...,
            topics: list[WriteTxnMarkersResponse.WritableTxnMarkerTopicResult] = ...,
        ) -> None: ...

    markers: list[WriteTxnMarkersResponse.WritableTxnMarkerResult]
    def __init__(
        self,
        *,
        markers: list[WriteTxnMarkersResponse.WritableTxnMarkerResult] = ...,
    ) -> None: ...

class ZkMigrationStateRecord(Message):
    zk_migration_state: int
    def __init__(
        self,
        *,
        zk_migration_state: int = ...,
    ) -> None: ...
