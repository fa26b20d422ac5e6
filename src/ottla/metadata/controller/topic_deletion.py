"""The deletion of topics, by name or by id. Every outcome is per topic.

A topic named twice, or once by name and once by id, is refused rather than guessed. The configurations of a topic go
with it when its removal is replayed; its files go when brokers follow.
"""

from __future__ import annotations

from collections import Counter

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.types import ZERO_TOPIC_ID, TopicId
from ottla.metadata.controller.decision import RECORDS_PER_DECISION_MAX, ControllerSettings, Decision, too_large
from ottla.metadata.image import MetadataImage
from ottla.metadata.image_parts import TopicImage
from ottla.metadata.records import MetadataRecord
from ottla.wire import api


def decide_delete_topics(
    image: MetadataImage, request: api.DeleteTopicsRequest, settings: ControllerSettings
) -> Decision[api.DeleteTopicsResponse]:
    asked: list[tuple[str | None, TopicId]] = [(name, ZERO_TOPIC_ID) for name in request.topic_names]
    asked += [(topic.name, topic.topic_id) for topic in request.topics]
    found = [_find(image, name, topic_id) for name, topic_id in asked]
    times_found = Counter(topic.id for topic in found if isinstance(topic, TopicImage))
    times_asked = Counter(asked)
    records: list[MetadataRecord] = []
    results = []
    for key, topic in zip(asked, found, strict=True):
        try:
            if times_asked[key] > 1 or (isinstance(topic, TopicImage) and times_found[topic.id] > 1):
                raise ApiError(ErrorCode.INVALID_REQUEST, "The topic is named twice in the request.")
            if isinstance(topic, ApiError):
                raise topic
            if not settings.topic_deletion_enabled:
                raise ApiError(ErrorCode.TOPIC_DELETION_DISABLED, "Topic deletion is disabled (delete.topic.enable).")
            if len(records) == RECORDS_PER_DECISION_MAX:
                raise too_large()
            records.append(api.RemoveTopicRecord(topic_id=topic.id))
            results.append(_result(topic.name, topic.id, None))
        except ApiError as error:
            results.append(_result(*key, error))
    return Decision(records=records, reply=api.DeleteTopicsResponse(responses=results))


def _find(image: MetadataImage, name: str | None, topic_id: TopicId) -> TopicImage | ApiError:
    if name is not None and topic_id != ZERO_TOPIC_ID:
        return ApiError(ErrorCode.INVALID_REQUEST, "Give a topic's name or its id, not both.")
    if name is not None:
        topic = image.topics.get(name)
        return topic or ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Topic '{name}' does not exist.")
    if topic_id == ZERO_TOPIC_ID:
        return ApiError(ErrorCode.INVALID_REQUEST, "Neither a topic's name nor its id was given.")
    return image.topics_by_id.get(topic_id) or ApiError(ErrorCode.UNKNOWN_TOPIC_ID, "No topic has this id.")


def _result(
    name: str | None, topic_id: TopicId, error: ApiError | None
) -> api.DeleteTopicsResponse.DeletableTopicResult:
    return api.DeleteTopicsResponse.DeletableTopicResult(
        name=name,
        topic_id=topic_id,
        error_code=ErrorCode.NONE if error is None else error.code,
        error_message=None if error is None else error.message,
    )
