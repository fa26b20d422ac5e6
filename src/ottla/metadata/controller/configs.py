"""Dynamic configurations of topics, brokers and groups: changed key by key, or replaced as a whole (the older API).

The resulting set of a resource is checked before anything is recorded; one bad key refuses its resource, not the
others. Broker keys that a running node would not apply are refused as read-only, although Kafka may take them.

Who is eligible to lead was judged by `min.insync.replicas`: where that changes, nobody is any more (KIP-966). It is the
same on every broker, so that the controller and all leaders mean the same number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum
from typing import Final, Protocol, TypeAlias, TypeVar

from ottla.base.errors import ApiError, ErrorCode
from ottla.metadata.config_key import ConfigKey, ConfigType, ConfigValue, split_list
from ottla.metadata.configs import (
    MIN_INSYNC_REPLICAS,
    BrokerLayers,
    InvalidConfigValue,
    UnknownConfig,
    broker_key,
    check_broker_configs,
    check_group_configs,
    check_topic_configs,
    group_key,
    is_live,
    resolve_broker_config,
    resolve_group_config,
    resolve_topic_config,
    topic_key,
)
from ottla.metadata.controller.decision import ControllerSettings, Decision, broker_layers
from ottla.metadata.image import MetadataImage
from ottla.metadata.image_parts import ConfigResource, ConfigResourceType
from ottla.metadata.records import MetadataRecord
from ottla.wire import api

ConfigTexts: TypeAlias = dict[str, str]
Outcome: TypeAlias = list[MetadataRecord] | ApiError

_REFUSED_TYPES: Final = {
    ConfigResourceType.BROKER_LOGGER: "Log levels are not offered through this API; set them in the node's settings.",
    ConfigResourceType.CLIENT_METRICS: "Client metrics subscriptions are not supported.",
}


class AlterOperation(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class _Resource(Protocol):
    resource_type: int
    resource_name: str


ResourceType = TypeVar("ResourceType", bound=_Resource)


def decide_incremental_alter_configs(
    image: MetadataImage, request: api.IncrementalAlterConfigsRequest, settings: ControllerSettings
) -> Decision[api.IncrementalAlterConfigsResponse]:
    def changed(
        resource: ConfigResource, asked: api.IncrementalAlterConfigsRequest.AlterConfigsResource
    ) -> ConfigTexts:
        _check_each_once(config.name for config in asked.configs)
        texts = image.configs.get(resource, {}).copy()
        for config in asked.configs:
            current = _value_in_force(image, resource, _key_of(resource, config.name), settings)
            _apply(texts, _key_of(resource, config.name), config.config_operation, config.value, current)
        return texts

    outcomes = _plan_each(image, settings, request.resources, changed)
    response = api.IncrementalAlterConfigsResponse()
    for asked, outcome in zip(request.resources, outcomes, strict=True):
        result = api.IncrementalAlterConfigsResponse.AlterConfigsResourceResponse(
            resource_type=asked.resource_type, resource_name=asked.resource_name, error_message=None
        )
        if isinstance(outcome, ApiError):
            result.error_code, result.error_message = outcome.code, outcome.message
        response.responses.append(result)
    return Decision(records=_records_of(outcomes, request.validate_only), reply=response)


def decide_alter_configs(
    image: MetadataImage, request: api.AlterConfigsRequest, settings: ControllerSettings
) -> Decision[api.AlterConfigsResponse]:
    """The older call: what is not named goes back to its default."""

    def changed(resource: ConfigResource, asked: api.AlterConfigsRequest.AlterConfigsResource) -> ConfigTexts:
        _check_each_once(config.name for config in asked.configs)
        return {config.name: _not_null(config.name, config.value) for config in asked.configs}

    outcomes = _plan_each(image, settings, request.resources, changed)
    response = api.AlterConfigsResponse()
    for asked, outcome in zip(request.resources, outcomes, strict=True):
        result = api.AlterConfigsResponse.AlterConfigsResourceResponse(
            resource_type=asked.resource_type, resource_name=asked.resource_name, error_message=None
        )
        if isinstance(outcome, ApiError):
            result.error_code, result.error_message = outcome.code, outcome.message
        response.responses.append(result)
    return Decision(records=_records_of(outcomes, request.validate_only), reply=response)


def decide_record_min_isr(image: MetadataImage, settings: ControllerSettings) -> Decision[str | None]:
    """The number in the settings of the controller that founds a cluster is that of all its brokers (metadata/min_isr.py).

    Replies with it where it is recorded. Once there is another broker, promises were made: no controller that takes over
    changes them by what is in its settings.
    """
    resource = ConfigResource(ConfigResourceType.BROKER, "")
    before = image.configs.get(resource, {})
    text = settings.static_broker_configs.get(MIN_INSYNC_REPLICAS)
    if text is None or MIN_INSYNC_REPLICAS in before or image.brokers.keys() - {settings.node_id}:
        return Decision(records=[], reply=None)
    return Decision(records=_change_records(resource, before, {**before, MIN_INSYNC_REPLICAS: text}), reply=text)


def resource_of(image: MetadataImage, resource_type: int, name: str) -> ConfigResource:
    """The resource, if it exists and has dynamic configurations; else `ApiError`. Also used to describe."""
    if resource_type not in ConfigResourceType._value2member_map_:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Unsupported resource type {resource_type}.")
    resource = ConfigResource(ConfigResourceType(resource_type), name)
    if (refusal := _REFUSED_TYPES.get(resource.type)) is not None:
        raise ApiError(ErrorCode.INVALID_REQUEST, refusal)
    if resource.type is ConfigResourceType.TOPIC:
        if name not in image.topics:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Topic '{name}' does not exist.")
    elif resource.type is ConfigResourceType.GROUP:  # One need not exist: its configurations may come first.
        if not name:
            raise ApiError(ErrorCode.INVALID_REQUEST, "A group has a name: there are no defaults for all groups.")
    elif name and not (name.isascii() and name.isdigit() and int(name) in image.brokers):
        raise ApiError(ErrorCode.INVALID_REQUEST, f"No broker has id {name!r}; '' is the default of all brokers.")
    return resource


# ---- one resource ----


def _plan_each(
    image: MetadataImage,
    settings: ControllerSettings,
    asked: Sequence[ResourceType],
    changed: Callable[[ConfigResource, ResourceType], ConfigTexts],
) -> list[Outcome]:
    counts = Counter((item.resource_type, item.resource_name) for item in asked)
    outcomes: list[Outcome] = []
    for item in asked:
        try:
            if counts[item.resource_type, item.resource_name] > 1:
                raise ApiError(ErrorCode.INVALID_REQUEST, "The resource is named twice in the request.")
            resource = resource_of(image, item.resource_type, item.resource_name)
            before = image.configs.get(resource, {})
            after = changed(resource, item)
            _check(resource, before, after, broker_layers(image, settings))
            outcomes.append(_change_records(resource, before, after))
        except ApiError as error:
            outcomes.append(error)
        except (UnknownConfig, InvalidConfigValue) as error:
            outcomes.append(ApiError(ErrorCode.INVALID_CONFIG, str(error)))
    return outcomes


def _records_of(outcomes: Sequence[Outcome], validate_only: bool) -> list[MetadataRecord]:
    if validate_only:
        return []
    return [record for outcome in outcomes if not isinstance(outcome, ApiError) for record in outcome]


def _check(resource: ConfigResource, before: ConfigTexts, after: ConfigTexts, layers: BrokerLayers) -> None:
    if resource.type is ConfigResourceType.TOPIC:
        check_topic_configs(after)
        return
    if resource.type is ConfigResourceType.GROUP:
        check_group_configs(after, layers)
        return
    check_broker_configs(after)
    changed = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    if resource.name and MIN_INSYNC_REPLICAS in changed:
        raise ApiError(
            ErrorCode.INVALID_CONFIG, f"Set {MIN_INSYNC_REPLICAS} for a topic or for all brokers, not for one of them."
        )
    if read_only := sorted(name for name in changed if not is_live(name)):
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"Cannot update these configs dynamically, they are read-only: {', '.join(read_only)}. "
            "Set them in the node's settings and restart it.",
        )


def _change_records(resource: ConfigResource, before: ConfigTexts, after: ConfigTexts) -> list[MetadataRecord]:
    records: list[MetadataRecord] = [
        api.ConfigRecord(resource_type=resource.type, resource_name=resource.name, name=name, value=after.get(name))
        for name in {**before, **after}
        if before.get(name) != after.get(name)
    ]
    if before.get(MIN_INSYNC_REPLICAS) != after.get(MIN_INSYNC_REPLICAS):
        # The default of all brokers has no name, and concerns all topics.
        records.append(api.ClearElrRecord(topic_name=resource.name))
    return records


# ---- one key ----


def _apply(texts: ConfigTexts, key: ConfigKey, operation: int, value: str | None, current: ConfigValue) -> None:
    match operation:
        case AlterOperation.SET:
            texts[key.name] = _not_null(key.name, value)
        case AlterOperation.DELETE:
            texts.pop(key.name, None)
        case AlterOperation.APPEND | AlterOperation.SUBTRACT:
            if key.type is not ConfigType.LIST:
                raise ApiError(
                    ErrorCode.INVALID_CONFIG,
                    f"Can't {AlterOperation(operation).name} to config {key.name} because its type is not LIST.",
                )
            have = list(current) if isinstance(current, tuple) else []
            given = split_list(_not_null(key.name, value))
            if operation == AlterOperation.APPEND:
                result = have + [item for item in given if item not in have]
            else:
                result = [item for item in have if item not in given]
            texts[key.name] = ",".join(result)
        case _:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown alter operation {operation} for config {key.name}.")


def _value_in_force(
    image: MetadataImage, resource: ConfigResource, key: ConfigKey, settings: ControllerSettings
) -> ConfigValue:
    """What APPEND adds to: the value of the resource, or else what it inherits."""
    if resource.type is ConfigResourceType.TOPIC:
        factor = image.topics[resource.name].replication_factor
        layers = broker_layers(image, settings)
        return resolve_topic_config(key, image.configs.get(resource, {}), layers, factor).value
    if resource.type is ConfigResourceType.GROUP:
        return resolve_group_config(key, image.configs.get(resource, {}), broker_layers(image, settings)).value
    layers = broker_layers(image, settings, int(resource.name) if resource.name else None)
    return resolve_broker_config(key, layers).value


def _key_of(resource: ConfigResource, name: str) -> ConfigKey:
    match resource.type:
        case ConfigResourceType.TOPIC:
            return topic_key(name)
        case ConfigResourceType.GROUP:
            return group_key(name)
        case _:
            return broker_key(name)


def _check_each_once(names: Iterable[str]) -> None:
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Config {repeated[0]} is given twice.")


def _not_null(name: str, value: str | None) -> str:
    if value is None:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Null value not supported for config {name}.")
    return value
