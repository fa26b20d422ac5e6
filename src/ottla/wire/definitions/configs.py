"""Configurations, features and quotas."""

from typing import Final

MESSAGES: Final = """\
DescribeConfigsRequest: request 32, versions 1-4, flexible 4+, on broker controller
  resources: [DescribeConfigsResource]
    resource_type: int8
    resource_name: string
    configuration_keys: [string]?
  include_synonyms: bool
  include_documentation: bool 3+

DescribeConfigsResponse: response 32, versions 1-4, flexible 4+
  throttle_time_ms: int32
  results: [DescribeConfigsResult]
    error_code: int16
    error_message: string?
    resource_type: int8
    resource_name: string
    configs: [DescribeConfigsResourceResult]
      name: string
      value: string?
      read_only: bool
      config_source: int8 = -1
      is_sensitive: bool
      synonyms: [DescribeConfigsSynonym]
        name: string
        value: string?
        source: int8
      config_type: int8 3+
      documentation: string? 3+

AlterConfigsRequest: request 33, versions 0-2, flexible 2+, on broker controller
  resources: [AlterConfigsResource]
    resource_type: int8
    resource_name: string
    configs: [AlterableConfig]
      name: string
      value: string?
  validate_only: bool

AlterConfigsResponse: response 33, versions 0-2, flexible 2+
  throttle_time_ms: int32
  responses: [AlterConfigsResourceResponse]
    error_code: int16
    error_message: string?
    resource_type: int8
    resource_name: string

IncrementalAlterConfigsRequest: request 44, versions 0-1, flexible 1+, on broker controller
  resources: [AlterConfigsResource]
    resource_type: int8
    resource_name: string
    configs: [AlterableConfig]
      name: string
      config_operation: int8
      value: string?
  validate_only: bool

IncrementalAlterConfigsResponse: response 44, versions 0-1, flexible 1+
  throttle_time_ms: int32
  responses: [AlterConfigsResourceResponse]
    error_code: int16
    error_message: string?
    resource_type: int8
    resource_name: string

ListConfigResourcesRequest: request 74, versions 0-1, flexible 0+, on broker
  resource_types: [int8] 1+

ListConfigResourcesResponse: response 74, versions 0-1, flexible 0+
  throttle_time_ms: int32
  error_code: int16
  config_resources: [ConfigResource]
    resource_name: string
    resource_type: int8 1+ = 16

UpdateFeaturesRequest: request 57, versions 0-2, flexible 0+, on broker controller
  timeout_ms: int32 = 60000
  feature_updates: [FeatureUpdateKey]
    feature: string
    max_version_level: int16
    allow_downgrade: bool 0
    upgrade_type: int8 1+ = 1
  validate_only: bool 1+

UpdateFeaturesResponse: response 57, versions 0-2, flexible 0+
  throttle_time_ms: int32
  error_code: int16
  error_message: string?
  results: [UpdatableFeatureResult] 0-1
    feature: string
    error_code: int16
    error_message: string?

DescribeClientQuotasRequest: request 48, versions 0-1, flexible 1+, on broker
  components: [ComponentData]
    entity_type: string
    match_type: int8
    match: string?
  strict: bool

DescribeClientQuotasResponse: response 48, versions 0-1, flexible 1+
  throttle_time_ms: int32
  error_code: int16
  error_message: string?
  entries: [EntryData]?
    entity: [EntityData]
      entity_type: string
      entity_name: string?
    values: [ValueData]
      key: string
      value: float64

AlterClientQuotasRequest: request 49, versions 0-1, flexible 1+, on broker controller
  entries: [EntryData]
    entity: [EntityData]
      entity_type: string
      entity_name: string?
    ops: [OpData]
      key: string
      value: float64
      remove: bool
  validate_only: bool

AlterClientQuotasResponse: response 49, versions 0-1, flexible 1+
  throttle_time_ms: int32
  entries: [EntryData]
    error_code: int16
    error_message: string?
    entity: [EntityData]
      entity_type: string
      entity_name: string?
"""
