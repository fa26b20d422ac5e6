"""DescribeConfigs v1–4, AlterConfigs v0–2, IncrementalAlterConfigs v0–1, ListConfigResources v0–1.

Topics, brokers and groups have configurations; a broker's are told by that broker alone. Every key of the table is
listed with its default, type, documentation and what it shadows, except the internal ones that nobody has set.

Not done: broker loggers and client metrics subscriptions are refused with INVALID_REQUEST.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import Final

from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.node import Node
from ottla.broker.request import Api, RequestContext
from ottla.metadata.config_key import UpdateMode
from ottla.metadata.configs import (
    BROKER_CONFIGS,
    GROUP_CONFIGS,
    TOPIC_CONFIGS,
    BrokerLayers,
    ResolvedConfig,
    broker_key,
    resolve_broker_config,
    resolve_group_config,
    resolve_topic_config,
)
from ottla.metadata.controller.configs import decide_alter_configs, decide_incremental_alter_configs, resource_of
from ottla.metadata.controller.decision import broker_layers
from ottla.metadata.image_parts import ConfigResource, ConfigResourceType
from ottla.metadata.topic_names import check_topic_name
from ottla.wire import api
from ottla.wire.apis import ApiKey

RESOURCES_PER_TURN: Final = 10  # A broker has some two hundred configurations: a few milliseconds.

_LISTED_TYPES: Final = (ConfigResourceType.TOPIC, ConfigResourceType.BROKER, ConfigResourceType.GROUP)
_TYPES_ASKED_FROM: Final = 1


# ---- describe ----


async def describe_configs(
    node: Node, context: RequestContext, request: api.DescribeConfigsRequest
) -> api.DescribeConfigsResponse:
    response = api.DescribeConfigsResponse()
    for number, asked in enumerate(request.resources, 1):
        if number % RESOURCES_PER_TURN == 0:
            await asyncio.sleep(0)  # Other connections get their turns.
        result = api.DescribeConfigsResponse.DescribeConfigsResult(
            resource_type=asked.resource_type, resource_name=asked.resource_name, error_message=None
        )
        try:
            wanted = set(asked.configuration_keys or ())
            result.configs = [
                _described(config, read_only, request)
                for config, read_only in _configs_of(node, _resource(node, asked.resource_type, asked.resource_name))
                if not wanted or config.key.name in wanted
            ]
        except ApiError as error:
            result.error_code, result.error_message = error.code, error.message
        response.results.append(result)
    return response


def _resource(node: Node, resource_type: int, name: str) -> ConfigResource:
    if resource_type == ConfigResourceType.TOPIC:
        check_topic_name(name)
    resource = resource_of(node.image, resource_type, name)
    if resource.type is ConfigResourceType.BROKER and name not in ("", str(node.node_id)):
        raise ApiError(
            ErrorCode.INVALID_REQUEST, f"Broker {name} tells its own configurations; this is {node.node_id}."
        )
    return resource


def _configs_of(node: Node, resource: ConfigResource) -> Iterator[tuple[ResolvedConfig, bool]]:
    """Each configuration, and whether it is read-only."""
    layers = broker_layers(node.image, node.settings, node.node_id)
    if resource.type is ConfigResourceType.TOPIC:
        texts = node.image.configs.get(resource, {})
        factor = node.image.topics[resource.name].replication_factor
        for key in TOPIC_CONFIGS.values():
            if not key.internal or key.name in texts:
                yield resolve_topic_config(key, texts, layers, factor), False
    elif resource.type is ConfigResourceType.GROUP:
        texts = node.image.configs.get(resource, {})
        for key in GROUP_CONFIGS.values():
            yield resolve_group_config(key, texts, layers), False
    elif not resource.name:
        only_default = BrokerLayers(dynamic_default=layers.dynamic_default)
        yield from _broker_configs(layers.dynamic_default, only_default)
    else:
        set_somewhere = {**layers.static, **layers.dynamic_default, **layers.dynamic}
        listed = [key.name for key in BROKER_CONFIGS.values() if not key.internal]
        yield from _broker_configs(dict.fromkeys([*listed, *set_somewhere]), layers)


def _broker_configs(names: Iterable[str], layers: BrokerLayers) -> Iterator[tuple[ResolvedConfig, bool]]:
    for name in names:
        key = broker_key(name)._replace(name=name)  # A listener's own key keeps its prefixed name.
        yield resolve_broker_config(key, layers), key.update_mode is UpdateMode.READ_ONLY


def _described(
    config: ResolvedConfig, read_only: bool, request: api.DescribeConfigsRequest
) -> api.DescribeConfigsResponse.DescribeConfigsResourceResult:
    key = config.key
    return api.DescribeConfigsResponse.DescribeConfigsResourceResult(
        name=key.name,
        value=config.text,
        read_only=read_only,
        config_source=config.source,
        is_sensitive=key.sensitive,
        synonyms=[
            api.DescribeConfigsResponse.DescribeConfigsSynonym(name=name, value=value, source=source)
            for name, value, source in config.synonyms
            if request.include_synonyms
        ],
        config_type=key.type,
        documentation=key.documentation if request.include_documentation else None,
    )


# ---- alter ----


async def alter_configs(
    node: Node, context: RequestContext, request: api.AlterConfigsRequest
) -> api.AlterConfigsResponse:
    try:
        return await node.submit(lambda image: decide_alter_configs(image, request, node.settings))
    except ApiError as error:
        return api.AlterConfigsResponse(
            responses=[
                api.AlterConfigsResponse.AlterConfigsResourceResponse(
                    error_code=error.code,
                    error_message=error.message,
                    resource_type=resource.resource_type,
                    resource_name=resource.resource_name,
                )
                for resource in request.resources
            ]
        )


async def incremental_alter_configs(
    node: Node, context: RequestContext, request: api.IncrementalAlterConfigsRequest
) -> api.IncrementalAlterConfigsResponse:
    try:
        return await node.submit(lambda image: decide_incremental_alter_configs(image, request, node.settings))
    except ApiError as error:
        return api.IncrementalAlterConfigsResponse(
            responses=[
                api.IncrementalAlterConfigsResponse.AlterConfigsResourceResponse(
                    error_code=error.code,
                    error_message=error.message,
                    resource_type=resource.resource_type,
                    resource_name=resource.resource_name,
                )
                for resource in request.resources
            ]
        )


# ---- list ----


async def list_config_resources(
    node: Node, context: RequestContext, request: api.ListConfigResourcesRequest
) -> api.ListConfigResourcesResponse:
    """Version 0 asks for client metrics subscriptions, of which there are none; version 1 for any type."""
    response = api.ListConfigResourcesResponse()
    if context.api_version < _TYPES_ASKED_FROM:
        return response
    wanted = list(dict.fromkeys(request.resource_types)) or list(_LISTED_TYPES)
    if any(one not in ConfigResourceType._value2member_map_ for one in wanted):
        response.error_code = ErrorCode.UNSUPPORTED_VERSION
        return response
    names = {
        ConfigResourceType.TOPIC: sorted(node.image.topics),
        ConfigResourceType.BROKER: [str(broker) for broker in sorted(node.image.brokers)],
        ConfigResourceType.GROUP: sorted(
            resource.name for resource in node.image.configs if resource.type is ConfigResourceType.GROUP
        ),
    }
    response.config_resources = [
        api.ListConfigResourcesResponse.ConfigResource(resource_name=name, resource_type=resource_type)
        for resource_type in wanted
        for name in names.get(ConfigResourceType(resource_type), ())
    ]
    return response


APIS: Final[dict[int, Api]] = {
    ApiKey.DESCRIBE_CONFIGS: Api(versions=(1, 4), handle=describe_configs),
    ApiKey.ALTER_CONFIGS: Api(versions=(0, 2), handle=alter_configs, is_for_controller=True),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: Api(versions=(0, 1), handle=incremental_alter_configs, is_for_controller=True),
    ApiKey.LIST_CONFIG_RESOURCES: Api(versions=(0, 1), handle=list_config_resources),
}
