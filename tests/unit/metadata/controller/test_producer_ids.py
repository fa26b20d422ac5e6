import pytest

from ottla.base.errors import ApiError, ErrorCode
from ottla.metadata.controller.producer_ids import decide_allocate_producer_ids
from ottla.wire import api
from tests.unit.metadata.cluster import apply, image_of


def test_blocks_follow_each_other():
    image = image_of()
    first = decide_allocate_producer_ids(image, 1, 7)
    apply(image, first)
    second = decide_allocate_producer_ids(image, 1, 7)
    assert (first.reply.first, first.reply.end) == (0, 1000)
    assert (second.reply.first, second.reply.end) == (1000, 2000)


@pytest.mark.parametrize(("broker", "epoch"), [(2, 7), (1, 6)])
def test_only_a_registered_broker_gets_a_block(broker, epoch):
    with pytest.raises(ApiError) as refused:
        decide_allocate_producer_ids(image_of(), broker, epoch)
    assert refused.value.code is ErrorCode.STALE_BROKER_EPOCH


def test_the_last_block_is_the_last():
    image = image_of(api.ProducerIdsRecord(broker_id=1, next_producer_id=2**63 - 1000))
    with pytest.raises(ApiError, match="given out"):
        decide_allocate_producer_ids(image, 1, 7)
