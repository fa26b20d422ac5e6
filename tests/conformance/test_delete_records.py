"""Delete records: the log's start moves, what lies before it is out of range, the rest is untouched."""

import pytest

from tests.conformance.client import Client, ClientError, Record
from tests.conformance.error_codes import LIBRDKAFKA_RESET_REFUSED, OFFSET_OUT_OF_RANGE
from tests.conformance.registry import Can, clients_that
from tests.conformance.under_test import Keeper

RECORD_COUNT = 10
UP_TO_THE_HIGH_WATERMARK = -1


@pytest.fixture
def filled_topic(keeper: Keeper, topic: str) -> str:
    for number in range(RECORD_COUNT):
        keeper.produce(topic, [Record(value=b"%d" % number)])
    return topic


@clients_that(Can.ADMINISTER)
def test_the_log_starts_where_it_was_told(client: Client, keeper: Keeper, filled_topic: str) -> None:
    assert client.call("delete_records", topic=filled_topic, partition=0, before=4) == 4
    assert client.locate(filled_topic, "earliest").offset == 4
    assert client.locate(filled_topic, "latest").offset == RECORD_COUNT
    found = keeper.fetch(filled_topic, offset=0, count=RECORD_COUNT - 4, reset="earliest")
    assert [one.offset for one in found] == list(range(4, RECORD_COUNT))


@clients_that(Can.ADMINISTER)
def test_everything_up_to_the_high_watermark(client: Client, filled_topic: str) -> None:
    low = client.call("delete_records", topic=filled_topic, partition=0, before=UP_TO_THE_HIGH_WATERMARK)
    assert low == RECORD_COUNT
    assert client.locate(filled_topic, "earliest").offset == RECORD_COUNT


@clients_that(Can.ADMINISTER)
def test_nothing_beyond_the_end(client: Client, keeper: Keeper, filled_topic: str) -> None:
    with pytest.raises(ClientError) as refused:
        client.call("delete_records", topic=filled_topic, partition=0, before=RECORD_COUNT + 1)
    assert refused.value.code == OFFSET_OUT_OF_RANGE, refused.value
    assert keeper.locate(filled_topic, "earliest").offset == 0


@clients_that(Can.READ)
@pytest.mark.parametrize("offset", [0, RECORD_COUNT + 5])
def test_reading_outside_the_log_is_out_of_range(
    client: Client, keeper: Keeper, filled_topic: str, offset: int
) -> None:
    keeper.client.call("delete_records", topic=filled_topic, partition=0, before=4)
    with pytest.raises(ClientError) as refused:
        client.fetch(filled_topic, offset=offset, count=1, reset="none")
    assert refused.value.code in (OFFSET_OUT_OF_RANGE, LIBRDKAFKA_RESET_REFUSED), refused.value


@clients_that(Can.READ)
def test_a_reader_that_may_reset_goes_on_at_the_new_start(client: Client, keeper: Keeper, filled_topic: str) -> None:
    keeper.client.call("delete_records", topic=filled_topic, partition=0, before=7)
    found = client.fetch(filled_topic, offset=2, count=3, reset="earliest")
    assert [one.offset for one in found] == [7, 8, 9]
