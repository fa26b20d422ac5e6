"""Groups whose assignment is made by the broker: consumer (KIP-848) and streams (KIP-1071)."""

from typing import Final

MESSAGES: Final = """\
ConsumerGroupHeartbeatRequest: request 68, versions 0-1, flexible 0+, on broker
  group_id: string
  member_id: string
  member_epoch: int32
  instance_id: string? = null
  rack_id: string? = null
  rebalance_timeout_ms: int32 = -1
  subscribed_topic_names: [string]? = null
  subscribed_topic_regex: string? 1+ = null
  server_assignor: string? = null
  topic_partitions: [TopicPartitions]? = null
    topic_id: uuid
    partitions: [int32]

ConsumerGroupHeartbeatResponse: response 68, versions 0-1, flexible 0+
  throttle_time_ms: int32
  error_code: int16
  error_message: string? = null
  member_id: string? = null
  member_epoch: int32
  heartbeat_interval_ms: int32
  assignment: Assignment? = null
    topic_partitions: [TopicPartitions]
      topic_id: uuid
      partitions: [int32]

ConsumerGroupDescribeRequest: request 69, versions 0-1, flexible 0+, on broker
  group_ids: [string]
  include_authorized_operations: bool

ConsumerGroupDescribeResponse: response 69, versions 0-1, flexible 0+
  throttle_time_ms: int32
  groups: [DescribedGroup]
    error_code: int16
    error_message: string? = null
    group_id: string
    group_state: string
    group_epoch: int32
    assignment_epoch: int32
    assignor_name: string
    members: [Member]
      member_id: string
      instance_id: string? = null
      rack_id: string? = null
      member_epoch: int32
      client_id: string
      client_host: string
      subscribed_topic_names: [string]
      subscribed_topic_regex: string? = null
      assignment: Assignment
      target_assignment: Assignment
      member_type: int8 1+ = -1
    authorized_operations: int32 = -2147483648
  Assignment:
    topic_partitions: [TopicPartitions]
      topic_id: uuid
      topic_name: string
      partitions: [int32]

StreamsGroupHeartbeatRequest: request 88, versions 0, flexible 0+, on broker
  group_id: string
  member_id: string
  member_epoch: int32
  endpoint_information_epoch: int32
  instance_id: string? = null
  rack_id: string? = null
  rebalance_timeout_ms: int32 = -1
  topology: Topology? = null
    epoch: int32
    subtopologies: [Subtopology]
      subtopology_id: string
      source_topics: [string]
      source_topic_regex: [string]
      state_changelog_topics: [TopicInfo]
      repartition_sink_topics: [string]
      repartition_source_topics: [TopicInfo]
      copartition_groups: [CopartitionGroup]
        source_topics: [int16]
        source_topic_regex: [int16]
        repartition_source_topics: [int16]
  active_tasks: [TaskIds]? = null
  standby_tasks: [TaskIds]? = null
  warmup_tasks: [TaskIds]? = null
  process_id: string? = null
  user_endpoint: Endpoint? = null
    host: string
    port: uint16
  client_tags: [KeyValue]? = null
  task_offsets: [TaskOffset]? = null
  task_end_offsets: [TaskOffset]? = null
  shutdown_application: bool
  TaskIds:
    subtopology_id: string
    partitions: [int32]
  KeyValue:
    key: string
    value: string
  TaskOffset:
    subtopology_id: string
    partition: int32
    offset: int64
  TopicInfo:
    name: string
    partitions: int32
    replication_factor: int16
    topic_configs: [KeyValue]

StreamsGroupHeartbeatResponse: response 88, versions 0, flexible 0+
  throttle_time_ms: int32
  error_code: int16
  error_message: string? = null
  member_id: string
  member_epoch: int32
  heartbeat_interval_ms: int32
  acceptable_recovery_lag: int32
  task_offset_interval_ms: int32
  status: [Status]?
    status_code: int8
    status_detail: string
  active_tasks: [TaskIds]? = null
  standby_tasks: [TaskIds]? = null
  warmup_tasks: [TaskIds]? = null
  endpoint_information_epoch: int32
  partitions_by_user_endpoint: [EndpointToPartitions]? = null
    user_endpoint: Endpoint
      host: string
      port: uint16
    active_partitions: [TopicPartition]
    standby_partitions: [TopicPartition]
  TaskIds:
    subtopology_id: string
    partitions: [int32]
  TopicPartition:
    topic: string
    partitions: [int32]

StreamsGroupDescribeRequest: request 89, versions 0, flexible 0+, on broker
  group_ids: [string]
  include_authorized_operations: bool

StreamsGroupDescribeResponse: response 89, versions 0, flexible 0+
  throttle_time_ms: int32
  groups: [DescribedGroup]
    error_code: int16
    error_message: string? = null
    group_id: string
    group_state: string
    group_epoch: int32
    assignment_epoch: int32
    topology: Topology? = null
      epoch: int32
      subtopologies: [Subtopology]? = null
        subtopology_id: string
        source_topics: [string]
        repartition_sink_topics: [string]
        state_changelog_topics: [TopicInfo]
        repartition_source_topics: [TopicInfo]
    members: [Member]
      member_id: string
      member_epoch: int32
      instance_id: string? = null
      rack_id: string? = null
      client_id: string
      client_host: string
      topology_epoch: int32
      process_id: string
      user_endpoint: Endpoint? = null
        host: string
        port: uint16
      client_tags: [KeyValue]
      task_offsets: [TaskOffset]
      task_end_offsets: [TaskOffset]
      assignment: Assignment
      target_assignment: Assignment
      is_classic: bool
    authorized_operations: int32 = -2147483648
  TopicInfo:
    name: string
    partitions: int32
    replication_factor: int16
    topic_configs: [KeyValue]
  KeyValue:
    key: string
    value: string
  TaskOffset:
    subtopology_id: string
    partition: int32
    offset: int64
  Assignment:
    active_tasks: [TaskIds]
    standby_tasks: [TaskIds]
    warmup_tasks: [TaskIds]
  TaskIds:
    subtopology_id: string
    partitions: [int32]
"""
