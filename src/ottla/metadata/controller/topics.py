"""The creation of topics. Every outcome is per topic; the rest of the request goes on.

A topic's name, configurations and replicas are checked before anything is recorded. All records of a request form one
batch, so that a topic never exists without its partitions; what does not fit into the batch is refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.types import NodeId, TopicId
from ottla.metadata.configs import (
    TOPIC_CONFIGS,
    InvalidConfigValue,
    UnknownConfig,
    check_topic_configs,
    resolve_topic_config,
)
from ottla.metadata.controller.assignments import check_assignment, partition_record, place
from ottla.metadata.controller.decision import (
    RECORDS_PER_DECISION_MAX,
    ControllerSettings,
    Decision,
    broker_layers,
    too_large,
)
from ottla.metadata.image import MetadataImage
from ottla.metadata.image_parts import ConfigResourceType
from ottla.metadata.records import MetadataRecord
from ottla.metadata.topic_names import METADATA_TOPIC, check_topic_name, collision_key
from ottla.wire import api

USE_DEFAULT: Final = -1
CREATE_TOPICS_VERSION: Final = 7  # In which brokers ask the controller for it.


def decide_create_topics(
    image: MetadataImage,
    request: api.CreateTopicsRequest,
    settings: ControllerSettings,
    *,
    describe_configs: bool,
) -> Decision[api.CreateTopicsResponse]:
    records: list[MetadataRecord] = []
    results: list[api.CreateTopicsResponse.CreatableTopicResult] = []
    counts = Counter(topic.name for topic in request.topics)
    requested = {topic.name: topic for topic in request.topics}
    new_keys: dict[str, str] = {}
    for name, topic in requested.items():
        try:
            if counts[name] > 1:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            _check_new_name(image, name, new_keys)
            planned = _plan_topic(image, topic, settings)
            new_records = planned.records
            if len(records) + len(new_records) > RECORDS_PER_DECISION_MAX:
                raise too_large()
        except ApiError as error:
            results.append(_refused_creation(name, error))
        else:
            records += new_records
            results.append(_created(image, planned, settings, describe_configs))
    if request.validate_only:
        records = []
    return Decision(records=records, reply=api.CreateTopicsResponse(topics=results))


def _check_new_name(image: MetadataImage, name: str, new_keys: dict[str, str]) -> None:
    """`new_keys` holds the names of this request so far, for those may collide with each other, too."""
    check_topic_name(name)
    if name == METADATA_TOPIC:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {METADATA_TOPIC} is prohibited.")
    if name in image.topics:
        raise ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    key = collision_key(name)
    other = image.colliding_topic(name) or (new_keys.get(key) if key is not None else None)
    if other is not None:
        raise ApiError(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"Topic '{name}' collides with topic '{other}': names may not differ only in '.' and '_'.",
        )
    if key is not None:
        new_keys[key] = name


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTopic:
    topic: api.TopicRecord
    configs: dict[str, str]
    partitions: list[api.PartitionRecord]

    @property
    def records(self) -> list[MetadataRecord]:
        """The topic, its configurations, its partitions: in this order, as Kafka's readers expect."""
        configs = [
            api.ConfigRecord(
                resource_type=ConfigResourceType.TOPIC, resource_name=self.topic.name, name=name, value=value
            )
            for name, value in self.configs.items()
        ]
        return [self.topic, *configs, *self.partitions]


def _plan_topic(
    image: MetadataImage, topic: api.CreateTopicsRequest.CreatableTopic, settings: ControllerSettings
) -> PlannedTopic:
    configs = _checked_configs(topic.configs)
    topic_id = settings.new_uuid()
    replica_lists = (
        _manual_replicas(image, topic) if topic.assignments else _placed_replicas(image, topic, topic_id, settings)
    )
    if len(replica_lists) + len(configs) + 1 > RECORDS_PER_DECISION_MAX:
        raise too_large()
    return PlannedTopic(
        topic=api.TopicRecord(name=topic.name, topic_id=topic_id),
        configs=configs,
        partitions=[
            partition_record(image, topic_id, partition, replicas) for partition, replicas in enumerate(replica_lists)
        ],
    )


