"""Between brokers and controllers: registration, heartbeats, ISR changes, forwarding."""

from typing import Final

MESSAGES: Final = """\
BrokerRegistrationRequest: request 62, versions 0-4, flexible 0+, on controller
  broker_id: int32
  cluster_id: string
  incarnation_id: uuid
  listeners: [Listener]
    name: string
    host: string
    port: uint16
    security_protocol: int16
  features: [Feature]
    name: string
    min_supported_version: int16
    max_supported_version: int16
  rack: string?
  is_migrating_zk_broker: bool 1+
  log_dirs: [uuid] 2+
  previous_broker_epoch: int64 3+ = -1

BrokerRegistrationResponse: response 62, versions 0-4, flexible 0+
  throttle_time_ms: int32
  error_code: int16
  broker_epoch: int64 = -1

BrokerHeartbeatRequest: request 63, versions 0-2, flexible 0+, on controller
  broker_id: int32
  broker_epoch: int64 = -1
  current_metadata_offset: int64
  want_fence: bool
  want_shut_down: bool
  offline_log_dirs: [uuid] 1+ tag 0
  cordoned_log_dirs: [uuid]? 2+ tag 1 = null

BrokerHeartbeatResponse: response 63, versions 0-2, flexible 0+
  throttle_time_ms: int32
  error_code: int16
  is_caught_up: bool
  is_fenced: bool = true
  should_shut_down: bool

UnregisterBrokerRequest: request 64, versions 0, flexible 0+, on broker controller
  broker_id: int32

UnregisterBrokerResponse: response 64, versions 0, flexible 0+
  throttle_time_ms: int32
  error_code: int16
  error_message: string?

ControllerRegistrationRequest: request 70, versions 0, flexible 0+, on controller
  controller_id: int32
  incarnation_id: uuid
  zk_migration_ready: bool
  listeners: [Listener]
    name: string
    host: string
    port: uint16
    security_protocol: int16
  features: [Feature]
    name: string
    min_supported_version: int16
    max_supported_version: int16

ControllerRegistrationResponse: response 70, versions 0, flexible 0+
  throttle_time_ms: int32
  error_code: int16
  error_message: string?

AlterPartitionRequest: request 56, versions 2-3, flexible 2+, on controller
  broker_id: int32
  broker_epoch: int64 = -1
  topics: [TopicData]
    topic_id: uuid
    partitions: [PartitionData]
      partition_index: int32
      leader_epoch: int32
      new_isr: [int32] 2
      new_isr_with_epochs: [BrokerState] 3+
        broker_id: int32
        broker_epoch: int64 = -1
      leader_recovery_state: int8
      partition_epoch: int32

AlterPartitionResponse: response 56, versions 2-3, flexible 2+
  throttle_time_ms: int32
  error_code: int16
  topics: [TopicData]
    topic_id: uuid
    partitions: [PartitionData]
      partition_index: int32
      error_code: int16
      leader_id: int32
      leader_epoch: int32
      isr: [int32]
      leader_recovery_state: int8
      partition_epoch: int32

EnvelopeRequest: request 58, versions 0, flexible 0+, on controller
  request_data: bytes
  request_principal: bytes?
  client_host_address: bytes

EnvelopeResponse: response 58, versions 0, flexible 0+
  response_data: bytes? = null
  error_code: int16
"""
