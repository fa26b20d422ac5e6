"""Who a node is when it registers: one process with its addresses, its features and its log directories.

The incarnation id is new with every start of the process; the directories say whether what was left there last time was
left in order (KIP-966).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from ottla.base.types import NodeId
from ottla.log.clean_shutdown import NO_BROKER_EPOCH
from ottla.log.directory import LogDirectory
from ottla.metadata.features import SUPPORTED_FEATURES
from ottla.metadata.image_parts import Endpoint
from ottla.wire import api


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeIdentity:
    node_id: NodeId
    cluster_id: str
    incarnation_id: UUID
    endpoints: Sequence[Endpoint]
    rack: str | None
    directory_ids: Sequence[UUID]
    previous_broker_epoch: int = NO_BROKER_EPOCH
    is_controller: bool = True
    is_broker: bool = True

    def broker_registration(self) -> api.BrokerRegistrationRequest:
        request = api.BrokerRegistrationRequest
        return request(
            broker_id=self.node_id,
            cluster_id=self.cluster_id,
            incarnation_id=self.incarnation_id,
            listeners=[
                request.Listener(name=one.name, host=one.host, port=one.port, security_protocol=one.security_protocol)
                for one in self.endpoints
            ],
            features=[
                request.Feature(name=name, min_supported_version=one.min_version, max_supported_version=one.max_version)
                for name, one in SUPPORTED_FEATURES.items()
            ],
            rack=self.rack,
            log_dirs=list(self.directory_ids),
            previous_broker_epoch=self.previous_broker_epoch,
        )

    def controller_registration(self) -> api.ControllerRegistrationRequest:
        request = api.ControllerRegistrationRequest
        return request(
            controller_id=self.node_id,
            incarnation_id=self.incarnation_id,
            listeners=[
                request.Listener(name=one.name, host=one.host, port=one.port, security_protocol=one.security_protocol)
                for one in self.endpoints
            ],
            features=[
                request.Feature(name=name, min_supported_version=one.min_version, max_supported_version=one.max_version)
                for name, one in SUPPORTED_FEATURES.items()
            ],
        )


def previous_broker_epoch(directories: Sequence[LogDirectory]) -> int:
    """The epoch that the broker stopped with, if it stopped cleanly in all its directories."""
    if not all(directory.was_clean_shutdown for directory in directories):
        return NO_BROKER_EPOCH
    epochs = {directory.last_broker_epoch for directory in directories}
    epoch = epochs.pop() if len(epochs) == 1 else None
    return NO_BROKER_EPOCH if epoch is None else epoch
