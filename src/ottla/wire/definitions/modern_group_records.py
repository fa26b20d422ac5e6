"""Records of `__consumer_offsets` for share (KIP-932) and streams groups (KIP-1071)."""

from typing import Final

MESSAGES: Final = """\
ShareGroupMemberMetadataKey: key 10, versions 0
  group_id: string
  member_id: string

ShareGroupMemberMetadataValue: value 10, versions 0, flexible 0+
  rack_id: string?
  client_id: string
  client_host: string
  subscribed_topic_names: [string]

ShareGroupMetadataKey: key 11, versions 0
  group_id: string

ShareGroupMetadataValue: value 11, versions 0, flexible 0+
  epoch: int32
  metadata_hash: int64

ShareGroupTargetAssignmentMetadataKey: key 12, versions 0
  group_id: string

ShareGroupTargetAssignmentMetadataValue: value 12, versions 0, flexible 0+
  assignment_epoch: int32
  assignment_timestamp: int64 tag 0

ShareGroupTargetAssignmentMemberKey: key 13, versions 0
  group_id: string
  member_id: string

ShareGroupTargetAssignmentMemberValue: value 13, versions 0, flexible 0+
  topic_partitions: [TopicPartition]
    topic_id: uuid
    partitions: [int32]

ShareGroupCurrentMemberAssignmentKey: key 14, versions 0
  group_id: string
  member_id: string

ShareGroupCurrentMemberAssignmentValue: value 14, versions 0, flexible 0+
  member_epoch: int32
  previous_member_epoch: int32
  state: int8
  assigned_partitions: [TopicPartitions]
    topic_id: uuid
    partitions: [int32]

ShareGroupStatePartitionMetadataKey: key 15, versions 0
  group_id: string

ShareGroupStatePartitionMetadataValue: value 15, versions 0, flexible 0+
  initializing_topics: [TopicPartitionsInfo]
  initialized_topics: [TopicPartitionsInfo]
  deleting_topics: [TopicInfo]
    topic_id: uuid
    topic_name: string
  TopicPartitionsInfo:
    topic_id: uuid
    topic_name: string
    partitions: [int32]

StreamsGroupMetadataKey: key 17, versions 0
  group_id: string

StreamsGroupMetadataValue: value 17, versions 0, flexible 0+
  epoch: int32
  metadata_hash: int64
  validated_topology_epoch: int32 tag 0 = -1
  last_assignment_configs: [LastAssignmentConfig]? tag 1
    key: string
    value: string

StreamsGroupMemberMetadataKey: key 19, versions 0
  group_id: string
  member_id: string

StreamsGroupMemberMetadataValue: value 19, versions 0, flexible 0+
  instance_id: string?
  rack_id: string?
  client_id: string
  client_host: string
  rebalance_timeout_ms: int32 = -1
  topology_epoch: int32
  process_id: string
  user_endpoint: Endpoint? = null
    host: string
    port: uint16
  client_tags: [KeyValue]
    key: string
    value: string

StreamsGroupTargetAssignmentMetadataKey: key 20, versions 0
  group_id: string

StreamsGroupTargetAssignmentMetadataValue: value 20, versions 0, flexible 0+
  assignment_epoch: int32
  assignment_timestamp: int64 tag 0

StreamsGroupTargetAssignmentMemberKey: key 21, versions 0
  group_id: string
  member_id: string

StreamsGroupTargetAssignmentMemberValue: value 21, versions 0, flexible 0+
  active_tasks: [TaskIds]
  standby_tasks: [TaskIds]
  warmup_tasks: [TaskIds]
  TaskIds:
    subtopology_id: string
    partitions: [int32]

StreamsGroupCurrentMemberAssignmentKey: key 22, versions 0
  group_id: string
  member_id: string

StreamsGroupCurrentMemberAssignmentValue: value 22, versions 0, flexible 0+
  member_epoch: int32
  previous_member_epoch: int32
  state: int8
  active_tasks: [TaskIds]
  standby_tasks: [TaskIds]
  warmup_tasks: [TaskIds]
  active_tasks_pending_revocation: [TaskIds]
  standby_tasks_pending_revocation: [TaskIds]
  warmup_tasks_pending_revocation: [TaskIds]
  TaskIds:
    subtopology_id: string
    partitions: [int32]
    assignment_epochs: [int32]? tag 0

StreamsGroupTopologyKey: key 23, versions 0
  group_id: string

StreamsGroupTopologyValue: value 23, versions 0, flexible 0+
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
  TopicInfo:
    name: string
    partitions: int32
    replication_factor: int16
    topic_configs: [TopicConfig]
      key: string
      value: string
"""