def _checked_configs(configs: Sequence[api.CreateTopicsRequest.CreatableTopicConfig]) -> dict[str, str]:
    texts: dict[str, str] = {}
    for config in configs:
        if config.value is None:
            raise ApiError(ErrorCode.INVALID_CONFIG, f"Null value not supported for topic config {config.name}.")
        if config.name in texts:
            raise ApiError(ErrorCode.INVALID_CONFIG, f"Topic config {config.name} is given twice.")
        texts[config.name] = config.value
    try:
        check_topic_configs(texts)
    except (UnknownConfig, InvalidConfigValue) as error:
        raise ApiError(ErrorCode.INVALID_CONFIG, str(error)) from None
    return texts


def _placed_replicas(
    image: MetadataImage,
    topic: api.CreateTopicsRequest.CreatableTopic,
    topic_id: TopicId,
    settings: ControllerSettings,
) -> Sequence[Sequence[NodeId]]:
    count, factor = topic.num_partitions, topic.replication_factor
    if count != USE_DEFAULT and count <= 0:
        raise ApiError(
            ErrorCode.INVALID_PARTITIONS, "Number of partitions must be larger than 0, or -1 to use the default value."
        )
    if factor != USE_DEFAULT and factor <= 0:
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if count > RECORDS_PER_DECISION_MAX:
        raise too_large()
    return place(
        image,
        topic_id,
        partition_count=settings.default_partition_count if count == USE_DEFAULT else count,
        replication_factor=settings.default_replication_factor if factor == USE_DEFAULT else factor,
    )


def _manual_replicas(image: MetadataImage, topic: api.CreateTopicsRequest.CreatableTopic) -> list[list[NodeId]]:
    if topic.num_partitions != USE_DEFAULT:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was given, but the partition count is not -1.",
        )
    if topic.replication_factor != USE_DEFAULT:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was given, but the replication factor is not -1.",
        )
    given = {assignment.partition_index: assignment.broker_ids for assignment in topic.assignments}
    if len(given) != len(topic.assignments) or sorted(given) != list(range(len(given))):
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Partitions of a manual assignment must be numbered consecutively from 0, each once.",
        )
    factor = len(given[0])
    for partition in range(len(given)):
        check_assignment(image, partition, given[partition], factor)
    return [given[partition] for partition in range(len(given))]


def _created(
    image: MetadataImage, planned: PlannedTopic, settings: ControllerSettings, describe_configs: bool
) -> api.CreateTopicsResponse.CreatableTopicResult:
    factor = len(planned.partitions[0].replicas)
    return api.CreateTopicsResponse.CreatableTopicResult(
        name=planned.topic.name,
        topic_id=planned.topic.topic_id,
        error_code=ErrorCode.NONE,
        error_message=None,
        num_partitions=len(planned.partitions),
        replication_factor=factor,
        configs=_described(image, planned.configs, factor, settings) if describe_configs else None,
    )


def _described(
    image: MetadataImage, configs: Mapping[str, str], replication_factor: int, settings: ControllerSettings
) -> list[api.CreateTopicsResponse.CreatableTopicConfigs]:
    layers = broker_layers(image, settings)
    described = []
    for key in TOPIC_CONFIGS.values():
        if key.internal:
            continue
        resolved = resolve_topic_config(key, configs, layers, replication_factor)
        described.append(
            api.CreateTopicsResponse.CreatableTopicConfigs(
                name=key.name,
                value=resolved.text,
                read_only=False,
                config_source=resolved.source,
                is_sensitive=key.sensitive,
            )
        )
    return described


def _refused_creation(name: str, error: ApiError) -> api.CreateTopicsResponse.CreatableTopicResult:
    return api.CreateTopicsResponse.CreatableTopicResult(
        name=name, error_code=error.code, error_message=error.message, configs=None
    )
