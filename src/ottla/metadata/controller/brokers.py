"""Brokers and controllers: registered, unfenced, fenced, gone. A broker serves only while registered and unfenced.

The broker epoch is the offset of its registration record, so that it grows with every registration; whatever a broker
asks for later carries it. A new incarnation leaves every ISR and leads nothing until it is unfenced; if it does not
name the epoch that it shut down with, records it had not synced may be gone, and it is no longer eligible either
(KIP-966). A broker alone in its cluster keeps its partitions, for nobody else could take them (`broker_partitions`).

A long decision is several batches, and its controller may die between two. Who goes is recorded behind its partitions,
so that the next controller decides it again; who comes before them, and the next controller looks for partitions
without a leader (`decide_elect_where_leaderless`).
"""

from __future__ import annotations

from typing import Final

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.types import NodeId
from ottla.metadata.controller.broker_partitions import (
    is_alone,
    plan_arrival,
    plan_departure,
    plan_new_epochs,
    plan_unclean_departure,
)
from ottla.metadata.controller.decision import Decision
from ottla.metadata.controller.electorate import NO_STATIC_CONFIGS, Electorate, StaticConfigs
from ottla.metadata.image import MetadataImage
from ottla.metadata.image_parts import BrokerImage, FeatureRange
from ottla.metadata.records import MetadataRecord
from ottla.wire import api

FENCE: Final = 1
UNFENCE: Final = -1
_NOT_SUPPORTED: Final = FeatureRange(0, 0)


def decide_register_broker(
    image: MetadataImage,
    request: api.BrokerRegistrationRequest,
    *,
    static_configs: StaticConfigs = NO_STATIC_CONFIGS,
    cluster_id: str | None = None,
    is_alive: bool = False,
) -> Decision[int]:
    """The reply is the broker's epoch. The broker starts fenced.

    `is_alive`: the broker that has this id is there still (`BrokerSessions.is_in_contact`).
    """
    _check_cluster(request, cluster_id)
    _check_features(image, request)
    _check_directories(image, request)
    existing = image.brokers.get(request.broker_id)
    if existing is not None and existing.incarnation_id == request.incarnation_id:
        # The answer to the first request was lost, or a listener changed: it is the same broker, and stays as it is.
        record = _registration(request, existing.epoch)
        record.fenced, record.in_controlled_shutdown = existing.fenced, existing.in_controlled_shutdown
        return Decision(records=[record], reply=existing.epoch)
    if existing is not None and existing.is_active and is_alive:
        raise ApiError(
            ErrorCode.DUPLICATE_BROKER_REGISTRATION,
            f"Another broker with id {request.broker_id} is alive. If this one was restarted, it can register once "
            "the session of the old one ends.",
        )
    is_clean = (
        existing is not None
        and existing.epoch == request.previous_broker_epoch
        and set(existing.log_directories) <= set(request.log_dirs)  # What another one held is gone.
    )
    changes = _departure(image, request.broker_id, static_configs, is_clean=is_clean)
    broker_epoch = image.offset + 1 + len(changes)
    return Decision(records=[*changes, _registration(request, broker_epoch)], reply=broker_epoch)


def decide_unfence_broker(
    image: MetadataImage,
    broker_id: NodeId,
    broker_epoch: int,
    *,
    static_configs: StaticConfigs = NO_STATIC_CONFIGS,
) -> Decision[None]:
    """Where logs have to be compared first the partition waits for `decide_elect_where_leaderless`."""
    registered_broker(image, broker_id, broker_epoch)
    records = plan_arrival(image, Electorate(image, static_configs, joining=broker_id), broker_id)
    change = api.BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=broker_epoch, fenced=UNFENCE)
    return Decision(records=[change, *records], reply=None)


def decide_fence_broker(
    image: MetadataImage,
    broker_id: NodeId,
    broker_epoch: int,
    *,
    static_configs: StaticConfigs = NO_STATIC_CONFIGS,
) -> Decision[None]:
    """Its partitions go to another member of their ISR, or stand without a leader until somebody may lead them."""
    registered_broker(image, broker_id, broker_epoch)
    records = plan_departure(image, Electorate(image, static_configs, leaving=broker_id), broker_id)
    change = api.BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=broker_epoch, fenced=FENCE)
    return Decision(records=[*records, change], reply=None)


