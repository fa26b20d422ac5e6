"""Records of `__consumer_offsets` for offsets, classic and consumer groups. A key and its value share a number."""

from typing import Final

MESSAGES: Final = """\
LegacyOffsetCommitKey: key 0, versions 0
  group: string
  topic: string
  partition: int32

LegacyOffsetCommitValue: value 0, versions 0
  offset: int64
  metadata: string
  commit_timestamp: int64

OffsetCommitKey: key 1, versions 0
  group: string
  topic: string
  partition: int32

OffsetCommitValue: value 1, versions 0-4, flexible 4+
  offset: int64
  leader_epoch: int32 3+ = -1
  metadata: string
  commit_timestamp: int64
  expire_timestamp: int64 1 = -1
  topic_id: uuid 4+ tag 0

GroupMetadataKey: key 2, versions 0
  group: string

GroupMetadataValue: value 2, versions 0-4, flexible 4+
  protocol_type: string
  generation: int32
  protocol: string?
  leader: string?
  current_state_timestamp: int64 2+ = -1
  members: [MemberMetadata]
    member_id: string
    group_instance_id: string? 3+ = null
    client_id: string
    client_host: string
    rebalance_timeout: int32 1+ = -1
    session_timeout: int32
    subscription: bytes
    assignment: bytes

ConsumerGroupMetadataKey: key 3, versions 0
  group_id: string

ConsumerGroupMetadataValue: value 3, versions 0, flexible 0+
  epoch: int32
  metadata_hash: int64 tag 0

ConsumerGroupPartitionMetadataKey: key 4, versions 0
  group_id: string

ConsumerGroupPartitionMetadataValue: value 4, versions 0, flexible 0+
  topics: [TopicMetadata]
    topic_id: uuid
    topic_name: string
    num_partitions: int32
    partition_metadata: [PartitionMetadata]
      partition: int32
      racks: [string]

ConsumerGroupMemberMetadataKey: key 5, versions 0
  group_id: string
  member_id: string

ConsumerGroupMemberMetadataValue: value 5, versions 0, flexible 0+
  instance_id: string?
  rack_id: string?
  client_id: string
  client_host: string
  subscribed_topic_names: [string]
  subscribed_topic_regex: string?
  rebalance_timeout_ms: int32 = -1
  server_assignor: string?
  classic_member_metadata: ClassicMemberMetadata? tag 0
    session_timeout_ms: int32
    supported_protocols: [ClassicProtocol]
      name: string
      metadata: bytes

ConsumerGroupTargetAssignmentMetadataKey: key 6, versions 0
  group_id: string

ConsumerGroupTargetAssignmentMetadataValue: value 6, versions 0, flexible 0+
  assignment_epoch: int32
  assignment_timestamp: int64 tag 0

ConsumerGroupTargetAssignmentMemberKey: key 7, versions 0
  group_id: string
  member_id: string

ConsumerGroupTargetAssignmentMemberValue: value 7, versions 0, flexible 0+
  topic_partitions: [TopicPartition]
    topic_id: uuid
    partitions: [int32]

ConsumerGroupCurrentMemberAssignmentKey: key 8, versions 0
  group_id: string
  member_id: string

ConsumerGroupCurrentMemberAssignmentValue: value 8, versions 0, flexible 0+
  member_epoch: int32
  previous_member_epoch: int32
  state: int8
  assigned_partitions: [TopicPartitions]
  partitions_pending_revocation: [TopicPartitions]
  TopicPartitions:
    topic_id: uuid
    partitions: [int32]
    assignment_epochs: [int32]? tag 0

ConsumerGroupRegularExpressionKey: key 16, versions 0
  group_id: string
  regular_expression: string

ConsumerGroupRegularExpressionValue: value 16, versions 0, flexible 0+
  topics: [string]
  version: int64
  timestamp: int64
"""
