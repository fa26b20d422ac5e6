"""CreateTopics v2–7, DeleteTopics v1–6, CreatePartitions v0–3: changes of topics, decided by the controller.

The answer comes once the change is committed and applied on this node, so that a topic just created can be written to.
When the whole request fails (the metadata log cannot be written, this node does not lead) every topic has that error.

Not done: `timeout_ms` is not a bound of its own, a commit is one fsync; creation policies are Java classes in Kafka.
"""

from __future__ import annotations

from typing import Final

from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.node import Node
from ottla.broker.request import Api, RequestContext
from ottla.metadata.controller.partitions import decide_create_partitions
from ottla.metadata.controller.topic_deletion import decide_delete_topics
from ottla.metadata.controller.topics import decide_create_topics
from ottla.wire import api
from ottla.wire.apis import ApiKey

_CONFIGS_FROM: Final = 5
_DELETION_DISABLED_FROM: Final = 3


async def create_topics(
    node: Node, context: RequestContext, request: api.CreateTopicsRequest
) -> api.CreateTopicsResponse:
    described = context.api_version >= _CONFIGS_FROM
    try:
        return await node.submit(
            lambda image: decide_create_topics(image, request, node.settings, describe_configs=described)
        )
    except ApiError as error:
        return api.CreateTopicsResponse(
            topics=[
                api.CreateTopicsResponse.CreatableTopicResult(
                    name=name, error_code=error.code, error_message=error.message, configs=None
                )
                for name in dict.fromkeys(topic.name for topic in request.topics)
            ]
        )


async def delete_topics(
    node: Node, context: RequestContext, request: api.DeleteTopicsRequest
) -> api.DeleteTopicsResponse:
    try:
        response = await node.submit(lambda image: decide_delete_topics(image, request, node.settings))
    except ApiError as error:
        asked = [api.DeleteTopicsRequest.DeleteTopicState(name=name) for name in request.topic_names] + request.topics
        return api.DeleteTopicsResponse(
            responses=[
                api.DeleteTopicsResponse.DeletableTopicResult(
                    name=topic.name, topic_id=topic.topic_id, error_code=error.code, error_message=error.message
                )
                for topic in asked
            ]
        )
    if context.api_version < _DELETION_DISABLED_FROM:
        for result in response.responses:
            if result.error_code == ErrorCode.TOPIC_DELETION_DISABLED:
                result.error_code = ErrorCode.INVALID_REQUEST
    return response


async def create_partitions(
    node: Node, context: RequestContext, request: api.CreatePartitionsRequest
) -> api.CreatePartitionsResponse:
    try:
        return await node.submit(lambda image: decide_create_partitions(image, request))
    except ApiError as error:
        return api.CreatePartitionsResponse(
            results=[
                api.CreatePartitionsResponse.CreatePartitionsTopicResult(
                    name=topic.name, error_code=error.code, error_message=error.message
                )
                for topic in request.topics
            ]
        )


APIS: Final[dict[int, Api]] = {
    ApiKey.CREATE_TOPICS: Api(versions=(2, 7), handle=create_topics, is_for_controller=True),
    ApiKey.DELETE_TOPICS: Api(versions=(1, 6), handle=delete_topics, is_for_controller=True),
    ApiKey.CREATE_PARTITIONS: Api(versions=(0, 3), handle=create_partitions, is_for_controller=True),
}
