"""The epochs of a producer id: 16 bits, each taking over from the one before; used up, a new id begins at 0.

One epoch is kept back, so that a producer with the last usable one can still be fenced.
"""

from typing import Final

from ottla.base.errors import invariant

EPOCH_MAX: Final = 2**15 - 1
LAST_USABLE_EPOCH: Final = EPOCH_MAX - 1


def is_exhausted(epoch: int) -> bool:
    """No further epoch can be given to a producer."""
    return epoch >= LAST_USABLE_EPOCH


def fencing(epoch: int) -> int:
    """The epoch that ends the use of `epoch`."""
    invariant(epoch < EPOCH_MAX, "the last epoch is never a client's", epoch=epoch)
    return epoch + 1
