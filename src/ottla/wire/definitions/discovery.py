"""How a client finds its way: versions, the cluster, topics, coordinators."""

from typing import Final

MESSAGES: Final = """\
ApiVersionsRequest: request 18, versions 0-4, flexible 3+, on broker controller
  client_software_name: string 3+
  client_software_version: string 3+

ApiVersionsResponse: response 18, versions 0-4, flexible 3+
  error_code: int16
  api_keys: [ApiVersion]
    api_key: int16
    min_version: int16
    max_version: int16
  throttle_time_ms: int32 1+
  supported_features: [SupportedFeatureKey] 3+ tag 0
    name: string
    min_version: int16
    max_version: int16
  finalized_features_epoch: int64 3+ tag 1 = -1
  finalized_features: [FinalizedFeatureKey] 3+ tag 2
    name: string
    max_version_level: int16
    min_version_level: int16
  zk_migration_ready: bool 3+ tag 3

MetadataRequest: request 3, versions 0-13, flexible 9+, on broker
  topics: [MetadataRequestTopic]?1+
    topic_id: uuid 10+
    name: string?10+
  allow_auto_topic_creation: bool 4+ = true
  include_cluster_authorized_operations: bool 8-10
  include_topic_authorized_operations: bool 8+

MetadataResponse: response 3, versions 0-13, flexible 9+
  throttle_time_ms: int32 3+
  brokers: [MetadataResponseBroker]
    node_id: int32
    host: string
    port: int32
    rack: string? 1+ = null
  cluster_id: string? 2+ = null
  controller_id: int32 1+ = -1
  topics: [MetadataResponseTopic]
    error_code: int16
    name: string?12+
    topic_id: uuid 10+
    is_internal: bool 1+
    partitions: [MetadataResponsePartition]
      error_code: int16
      partition_index: int32
      leader_id: int32
      leader_epoch: int32 7+ = -1
      replica_nodes: [int32]
      isr_nodes: [int32]
      offline_replicas: [int32] 5+
    topic_authorized_operations: int32 8+ = -2147483648
  cluster_authorized_operations: int32 8-10 = -2147483648
  error_code: int16 13+

DescribeClusterRequest: request 60, versions 0-2, flexible 0+, on broker controller
  include_cluster_authorized_operations: bool
  endpoint_type: int8 1+ = 1
  include_fenced_brokers: bool 2+

DescribeClusterResponse: response 60, versions 0-2, flexible 0+
  throttle_time_ms: int32
  error_code: int16
  error_message: string? = null
  endpoint_type: int8 1+ = 1
  cluster_id: string
  controller_id: int32 = -1
  brokers: [DescribeClusterBroker]
    broker_id: int32
    host: string
    port: int32
    rack: string? = null
    is_fenced: bool 2+
  cluster_authorized_operations: int32 = -2147483648

DescribeTopicPartitionsRequest: request 75, versions 0, flexible 0+, on broker
  topics: [TopicRequest]
    name: string
  response_partition_limit: int32 = 2000
  cursor: Cursor? = null
    topic_name: string
    partition_index: int32

DescribeTopicPartitionsResponse: response 75, versions 0, flexible 0+
  throttle_time_ms: int32
  topics: [DescribeTopicPartitionsResponseTopic]
    error_code: int16
    name: string?
    topic_id: uuid
    is_internal: bool
    partitions: [DescribeTopicPartitionsResponsePartition]
      error_code: int16
      partition_index: int32
      leader_id: int32
      leader_epoch: int32 = -1
      replica_nodes: [int32]
      isr_nodes: [int32]
      eligible_leader_replicas: [int32]? = null
      last_known_elr: [int32]? = null
      offline_replicas: [int32]
    topic_authorized_operations: int32 = -2147483648
  next_cursor: Cursor? = null
    topic_name: string
    partition_index: int32

FindCoordinatorRequest: request 10, versions 0-6, flexible 3+, on broker
  key: string 0-3
  key_type: int8 1+
  coordinator_keys: [string] 4+

FindCoordinatorResponse: response 10, versions 0-6, flexible 3+
  throttle_time_ms: int32 1+
  error_code: int16 0-3
  error_message: string? 1-3
  node_id: int32 0-3
  host: string 0-3
  port: int32 0-3
  coordinators: [Coordinator] 4+
    key: string
    node_id: int32
    host: string
    port: int32
    error_code: int16
    error_message: string?
"""
