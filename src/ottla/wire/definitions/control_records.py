"""Bodies of the control records that brokers and the quorum write into logs."""

from typing import Final

MESSAGES: Final = """\
ControlRecordTypeSchema: data, versions 0
  type: int16

EndTxnMarker: data, versions 0
  coordinator_epoch: int32

LeaderChangeMessage: data, versions 0-1, flexible 0+
  version: int16
  leader_id: int32
  voters: [Voter]
  granting_voters: [Voter]
  Voter:
    voter_id: int32
    voter_directory_id: uuid 1+

SnapshotHeaderRecord: data, versions 0, flexible 0+
  version: int16
  last_contained_log_timestamp: int64

SnapshotFooterRecord: data, versions 0, flexible 0+
  version: int16

KRaftVersionRecord: data, versions 0, flexible 0+
  version: int16
  k_raft_version: int16

VotersRecord: data, versions 0, flexible 0+
  version: int16
  voters: [Voter]
    voter_id: int32
    voter_directory_id: uuid
    endpoints: [Endpoint]
      name: string
      host: string
      port: uint16
    k_raft_version_feature: KRaftVersionFeature
      min_supported_version: int16
      max_supported_version: int16
"""
