"""The rest of the cluster as one broker's partitions see it: who we are, who may be in sync, whom to tell of a proposal.

One object, shared by all partitions of a broker and kept up to date by `Partitions`.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.base.types import NodeId
from ottla.metadata.image import MetadataImage
from ottla.replica.throttle import Throttle

if TYPE_CHECKING:
    from ottla.replica.partition import Partition

LAG_SECONDS_DEFAULT = 30.0


class ClusterView:
    __slots__ = ("image", "lag_seconds", "node_id", "propose", "receiving", "sending")

    def __init__(self, node_id: NodeId, lag_seconds: float = LAG_SECONDS_DEFAULT) -> None:
        """`lag_seconds`: `replica.lag.time.max.ms`."""
        self.node_id = node_id
        self.lag_seconds = lag_seconds
        self.image = MetadataImage()
        self.propose: Callable[[Partition], None] = lambda partition: None
        """Where a partition with a new proposal for its ISR goes (isr_changes.py)."""
        self.sending = Throttle()
        self.receiving = Throttle()

    def is_eligible(self, node_id: NodeId, broker_epoch: int) -> bool:
        """Whether the controller would let the broker into an ISR, with the epoch it fetched in (KIP-841, KIP-903)."""
        broker = self.image.brokers.get(node_id)
        return broker is not None and broker.is_active and broker_epoch in (-1, broker.epoch)

    def is_alive(self, node_id: NodeId) -> bool:
        broker = self.image.brokers.get(node_id)
        return broker is not None and not broker.fenced

    @property
    def broker_epoch(self) -> int:
        """Ours, as registered."""
        broker = self.image.brokers.get(self.node_id)
        return -1 if broker is None else broker.epoch
