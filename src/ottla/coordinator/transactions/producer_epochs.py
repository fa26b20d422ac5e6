"""The epochs of a producer id: 16 bits, each taking over from the one before; used up, a new id begins at 0.

One epoch is kept back, so that a producer with the last usable one can still be fenced.
"""

from typing import Final

from ottla.base.errors import invariant
from ottla.base.types import ProducerId
from ottla.coordinator.machine import ProducerIdentity

EPOCH_MAX: Final = 2**15 - 1
LAST_USABLE_EPOCH: Final = EPOCH_MAX - 1


def next_identity(identity: ProducerIdentity, new_producer_id: ProducerId | None) -> ProducerIdentity | None:
    """Who a producer becomes that goes on or takes over; None where that takes a new producer id and none is at hand."""
    if identity.epoch < LAST_USABLE_EPOCH:
        return ProducerIdentity(identity.producer_id, identity.epoch + 1)
    return None if new_producer_id is None else ProducerIdentity(new_producer_id, 0)


def fencing(identity: ProducerIdentity) -> ProducerIdentity:
    """What ends the use of `identity`, and may be nobody's."""
    invariant(identity.epoch < EPOCH_MAX, "the last epoch is never a client's", epoch=identity.epoch)
    return ProducerIdentity(identity.producer_id, identity.epoch + 1)
