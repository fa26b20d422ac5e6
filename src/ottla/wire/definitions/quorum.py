"""The metadata quorum: votes, epochs, snapshots, voters (KIP-595, KIP-630, KIP-853)."""

from typing import Final

MESSAGES: Final = """\
VoteRequest: request 52, versions 0-2, flexible 0+, on controller
  cluster_id: string? = null
  voter_id: int32 1+ = -1
  topics: [TopicData]
    topic_name: string
    partitions: [PartitionData]
      partition_index: int32
      replica_epoch: int32
      replica_id: int32
      replica_directory_id: uuid 1+
      voter_directory_id: uuid 1+
      last_offset_epoch: int32
      last_offset: int64
      pre_vote: bool 2+

VoteResponse: response 52, versions 0-2, flexible 0+
  error_code: int16
  topics: [TopicData]
    topic_name: string
    partitions: [PartitionData]
      partition_index: int32
      error_code: int16
      leader_id: int32
      leader_epoch: int32
      vote_granted: bool
  node_endpoints: [NodeEndpoint] 1+ tag 0
    node_id: int32
    host: string
    port: uint16

BeginQuorumEpochRequest: request 53, versions 0-1, flexible 1+, on controller
  cluster_id: string? = null
  voter_id: int32 1+ = -1
  topics: [TopicData]
    topic_name: string
    partitions: [PartitionData]
      partition_index: int32
      voter_directory_id: uuid 1+
      leader_id: int32
      leader_epoch: int32
  leader_endpoints: [LeaderEndpoint] 1+
    name: string
    host: string
    port: uint16

BeginQuorumEpochResponse: response 53, versions 0-1, flexible 1+
  error_code: int16
  topics: [TopicData]
    topic_name: string
    partitions: [PartitionData]
      partition_index: int32
      error_code: int16
      leader_id: int32
      leader_epoch: int32
  node_endpoints: [NodeEndpoint] 1+ tag 0
    node_id: int32
    host: string
    port: uint16

EndQuorumEpochRequest: request 54, versions 0-1, flexible 1+, on controller
  cluster_id: string? = null
  topics: [TopicData]
    topic_name: string
    partitions: [PartitionData]
      partition_index: int32
      leader_id: int32
      leader_epoch: int32
      preferred_successors: [int32] 0
      preferred_candidates: [ReplicaInfo] 1+
        candidate_id: int32
        candidate_directory_id: uuid
  leader_endpoints: [LeaderEndpoint] 1+
    name: string
    host: string
    port: uint16

EndQuorumEpochResponse: response 54, versions 0-1, flexible 1+
  error_code: int16
  topics: [TopicData]
    topic_name: string
    partitions: [PartitionData]
      partition_index: int32
      error_code: int16
      leader_id: int32
      leader_epoch: int32
  node_endpoints: [NodeEndpoint] 1+ tag 0
    node_id: int32
    host: string
    port: uint16

DescribeQuorumRequest: request 55, versions 0-2, flexible 0+, on broker controller
  topics: [TopicData]
    topic_name: string
    partitions: [PartitionData]
      partition_index: int32

DescribeQuorumResponse: response 55, versions 0-2, flexible 0+
  error_code: int16
  error_message: string? 2+
  topics: [TopicData]
    topic_name: string
    partitions: [PartitionData]
      partition_index: int32
      error_code: int16
      error_message: string? 2+
      leader_id: int32
      leader_epoch: int32
      high_watermark: int64
      current_voters: [ReplicaState]
      observers: [ReplicaState]
  nodes: [Node] 2+
    node_id: int32
    listeners: [Listener]
      name: string
      host: string
      port: uint16
  ReplicaState:
    replica_id: int32
    replica_directory_id: uuid 2+
    log_end_offset: int64
    last_fetch_timestamp: int64 1+ = -1
    last_caught_up_timestamp: int64 1+ = -1

FetchSnapshotRequest: request 59, versions 0-1, flexible 0+, on controller
  cluster_id: string? tag 0 = null
  replica_id: int32 = -1
  max_bytes: int32 = 2147483647
  topics: [TopicSnapshot]
    name: string
    partitions: [PartitionSnapshot]
      partition: int32
      current_leader_epoch: int32
      snapshot_id: SnapshotId
        end_offset: int64
        epoch: int32
      position: int64
      replica_directory_id: uuid 1+ tag 0

FetchSnapshotResponse: response 59, versions 0-1, flexible 0+
  throttle_time_ms: int32
  error_code: int16
  topics: [TopicSnapshot]
    name: string
    partitions: [PartitionSnapshot]
      index: int32
      error_code: int16
      snapshot_id: SnapshotId
        end_offset: int64
        epoch: int32
      current_leader: LeaderIdAndEpoch tag 0
        leader_id: int32
        leader_epoch: int32
      size: int64
      position: int64
      unaligned_records: records
  node_endpoints: [NodeEndpoint] 1+ tag 0
    node_id: int32
    host: string
    port: uint16

AddRaftVoterRequest: request 80, versions 0-1, flexible 0+, on controller broker
  cluster_id: string?
  timeout_ms: int32
  voter_id: int32
  voter_directory_id: uuid
  listeners: [Listener]
    name: string
    host: string
    port: uint16
  ack_when_committed: bool 1+ = true

AddRaftVoterResponse: response 80, versions 0-1, flexible 0+
  throttle_time_ms: int32
  error_code: int16
  error_message: string?

RemoveRaftVoterRequest: request 81, versions 0, flexible 0+, on controller broker
  cluster_id: string?
  voter_id: int32
  voter_directory_id: uuid

RemoveRaftVoterResponse: response 81, versions 0, flexible 0+
  throttle_time_ms: int32
  error_code: int16
  error_message: string?

UpdateRaftVoterRequest: request 82, versions 0, flexible 0+, on controller
  cluster_id: string?
  current_leader_epoch: int32
  voter_id: int32
  voter_directory_id: uuid
  listeners: [Listener]
    name: string
    host: string
    port: uint16
  k_raft_version_feature: KRaftVersionFeature
    min_supported_version: int16
    max_supported_version: int16

UpdateRaftVoterResponse: response 82, versions 0, flexible 0+
  throttle_time_ms: int32
  error_code: int16
  current_leader: CurrentLeader tag 0
    leader_id: int32 = -1
    leader_epoch: int32 = -1
    host: string
    port: int32

QuorumStateData: data, versions 0-1, flexible 0+
  cluster_id: string 0
  leader_id: int32 = -1
  leader_epoch: int32 = -1
  voted_id: int32 = -1
  voted_directory_id: uuid 1+
  applied_offset: int64 0
  current_voters: [Voter]? 0
    voter_id: int32
"""
