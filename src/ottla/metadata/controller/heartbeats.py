"""Heartbeats: a broker says how far it is and what it wants; the controller says what it is.

    FENCED ──caught up──▶ ACTIVE ──want_shut_down──▶ SHUTTING_DOWN ──no leader left, everybody told──▶ STOPPED
       ◀────want_fence─────┘                              └──▶ FENCED by silence

A broker that wants to stop first hands over what it leads, and is let go once every other broker has heard of it: until
then clients that know the old leaders still find it. One alone in its cluster goes at once and keeps what it leads. Log
directories that went offline give up their replicas; a broker whose last one takes no writes leaves ISRs to others, and
keeps only what nobody else can lead.
"""

from __future__ import annotations

from enum import Enum, auto

from ottla.base.types import NodeId
from ottla.metadata.controller.broker_partitions import (
    is_alone,
    plan_departure,
    plan_handover,
    plan_offline_directories,
)
from ottla.metadata.controller.brokers import decide_fence_broker, decide_unfence_broker, registered_broker
from ottla.metadata.controller.decision import Decision
from ottla.metadata.controller.electorate import Electorate, StaticConfigs
from ottla.metadata.controller.sessions import BrokerSessions
from ottla.metadata.image import MetadataImage
from ottla.metadata.image_parts import BrokerImage
from ottla.metadata.records import MetadataRecord
from ottla.wire import api


class BrokerState(Enum):
    FENCED = auto()
    ACTIVE = auto()
    SHUTTING_DOWN = auto()
    STOPPED = auto()
    """Fenced for good: the process may end."""


def decide_heartbeat(
    image: MetadataImage,
    request: api.BrokerHeartbeatRequest,
    sessions: BrokerSessions,
    *,
    static_configs: StaticConfigs,
) -> Decision[api.BrokerHeartbeatResponse]:
    """The caller has told `sessions` of this heartbeat. STALE_BROKER_EPOCH for any but the present incarnation."""
    broker = registered_broker(image, request.broker_id, request.broker_epoch)
    present, wanted = _state_of(broker), _next_state(image, broker, request, sessions)
    records = _offline_directories(image, broker, request, static_configs)
    if not records and broker.id in sessions.refusing_ids:
        # Nothing is recorded of the broker: with the first heartbeat that says otherwise it is as good as any.
        records = plan_handover(image, Electorate(image, static_configs, refusing=sessions.refusing_ids), broker.id)
    if records:
        wanted = present  # One thing at a time: what the directories held is gone before anything is built on it.
    elif wanted is not present:
        records = _transition(image, broker, wanted, static_configs)
    reply = api.BrokerHeartbeatResponse(
        is_caught_up=_is_caught_up(broker, request),
        is_fenced=wanted in (BrokerState.FENCED, BrokerState.STOPPED),
        should_shut_down=wanted is BrokerState.STOPPED,
    )
    return Decision(records=records, reply=reply)


def _state_of(broker: BrokerImage) -> BrokerState:
    if broker.fenced:
        return BrokerState.FENCED
    return BrokerState.SHUTTING_DOWN if broker.in_controlled_shutdown else BrokerState.ACTIVE


def _next_state(
    image: MetadataImage, broker: BrokerImage, request: api.BrokerHeartbeatRequest, sessions: BrokerSessions
) -> BrokerState:
    match _state_of(broker):
        case BrokerState.FENCED if request.want_shut_down or broker.in_controlled_shutdown:
            return BrokerState.STOPPED
        case BrokerState.FENCED:
            is_caught_up = _is_caught_up(broker, request) and sessions.knows_it_is_fenced(broker)
            may_serve = not request.want_fence and is_caught_up
            return BrokerState.ACTIVE if may_serve else BrokerState.FENCED
        case BrokerState.ACTIVE if request.want_shut_down:
            may_go = request.want_fence or is_alone(image, broker.id) or not _leads_any(image, broker.id)
            return BrokerState.STOPPED if may_go else BrokerState.SHUTTING_DOWN
        case BrokerState.ACTIVE:
            return BrokerState.FENCED if request.want_fence else BrokerState.ACTIVE
        case _:
            may_go = not _leads_any(image, broker.id) and sessions.has_been_told(image, broker.id)
            return BrokerState.STOPPED if may_go else BrokerState.SHUTTING_DOWN


def _transition(
    image: MetadataImage,
    broker: BrokerImage,
    wanted: BrokerState,
    static_configs: StaticConfigs,
) -> list[MetadataRecord]:
    match wanted:
        case BrokerState.ACTIVE:
            return decide_unfence_broker(image, broker.id, broker.epoch, static_configs=static_configs).records
        case BrokerState.SHUTTING_DOWN:
            records = plan_departure(image, Electorate(image, static_configs, leaving=broker.id), broker.id)
            change = api.BrokerRegistrationChangeRecord(
                broker_id=broker.id, broker_epoch=broker.epoch, in_controlled_shutdown=1
            )
            return [*records, change]
        case _ if broker.fenced or is_alone(image, broker.id):
            return []
        case _:
            return decide_fence_broker(image, broker.id, broker.epoch, static_configs=static_configs).records


def _offline_directories(
    image: MetadataImage, broker: BrokerImage, request: api.BrokerHeartbeatRequest, static_configs: StaticConfigs
) -> list[MetadataRecord]:
    """Directories that the image still has online, but for the last ones."""
    offline = [directory for directory in broker.log_directories if directory in request.offline_log_dirs]
    online = [directory for directory in broker.log_directories if directory not in request.offline_log_dirs]
    if not offline or not online:
        return []
    electorate = Electorate(image, static_configs, leaving=broker.id)
    records = plan_offline_directories(image, electorate, broker.id, offline)
    change = api.BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, log_dirs=online)
    return [*records, change]


def _is_caught_up(broker: BrokerImage, request: api.BrokerHeartbeatRequest) -> bool:
    """It knows at least of its own registration, whose offset is its epoch."""
    return request.current_metadata_offset >= broker.epoch


def _leads_any(image: MetadataImage, broker_id: NodeId) -> bool:
    return any(ref.partition.leader == broker_id for ref in image.partitions_on(broker_id))
