"""What a decision is made of, and the settings that every decision may look at."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar
from uuid import UUID

from ottla.base.errors import ApiError, ErrorCode
from ottla.metadata.configs import BrokerLayers
from ottla.metadata.image import MetadataImage
from ottla.metadata.image_parts import ConfigResourceType
from ottla.metadata.records import MetadataRecord

Reply = TypeVar("Reply", covariant=True)

# One request becomes one batch, which is all or nothing: past this the request is refused (POLICY_VIOLATION).
RECORDS_PER_DECISION_MAX: Final = 10_000


def too_large() -> ApiError:
    return ApiError(
        ErrorCode.POLICY_VIOLATION,
        f"The request would write more than {RECORDS_PER_DECISION_MAX} metadata records; split it.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision(Generic[Reply]):
    records: list[MetadataRecord]
    reply: Reply


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerSettings:
    """The controller's own settings, and chance as a port."""

    node_id: int
    new_uuid: Callable[[], UUID]
    default_partition_count: int = 1
    default_replication_factor: int = 1
    topic_deletion_enabled: bool = True
    static_broker_configs: Mapping[str, str] = field(default_factory=dict)


def broker_layers(image: MetadataImage, settings: ControllerSettings, broker_id: int | None = None) -> BrokerLayers:
    """The configuration layers of a broker as the image has them; without an id, those that hold for every broker."""
    return BrokerLayers(
        dynamic={} if broker_id is None else image.configs_of(ConfigResourceType.BROKER, str(broker_id)),
        dynamic_default=image.configs_of(ConfigResourceType.BROKER, ""),
        static=settings.static_broker_configs,
    )
