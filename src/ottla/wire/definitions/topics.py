"""Topics and partitions: created, deleted, grown, moved."""

from typing import Final

MESSAGES: Final = """\
CreateTopicsRequest: request 19, versions 2-7, flexible 5+, on broker controller
  topics: [CreatableTopic]
    name: string
    num_partitions: int32
    replication_factor: int16
    assignments: [CreatableReplicaAssignment]
      partition_index: int32
      broker_ids: [int32]
    configs: [CreatableTopicConfig]
      name: string
      value: string?
  timeout_ms: int32 = 60000
  validate_only: bool

CreateTopicsResponse: response 19, versions 2-7, flexible 5+
  throttle_time_ms: int32
  topics: [CreatableTopicResult]
    name: string
    topic_id: uuid 7+
    error_code: int16
    error_message: string?
    topic_config_error_code: int16 5+ tag 0
    num_partitions: int32 5+ = -1
    replication_factor: int16 5+ = -1
    configs: [CreatableTopicConfigs]? 5+
      name: string
      value: string?
      read_only: bool
      config_source: int8 = -1
      is_sensitive: bool

DeleteTopicsRequest: request 20, versions 1-6, flexible 4+, on broker controller
  topics: [DeleteTopicState] 6+
    name: string? = null
    topic_id: uuid
  topic_names: [string] 1-5
  timeout_ms: int32

DeleteTopicsResponse: response 20, versions 1-6, flexible 4+
  throttle_time_ms: int32
  responses: [DeletableTopicResult]
    name: string?6+
    topic_id: uuid 6+
    error_code: int16
    error_message: string? 5+ = null

CreatePartitionsRequest: request 37, versions 0-3, flexible 2+, on broker controller
  topics: [CreatePartitionsTopic]
    name: string
    count: int32
    assignments: [CreatePartitionsAssignment]?
      broker_ids: [int32]
  timeout_ms: int32
  validate_only: bool

CreatePartitionsResponse: response 37, versions 0-3, flexible 2+
  throttle_time_ms: int32
  results: [CreatePartitionsTopicResult]
    name: string
    error_code: int16
    error_message: string? = null

ElectLeadersRequest: request 43, versions 0-2, flexible 2+, on broker controller
  election_type: int8 1+
  topic_partitions: [TopicPartitions]?
    topic: string
    partitions: [int32]
  timeout_ms: int32 = 60000

ElectLeadersResponse: response 43, versions 0-2, flexible 2+
  throttle_time_ms: int32
  error_code: int16 1+
  replica_election_results: [ReplicaElectionResult]
    topic: string
    partition_result: [PartitionResult]
      partition_id: int32
      error_code: int16
      error_message: string?

AlterPartitionReassignmentsRequest: request 45, versions 0-1, flexible 0+, on broker controller
  timeout_ms: int32 = 60000
  allow_replication_factor_change: bool 1+ = true
  topics: [ReassignableTopic]
    name: string
    partitions: [ReassignablePartition]
      partition_index: int32
      replicas: [int32]? = null

AlterPartitionReassignmentsResponse: response 45, versions 0-1, flexible 0+
  throttle_time_ms: int32
  allow_replication_factor_change: bool 1+ = true
  error_code: int16
  error_message: string?
  responses: [ReassignableTopicResponse]
    name: string
    partitions: [ReassignablePartitionResponse]
      partition_index: int32
      error_code: int16
      error_message: string?

ListPartitionReassignmentsRequest: request 46, versions 0, flexible 0+, on broker controller
  timeout_ms: int32 = 60000
  topics: [ListPartitionReassignmentsTopics]? = null
    name: string
    partition_indexes: [int32]

ListPartitionReassignmentsResponse: response 46, versions 0, flexible 0+
  throttle_time_ms: int32
  error_code: int16
  error_message: string?
  topics: [OngoingTopicReassignment]
    name: string
    partitions: [OngoingPartitionReassignment]
      partition_index: int32
      replicas: [int32]
      adding_replicas: [int32]
      removing_replicas: [int32]
"""
