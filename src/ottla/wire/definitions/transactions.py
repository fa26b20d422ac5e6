"""Idempotent and transactional producers (KIP-98, KIP-890)."""

from typing import Final

MESSAGES: Final = """\
InitProducerIdRequest: request 22, versions 0-6, flexible 2+, on broker
  transactional_id: string?
  transaction_timeout_ms: int32
  producer_id: int64 3+ = -1
  producer_epoch: int16 3+ = -1
  enable2_pc: bool 6+
  keep_prepared_txn: bool 6+

InitProducerIdResponse: response 22, versions 0-6, flexible 2+
  throttle_time_ms: int32
  error_code: int16
  producer_id: int64 = -1
  producer_epoch: int16
  ongoing_txn_producer_id: int64 6+ = -1
  ongoing_txn_producer_epoch: int16 6+ = -1

AddPartitionsToTxnRequest: request 24, versions 0-5, flexible 3+, on broker
  transactions: [AddPartitionsToTxnTransaction] 4+
    transactional_id: string
    producer_id: int64
    producer_epoch: int16
    verify_only: bool
    topics: [AddPartitionsToTxnTopic]
  v3_and_below_transactional_id: string 0-3
  v3_and_below_producer_id: int64 0-3
  v3_and_below_producer_epoch: int16 0-3
  v3_and_below_topics: [AddPartitionsToTxnTopic] 0-3
  AddPartitionsToTxnTopic:
    name: string
    partitions: [int32]

AddPartitionsToTxnResponse: response 24, versions 0-5, flexible 3+
  throttle_time_ms: int32
  error_code: int16 4+
  results_by_transaction: [AddPartitionsToTxnResult] 4+
    transactional_id: string
    topic_results: [AddPartitionsToTxnTopicResult]
  results_by_topic_v3_and_below: [AddPartitionsToTxnTopicResult] 0-3
  AddPartitionsToTxnTopicResult:
    name: string
    results_by_partition: [AddPartitionsToTxnPartitionResult]
      partition_index: int32
      partition_error_code: int16

AddOffsetsToTxnRequest: request 25, versions 0-4, flexible 3+, on broker
  transactional_id: string
  producer_id: int64
  producer_epoch: int16
  group_id: string

AddOffsetsToTxnResponse: response 25, versions 0-4, flexible 3+
  throttle_time_ms: int32
  error_code: int16

EndTxnRequest: request 26, versions 0-5, flexible 3+, on broker
  transactional_id: string
  producer_id: int64
  producer_epoch: int16
  committed: bool

EndTxnResponse: response 26, versions 0-5, flexible 3+
  throttle_time_ms: int32
  error_code: int16
  producer_id: int64 5+ = -1
  producer_epoch: int16 5+ = -1

WriteTxnMarkersRequest: request 27, versions 1-2, flexible 1+, on broker
  markers: [WritableTxnMarker]
    producer_id: int64
    producer_epoch: int16
    transaction_result: bool
    topics: [WritableTxnMarkerTopic]
      name: string
      partition_indexes: [int32]
    coordinator_epoch: int32
    transaction_version: int8 2+

WriteTxnMarkersResponse: response 27, versions 1-2, flexible 1+
  markers: [WritableTxnMarkerResult]
    producer_id: int64
    topics: [WritableTxnMarkerTopicResult]
      name: string
      partitions: [WritableTxnMarkerPartitionResult]
        partition_index: int32
        error_code: int16

TxnOffsetCommitRequest: request 28, versions 0-5, flexible 3+, on broker
  transactional_id: string
  group_id: string
  producer_id: int64
  producer_epoch: int16
  generation_id: int32 3+ = -1
  member_id: string 3+
  group_instance_id: string? 3+ = null
  topics: [TxnOffsetCommitRequestTopic]
    name: string
    partitions: [TxnOffsetCommitRequestPartition]
      partition_index: int32
      committed_offset: int64
      committed_leader_epoch: int32 2+ = -1
      committed_metadata: string?

TxnOffsetCommitResponse: response 28, versions 0-5, flexible 3+
  throttle_time_ms: int32
  topics: [TxnOffsetCommitResponseTopic]
    name: string
    partitions: [TxnOffsetCommitResponsePartition]
      partition_index: int32
      error_code: int16

DescribeTransactionsRequest: request 65, versions 0, flexible 0+, on broker
  transactional_ids: [string]

DescribeTransactionsResponse: response 65, versions 0, flexible 0+
  throttle_time_ms: int32
  transaction_states: [TransactionState]
    error_code: int16
    transactional_id: string
    transaction_state: string
    transaction_timeout_ms: int32
    transaction_start_time_ms: int64
    producer_id: int64
    producer_epoch: int16
    topics: [TopicData]
      topic: string
      partitions: [int32]

ListTransactionsRequest: request 66, versions 0-2, flexible 0+, on broker
  state_filters: [string]
  producer_id_filters: [int64]
  duration_filter: int64 1+ = -1
  transactional_id_pattern: string? 2+ = null

ListTransactionsResponse: response 66, versions 0-2, flexible 0+
  throttle_time_ms: int32
  error_code: int16
  unknown_state_filters: [string]
  transaction_states: [TransactionState]
    transactional_id: string
    producer_id: int64
    transaction_state: string

AllocateProducerIdsRequest: request 67, versions 0, flexible 0+, on controller
  broker_id: int32
  broker_epoch: int64 = -1

AllocateProducerIdsResponse: response 67, versions 0, flexible 0+
  throttle_time_ms: int32
  error_code: int16
  producer_id_start: int64
  producer_id_len: int32
"""