def decide_unregister_broker(
    image: MetadataImage, request: api.UnregisterBrokerRequest, *, static_configs: StaticConfigs
) -> Decision[api.UnregisterBrokerResponse]:
    """For a broker that is gone for good. Its replicas stay assigned to it until they are reassigned."""
    broker = image.brokers.get(request.broker_id)
    if broker is None:
        raise ApiError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker {request.broker_id} is not registered.")
    records = plan_departure(image, Electorate(image, static_configs, leaving=broker.id), broker.id)
    records.append(api.UnregisterBrokerRecord(broker_id=broker.id, broker_epoch=broker.epoch))
    return Decision(records=records, reply=api.UnregisterBrokerResponse(error_message=None))


def decide_register_controller(image: MetadataImage, request: api.ControllerRegistrationRequest) -> Decision[None]:
    record = api.RegisterControllerRecord(
        controller_id=request.controller_id,
        incarnation_id=request.incarnation_id,
        end_points=[
            api.RegisterControllerRecord.ControllerEndpoint(
                name=item.name, host=item.host, port=item.port, security_protocol=item.security_protocol
            )
            for item in request.listeners
        ],
        features=[
            api.RegisterControllerRecord.ControllerFeature(
                name=item.name,
                min_supported_version=item.min_supported_version,
                max_supported_version=item.max_supported_version,
            )
            for item in request.features
        ],
    )
    return Decision(records=[record], reply=None)


def registered_broker(image: MetadataImage, broker_id: NodeId, broker_epoch: int) -> BrokerImage:
    """The broker that asks, or STALE_BROKER_EPOCH: whoever asks with an older epoch has been replaced."""
    broker = image.brokers.get(broker_id)
    if broker is None or broker.epoch != broker_epoch:
        known = "not registered" if broker is None else f"registered with epoch {broker.epoch}"
        raise ApiError(ErrorCode.STALE_BROKER_EPOCH, f"Broker {broker_id} is {known}, the request has {broker_epoch}.")
    return broker


# ---- registration ----


def _departure(
    image: MetadataImage, broker_id: NodeId, static_configs: StaticConfigs, *, is_clean: bool
) -> list[MetadataRecord]:
    """What the end of the earlier incarnation means for its partitions."""
    if is_alone(image, broker_id):
        return [] if is_clean else plan_new_epochs(image, broker_id)
    electorate = Electorate(image, static_configs, leaving=broker_id)
    plan = plan_departure if is_clean else plan_unclean_departure
    return plan(image, electorate, broker_id)


def _check_cluster(request: api.BrokerRegistrationRequest, cluster_id: str | None) -> None:
    if cluster_id is not None and request.cluster_id != cluster_id:
        raise ApiError(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"Broker {request.broker_id} belongs to cluster {request.cluster_id}, this is cluster {cluster_id}.",
        )


def _check_features(image: MetadataImage, request: api.BrokerRegistrationRequest) -> None:
    offered = {item.name: item for item in request.features}
    for name, level in image.features.items():
        item = offered.get(name)
        low, high = _NOT_SUPPORTED if item is None else (item.min_supported_version, item.max_supported_version)
        if not low <= level <= high:
            raise ApiError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"The cluster's {name} is {level}; broker {request.broker_id} supports {low} to {high}.",
            )


def _check_directories(image: MetadataImage, request: api.BrokerRegistrationRequest) -> None:
    wanted = set(request.log_dirs)
    if not wanted or len(wanted) != len(request.log_dirs):
        raise ApiError(ErrorCode.INVALID_REGISTRATION, "A broker has log directories, each named once.")
    for broker in image.brokers.values():
        if broker.id != request.broker_id and not wanted.isdisjoint(broker.log_directories):
            raise ApiError(
                ErrorCode.INVALID_REGISTRATION,
                f"A log directory of broker {request.broker_id} belongs to broker {broker.id}: was it copied?",
            )


def _registration(request: api.BrokerRegistrationRequest, broker_epoch: int) -> api.RegisterBrokerRecord:
    return api.RegisterBrokerRecord(
        broker_id=request.broker_id,
        incarnation_id=request.incarnation_id,
        broker_epoch=broker_epoch,
        end_points=[
            api.RegisterBrokerRecord.BrokerEndpoint(
                name=item.name, host=item.host, port=item.port, security_protocol=item.security_protocol
            )
            for item in request.listeners
        ],
        features=[
            api.RegisterBrokerRecord.BrokerFeature(
                name=item.name,
                min_supported_version=item.min_supported_version,
                max_supported_version=item.max_supported_version,
            )
            for item in request.features
        ],
        rack=request.rack,
        fenced=True,
        log_dirs=request.log_dirs,
    )
