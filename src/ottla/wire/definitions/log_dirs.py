"""Log directories of a broker (KIP-113, KIP-858)."""

from typing import Final

MESSAGES: Final = """\
AlterReplicaLogDirsRequest: request 34, versions 1-2, flexible 2+, on broker
  dirs: [AlterReplicaLogDir]
    path: string
    topics: [AlterReplicaLogDirTopic]
      name: string
      partitions: [int32]

AlterReplicaLogDirsResponse: response 34, versions 1-2, flexible 2+
  throttle_time_ms: int32
  results: [AlterReplicaLogDirTopicResult]
    topic_name: string
    partitions: [AlterReplicaLogDirPartitionResult]
      partition_index: int32
      error_code: int16

DescribeLogDirsRequest: request 35, versions 1-5, flexible 2+, on broker
  topics: [DescribableLogDirTopic]?
    topic: string
    partitions: [int32]

DescribeLogDirsResponse: response 35, versions 1-5, flexible 2+
  throttle_time_ms: int32
  error_code: int16 3+
  results: [DescribeLogDirsResult]
    error_code: int16
    log_dir: string
    topics: [DescribeLogDirsTopic]
      name: string
      partitions: [DescribeLogDirsPartition]
        partition_index: int32
        partition_size: int64
        offset_lag: int64
        is_future_key: bool
    total_bytes: int64 4+ = -1
    usable_bytes: int64 4+ = -1
    is_cordoned: bool 5+

AssignReplicasToDirsRequest: request 73, versions 0, flexible 0+, on controller
  broker_id: int32
  broker_epoch: int64 = -1
  directories: [DirectoryData]
    id: uuid
    topics: [TopicData]
      topic_id: uuid
      partitions: [PartitionData]
        partition_index: int32

AssignReplicasToDirsResponse: response 73, versions 0, flexible 0+
  throttle_time_ms: int32
  error_code: int16
  directories: [DirectoryData]
    id: uuid
    topics: [TopicData]
      topic_id: uuid
      partitions: [PartitionData]
        partition_index: int32
        error_code: int16
"""
