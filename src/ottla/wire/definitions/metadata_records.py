"""Records of the metadata log, `__cluster_metadata`: each with the number that stands before its body.

Versions go up to Kafka 4.3's. Which of them a controller may write depends on the finalized `metadata.version`.
"""

from typing import Final

MESSAGES: Final = """\
RegisterBrokerRecord: metadata 0, versions 0-4, flexible 0+
  broker_id: int32
  is_migrating_zk_broker: bool 2+
  incarnation_id: uuid
  broker_epoch: int64
  end_points: [BrokerEndpoint]
    name: string
    host: string
    port: uint16
    security_protocol: int16
  features: [BrokerFeature]
    name: string
    min_supported_version: int16
    max_supported_version: int16
  rack: string?
  fenced: bool = true
  in_controlled_shutdown: bool 1+
  log_dirs: [uuid] 3+ tag 0
  cordoned_log_dirs: [uuid]? 4+ tag 1 = null

UnregisterBrokerRecord: metadata 1, versions 0, flexible 0+
  broker_id: int32
  broker_epoch: int64

TopicRecord: metadata 2, versions 0, flexible 0+
  name: string
  topic_id: uuid

PartitionRecord: metadata 3, versions 0-2, flexible 0+
  partition_id: int32 = -1
  topic_id: uuid
  replicas: [int32]
  isr: [int32]
  removing_replicas: [int32]
  adding_replicas: [int32]
  leader: int32 = -1
  leader_recovery_state: int8 tag 0
  leader_epoch: int32 = -1
  partition_epoch: int32 = -1
  directories: [uuid] 1+
  eligible_leader_replicas: [int32]? 2+ tag 1 = null
  last_known_elr: [int32]? 2+ tag 2 = null

ConfigRecord: metadata 4, versions 0, flexible 0+
  resource_type: int8
  resource_name: string
  name: string
  value: string?

PartitionChangeRecord: metadata 5, versions 0-2, flexible 0+
  partition_id: int32 = -1
  topic_id: uuid
  isr: [int32]? tag 0 = null
  leader: int32 tag 1 = -2
  replicas: [int32]? tag 2 = null
  removing_replicas: [int32]? tag 3 = null
  adding_replicas: [int32]? tag 4 = null
  leader_recovery_state: int8 tag 5 = -1
  directories: [uuid]? 1+ tag 8 = null
  eligible_leader_replicas: [int32]? 2+ tag 6 = null
  last_known_elr: [int32]? 2+ tag 7 = null

FenceBrokerRecord: metadata 7, versions 0, flexible 0+
  id: int32
  epoch: int64

UnfenceBrokerRecord: metadata 8, versions 0, flexible 0+
  id: int32
  epoch: int64

RemoveTopicRecord: metadata 9, versions 0, flexible 0+
  topic_id: uuid

DelegationTokenRecord: metadata 10, versions 0, flexible 0+
  owner: string
  requester: string
  renewers: [string]
  issue_timestamp: int64
  max_timestamp: int64
  expiration_timestamp: int64
  token_id: string

UserScramCredentialRecord: metadata 11, versions 0, flexible 0+
  name: string
  mechanism: int8
  salt: bytes
  stored_key: bytes
  server_key: bytes
  iterations: int32

FeatureLevelRecord: metadata 12, versions 0, flexible 0+
  name: string
  feature_level: int16

ClientQuotaRecord: metadata 14, versions 0, flexible 0+
  entity: [EntityData]
    entity_type: string
    entity_name: string?
  key: string
  value: float64
  remove: bool

ProducerIdsRecord: metadata 15, versions 0, flexible 0+
  broker_id: int32
  broker_epoch: int64 = -1
  next_producer_id: int64

BrokerRegistrationChangeRecord: metadata 17, versions 0-3, flexible 0+
  broker_id: int32
  broker_epoch: int64
  fenced: int8 tag 0
  in_controlled_shutdown: int8 1+ tag 1
  log_dirs: [uuid] 2+ tag 2
  cordoned_log_dirs: [uuid]? 3+ tag 3 = null

AccessControlEntryRecord: metadata 18, versions 0, flexible 0+
  id: uuid
  resource_type: int8
  resource_name: string
  pattern_type: int8
  principal: string
  host: string
  operation: int8
  permission_type: int8

RemoveAccessControlEntryRecord: metadata 19, versions 0, flexible 0+
  id: uuid

NoOpRecord: metadata 20, versions 0, flexible 0+

ZkMigrationStateRecord: metadata 21, versions 0, flexible 0+
  zk_migration_state: int8

RemoveUserScramCredentialRecord: metadata 22, versions 0, flexible 0+
  name: string
  mechanism: int8

BeginTransactionRecord: metadata 23, versions 0, flexible 0+
  name: string? tag 0 = null

EndTransactionRecord: metadata 24, versions 0, flexible 0+

AbortTransactionRecord: metadata 25, versions 0, flexible 0+
  reason: string? tag 0 = null

RemoveDelegationTokenRecord: metadata 26, versions 0, flexible 0+
  token_id: string

RegisterControllerRecord: metadata 27, versions 0, flexible 0+
  controller_id: int32
  incarnation_id: uuid
  zk_migration_ready: bool
  end_points: [ControllerEndpoint]
    name: string
    host: string
    port: uint16
    security_protocol: int16
  features: [ControllerFeature]
    name: string
    min_supported_version: int16
    max_supported_version: int16

ClearElrRecord: metadata 28, versions 0, flexible 0+
  topic_name: string
"""
