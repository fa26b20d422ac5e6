"""Client metrics pushed to the broker (KIP-714)."""

from typing import Final

MESSAGES: Final = """\
GetTelemetrySubscriptionsRequest: request 71, versions 0, flexible 0+, on broker
  client_instance_id: uuid

GetTelemetrySubscriptionsResponse: response 71, versions 0, flexible 0+
  throttle_time_ms: int32
  error_code: int16
  client_instance_id: uuid
  subscription_id: int32
  accepted_compression_types: [int8]
  push_interval_ms: int32
  telemetry_max_bytes: int32
  delta_temporality: bool
  requested_metrics: [string]

PushTelemetryRequest: request 72, versions 0, flexible 0+, on broker
  client_instance_id: uuid
  subscription_id: int32
  terminating: bool
  compression_type: int8
  metrics: bytes

PushTelemetryResponse: response 72, versions 0, flexible 0+
  throttle_time_ms: int32
  error_code: int16
"""
