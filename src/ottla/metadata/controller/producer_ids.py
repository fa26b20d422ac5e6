"""Producer ids: brokers take blocks and hand out single ids, so that InitProducerId rarely asks the controller.

An id is never given twice: what a restarted broker had left of its block is forgotten (KIP-730).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.types import NodeId, ProducerId
from ottla.metadata.controller.decision import Decision
from ottla.metadata.image import MetadataImage
from ottla.wire import api

PRODUCER_ID_BLOCK_COUNT: Final = 1000
PRODUCER_ID_MAX: Final = 2**63 - 1


class ProducerIdBlock(NamedTuple):
    first: ProducerId
    end: ProducerId
    """The first id after the block."""


def decide_allocate_producer_ids(
    image: MetadataImage, broker_id: NodeId, broker_epoch: int
) -> Decision[ProducerIdBlock]:
    broker = image.brokers.get(broker_id)
    if broker is None or broker.epoch != broker_epoch:
        raise ApiError(ErrorCode.STALE_BROKER_EPOCH, f"Broker {broker_id} is not registered with epoch {broker_epoch}.")
    if image.next_producer_id > PRODUCER_ID_MAX - PRODUCER_ID_BLOCK_COUNT:
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, "All producer ids have been given out.")
    block = ProducerIdBlock(image.next_producer_id, image.next_producer_id + PRODUCER_ID_BLOCK_COUNT)
    record = api.ProducerIdsRecord(broker_id=broker_id, broker_epoch=broker_epoch, next_producer_id=block.end)
    return Decision(records=[record], reply=block)
