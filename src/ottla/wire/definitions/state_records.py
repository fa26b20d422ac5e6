"""Records of `__transaction_state` and `__share_group_state`."""

from typing import Final

MESSAGES: Final = """\
TransactionLogKey: key 0, versions 0
  transactional_id: string

TransactionLogValue: value 0, versions 0-1, flexible 1+
  producer_id: int64
  previous_producer_id: int64 1+ tag 0 = -1
  next_producer_id: int64 1+ tag 1 = -1
  producer_epoch: int16
  next_producer_epoch: int16 1+ tag 3 = -1
  transaction_timeout_ms: int32
  transaction_status: int8
  transaction_partitions: [PartitionsSchema]?
    topic: string
    partition_ids: [int32]
  transaction_last_update_timestamp_ms: int64
  transaction_start_timestamp_ms: int64
  client_transaction_version: int16 1+ tag 2

ShareSnapshotKey: key 0, versions 0
  group_id: string
  topic_id: uuid
  partition: int32

ShareSnapshotValue: value 0, versions 0, flexible 0+
  snapshot_epoch: int32
  state_epoch: int32
  leader_epoch: int32
  start_offset: int64
  delivery_complete_count: int32 tag 0 = -1
  create_timestamp: int64
  write_timestamp: int64
  state_batches: [StateBatch]
    first_offset: int64
    last_offset: int64
    delivery_state: int8
    delivery_count: int16

ShareUpdateKey: key 1, versions 0
  group_id: string
  topic_id: uuid
  partition: int32

ShareUpdateValue: value 1, versions 0, flexible 0+
  snapshot_epoch: int32
  leader_epoch: int32
  start_offset: int64
  delivery_complete_count: int32 tag 0 = -1
  state_batches: [StateBatch]
    first_offset: int64
    last_offset: int64
    delivery_state: int8
    delivery_count: int16
"""
