"""What of the broker's configuration rules groups."""

from dataclasses import dataclass

from ottla.base.types import TimestampMs
from ottla.metadata.configs import BrokerConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    initial_rebalance_delay_ms: int
    session_timeout_min_ms: int
    session_timeout_max_ms: int
    members_max: int
    offset_metadata_chars_max: int
    offsets_retention_ms: TimestampMs
    expiry_check_ms: int

    @classmethod
    def of(cls, config: BrokerConfig) -> "GroupSettings":
        return cls(
            initial_rebalance_delay_ms=config.integer("group.initial.rebalance.delay.ms"),
            session_timeout_min_ms=config.integer("group.min.session.timeout.ms"),
            session_timeout_max_ms=config.integer("group.max.session.timeout.ms"),
            members_max=config.integer("group.max.size"),
            offset_metadata_chars_max=config.integer("offset.metadata.max.bytes"),
            offsets_retention_ms=config.integer("offsets.retention.minutes") * 60_000,
            expiry_check_ms=config.integer("offsets.retention.check.interval.ms"),
        )
