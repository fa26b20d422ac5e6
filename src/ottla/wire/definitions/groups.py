"""Classic consumer groups and committed offsets."""

from typing import Final

MESSAGES: Final = """\
OffsetCommitRequest: request 8, versions 2-10, flexible 8+, on broker
  group_id: string
  generation_id_or_member_epoch: int32 = -1
  member_id: string
  group_instance_id: string? 7+ = null
  retention_time_ms: int64 2-4 = -1
  topics: [OffsetCommitRequestTopic]
    name: string 2-9
    topic_id: uuid 10+
    partitions: [OffsetCommitRequestPartition]
      partition_index: int32
      committed_offset: int64
      committed_leader_epoch: int32 6+ = -1
      committed_metadata: string?

OffsetCommitResponse: response 8, versions 2-10, flexible 8+
  throttle_time_ms: int32 3+
  topics: [OffsetCommitResponseTopic]
    name: string 2-9
    topic_id: uuid 10+
    partitions: [OffsetCommitResponsePartition]
      partition_index: int32
      error_code: int16

OffsetFetchRequest: request 9, versions 1-10, flexible 6+, on broker
  group_id: string 1-7
  topics: [OffsetFetchRequestTopic]?2+ 1-7
    name: string
    partition_indexes: [int32]
  groups: [OffsetFetchRequestGroup] 8+
    group_id: string
    member_id: string? 9+ = null
    member_epoch: int32 9+ = -1
    topics: [OffsetFetchRequestTopics]?
      name: string 8-9
      topic_id: uuid 10+
      partition_indexes: [int32]
  require_stable: bool 7+

OffsetFetchResponse: response 9, versions 1-10, flexible 6+
  throttle_time_ms: int32 3+
  topics: [OffsetFetchResponseTopic] 1-7
    name: string
    partitions: [OffsetFetchResponsePartition]
      partition_index: int32
      committed_offset: int64
      committed_leader_epoch: int32 5-7 = -1
      metadata: string?
      error_code: int16
  error_code: int16 2-7
  groups: [OffsetFetchResponseGroup] 8+
    group_id: string
    topics: [OffsetFetchResponseTopics]
      name: string 8-9
      topic_id: uuid 10+
      partitions: [OffsetFetchResponsePartitions]
        partition_index: int32
        committed_offset: int64
        committed_leader_epoch: int32 = -1
        metadata: string?
        error_code: int16
    error_code: int16

OffsetDeleteRequest: request 47, versions 0, on broker
  group_id: string
  topics: [OffsetDeleteRequestTopic]
    name: string
    partitions: [OffsetDeleteRequestPartition]
      partition_index: int32

OffsetDeleteResponse: response 47, versions 0
  error_code: int16
  throttle_time_ms: int32
  topics: [OffsetDeleteResponseTopic]
    name: string
    partitions: [OffsetDeleteResponsePartition]
      partition_index: int32
      error_code: int16

JoinGroupRequest: request 11, versions 0-9, flexible 6+, on broker
  group_id: string
  session_timeout_ms: int32
  rebalance_timeout_ms: int32 1+ = -1
  member_id: string
  group_instance_id: string? 5+ = null
  protocol_type: string
  protocols: [JoinGroupRequestProtocol]
    name: string
    metadata: bytes
  reason: string? 8+ = null

JoinGroupResponse: response 11, versions 0-9, flexible 6+
  throttle_time_ms: int32 2+
  error_code: int16
  generation_id: int32 = -1
  protocol_type: string? 7+ = null
  protocol_name: string?7+
  leader: string
  skip_assignment: bool 9+
  member_id: string
  members: [JoinGroupResponseMember]
    member_id: string
    group_instance_id: string? 5+ = null
    metadata: bytes

SyncGroupRequest: request 14, versions 0-5, flexible 4+, on broker
  group_id: string
  generation_id: int32
  member_id: string
  group_instance_id: string? 3+ = null
  protocol_type: string? 5+ = null
  protocol_name: string? 5+ = null
  assignments: [SyncGroupRequestAssignment]
    member_id: string
    assignment: bytes

SyncGroupResponse: response 14, versions 0-5, flexible 4+
  throttle_time_ms: int32 1+
  error_code: int16
  protocol_type: string? 5+ = null
  protocol_name: string? 5+ = null
  assignment: bytes

HeartbeatRequest: request 12, versions 0-4, flexible 4+, on broker
  group_id: string
  generation_id: int32
  member_id: string
  group_instance_id: string? 3+ = null

HeartbeatResponse: response 12, versions 0-4, flexible 4+
  throttle_time_ms: int32 1+
  error_code: int16

LeaveGroupRequest: request 13, versions 0-5, flexible 4+, on broker
  group_id: string
  member_id: string 0-2
  members: [MemberIdentity] 3+
    member_id: string
    group_instance_id: string? = null
    reason: string? 5+ = null

LeaveGroupResponse: response 13, versions 0-5, flexible 4+
  throttle_time_ms: int32 1+
  error_code: int16
  members: [MemberResponse] 3+
    member_id: string
    group_instance_id: string?
    error_code: int16

DescribeGroupsRequest: request 15, versions 0-6, flexible 5+, on broker
  groups: [string]
  include_authorized_operations: bool 3+

DescribeGroupsResponse: response 15, versions 0-6, flexible 5+
  throttle_time_ms: int32 1+
  groups: [DescribedGroup]
    error_code: int16
    error_message: string? 6+ = null
    group_id: string
    group_state: string
    protocol_type: string
    protocol_data: string
    members: [DescribedGroupMember]
      member_id: string
      group_instance_id: string? 4+ = null
      client_id: string
      client_host: string
      member_metadata: bytes
      member_assignment: bytes
    authorized_operations: int32 3+ = -2147483648

ListGroupsRequest: request 16, versions 0-5, flexible 3+, on broker
  states_filter: [string] 4+
  types_filter: [string] 5+

ListGroupsResponse: response 16, versions 0-5, flexible 3+
  throttle_time_ms: int32 1+
  error_code: int16
  groups: [ListedGroup]
    group_id: string
    protocol_type: string
    group_state: string 4+
    group_type: string 5+

DeleteGroupsRequest: request 42, versions 0-2, flexible 2+, on broker
  groups_names: [string]

DeleteGroupsResponse: response 42, versions 0-2, flexible 2+
  throttle_time_ms: int32
  results: [DeletableGroupResult]
    group_id: string
    error_code: int16

ConsumerProtocolSubscription: data, versions 0-3
  topics: [string]
  user_data: bytes? = null
  owned_partitions: [TopicPartition] 1+
    topic: string
    partitions: [int32]
  generation_id: int32 2+ = -1
  rack_id: string? 3+ = null

ConsumerProtocolAssignment: data, versions 0-3
  assigned_partitions: [TopicPartition]
    topic: string
    partitions: [int32]
  user_data: bytes? = null
"""
