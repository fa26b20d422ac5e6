"""Brokers and controllers: registered, unfenced, fenced. A broker serves only while registered and unfenced.

The broker epoch is the offset of its registration record, so that it grows with every registration. Unfencing gives
partitions without a leader to this broker where it is in their ISR; after an unclean stop it also starts a new epoch in
the partitions that it led, because records it had acknowledged to readers may be gone (KIP-101, KIP-320).
"""

from __future__ import annotations

from typing import Final

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.types import NO_NODE, NodeId
from ottla.metadata.controller.decision import Decision
from ottla.metadata.image import MetadataImage
from ottla.metadata.image_parts import BrokerImage, FeatureRange
from ottla.metadata.records import MetadataRecord
from ottla.wire import api

_FENCE: Final = 1
_UNFENCE: Final = -1
_NOT_SUPPORTED: Final = FeatureRange(0, 0)


def decide_register_broker(image: MetadataImage, request: api.BrokerRegistrationRequest) -> Decision[int]:
    """The reply is the broker's epoch. The broker starts fenced."""
    offered = {
        item.name: FeatureRange(item.min_supported_version, item.max_supported_version) for item in request.features
    }
    for name, level in image.features.items():
        low, high = offered.get(name, _NOT_SUPPORTED)
        if not low <= level <= high:
            raise ApiError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"The cluster's {name} is {level}; broker {request.broker_id} supports {low} to {high}.",
            )
    broker_epoch = image.offset + 1
    record = api.RegisterBrokerRecord(
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
                name=name, min_supported_version=supported.min_version, max_supported_version=supported.max_version
            )
            for name, supported in offered.items()
        ],
        rack=request.rack,
        fenced=True,
        log_dirs=request.log_dirs,
    )
    return Decision(records=[record], reply=broker_epoch)


def decide_unfence_broker(
    image: MetadataImage, broker_id: NodeId, broker_epoch: int, *, new_leader_epochs: bool
) -> Decision[None]:
    _registered(image, broker_id, broker_epoch)
    records: list[MetadataRecord] = [
        api.BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=broker_epoch, fenced=_UNFENCE)
    ]
    for topic in image.topics.values():
        for number, partition in topic.partitions.items():
            leaderless = partition.leader == NO_NODE and broker_id in partition.isr
            led_before = partition.leader == broker_id
            if leaderless or (led_before and new_leader_epochs):
                records.append(api.PartitionChangeRecord(partition_id=number, topic_id=topic.id, leader=broker_id))
    return Decision(records=records, reply=None)


def decide_fence_broker(image: MetadataImage, broker_id: NodeId, broker_epoch: int) -> Decision[None]:
    """Its partitions go to the first usable member of their ISR, or stand without a leader until one is back."""
    _registered(image, broker_id, broker_epoch)
    usable = {broker.id for broker in image.brokers.values() if not broker.fenced and broker.id != broker_id}
    records: list[MetadataRecord] = [
        api.BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=broker_epoch, fenced=_FENCE)
    ]
    for topic in image.topics.values():
        for number, partition in topic.partitions.items():
            if broker_id not in partition.isr:
                continue
            # The last member stays in the ISR: it alone has everything that is committed.
            isr = [replica for replica in partition.isr if replica != broker_id] or None
            change = api.PartitionChangeRecord(partition_id=number, topic_id=topic.id, isr=isr)
            if partition.leader == broker_id:
                in_sync = isr or ()
                change.leader = next((one for one in partition.replicas if one in usable and one in in_sync), NO_NODE)
            records.append(change)
    return Decision(records=records, reply=None)


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


def _registered(image: MetadataImage, broker_id: NodeId, broker_epoch: int) -> BrokerImage:
    broker = image.brokers.get(broker_id)
    if broker is None:
        raise ApiError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker {broker_id} is not registered.")
    if broker.epoch != broker_epoch:
        raise ApiError(
            ErrorCode.STALE_BROKER_EPOCH, f"Broker {broker_id} has epoch {broker.epoch}, the request {broker_epoch}."
        )
    return broker
