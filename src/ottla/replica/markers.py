"""The end of a transaction on one partition, as its coordinator decided it."""

from functools import partial

from ottla.base.types import ProducerId
from ottla.replica.partition import Partition
from ottla.wire.records import ControlType, end_transaction_marker


async def append_marker(
    partition: Partition,
    producer_id: ProducerId,
    producer_epoch: int,
    *,
    is_commit: bool,
    coordinator_epoch: int,
    is_epoch_raised: bool,
    now_ms: int,
) -> None:
    """Returns once the marker is committed; `ApiError` when it comes too late.

    `is_epoch_raised`: the marker's epoch is newer than that of the transaction (KIP-890), so that one which comes twice
    can be told from the end of a later transaction.
    """
    marker = end_transaction_marker(
        ControlType.COMMIT if is_commit else ControlType.ABORT,
        coordinator_epoch=coordinator_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        timestamp=now_ms,
    )
    # Nothing is awaited in between: what was asked of the coordinator before the marker is not appended behind it.
    partition.guards.void(producer_id, producer_epoch, is_epoch_raised=is_epoch_raised)
    append = partial(partition.log.append_marker, coordinator_epoch=coordinator_epoch, is_epoch_raised=is_epoch_raised)
    result = await partition.append(memoryview(marker), append)
    committed = partition.committed(result.last_offset)
    if committed is not None:
        await committed
