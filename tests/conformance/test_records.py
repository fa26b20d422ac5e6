"""What a record holds comes back as it went in, from every client to every other: keys, values, headers, nulls."""

from collections.abc import Callable

import pytest

from tests.conformance.client import Client, ClientError, Record
from tests.conformance.error_codes import INVALID_RECORD, MESSAGE_TOO_LARGE, UNKNOWN_SERVER_ERROR
from tests.conformance.registry import Can, can, clients_that, names_that
from tests.conformance.under_test import Keeper

ALL_BYTES = bytes(range(256))
HEADERS = [("empty", b""), ("twice", b"1"), ("twice", b"2"), ("ünïcode", "ж".encode())]

RECORDS = [
    Record(key=b"key", value=b"value"),
    Record(key=None, value=b"no key"),
    Record(key=b"no value", value=None),
    Record(key=b"empty value", value=b""),
    Record(key="ключ".encode(), value="значение \U0001f4e8".encode()),
    Record(key=b"k", value=ALL_BYTES),
    Record(key=b"k", value=b"with headers", headers=HEADERS),
]
SPECIAL_RECORDS = {
    Can.WRITE_NULL_RECORD: Record(key=None, value=None),
    Can.WRITE_EMPTY_VALUE: Record(key=None, value=b""),
    Can.WRITE_NULL_HEADER: Record(key=b"k", value=b"v", headers=[("null", None), ("after", b"null")]),
}

# One record of this many value bytes, with neither key nor headers, makes a batch of exactly max.message.bytes
# (1048588): 61 bytes of batch header, 3 of record length, 8 of record fields.
LARGEST_VALUE_BYTES = 1048588 - 61 - 3 - 8
LARGER_THAN_THE_BROKER_ALLOWS = {"max_request_bytes": 4 << 20}


@clients_that(Can.WRITE)
def test_every_client_reads_what_this_one_wrote(client: Client, borrow: Callable[[str], Client], topic: str) -> None:
    written = RECORDS + [record for ability, record in SPECIAL_RECORDS.items() if can(client, ability)]
    stored = client.produce(topic, written)
    assert [one.offset for one in stored] == list(range(len(written)))
    for name in names_that(Can.READ):
        found = borrow(name).fetch(topic, count=len(written))
        assert [(one.key, one.value, one.headers) for one in found] == [
            (record.key, record.value, record.headers) for record in written
        ], name
        assert [one.offset for one in found] == list(range(len(written))), name


@clients_that(Can.WRITE, Can.HANDLE_BINARY_HEADER)
def test_header_values_are_any_bytes(client: Client, borrow: Callable[[str], Client], topic: str) -> None:
    headers = [("binary", ALL_BYTES), ("long", b"\0" * 40_000)]
    client.produce(topic, [Record(value=b"v", headers=headers)])
    for name in names_that(Can.READ, Can.HANDLE_BINARY_HEADER):
        [found] = borrow(name).fetch(topic, count=1)
        assert found.headers == headers, name


@clients_that(Can.WRITE)
def test_scene_16_the_largest_message_passes_and_one_byte_more_is_refused(
    client: Client, keeper: Keeper, topic: str
) -> None:
    largest = b"x" * LARGEST_VALUE_BYTES
    [stored] = client.produce(topic, [Record(value=largest)], **LARGER_THAN_THE_BROKER_ALLOWS)
    [refused] = client.attempt(topic, [Record(value=largest + b"x")], **LARGER_THAN_THE_BROKER_ALLOWS)
    assert isinstance(refused, ClientError)
    assert refused.code == MESSAGE_TOO_LARGE, refused
    reader = client if can(client, Can.READ) else keeper
    [found] = reader.fetch(topic, count=1)
    assert (found.offset, found.value) == (stored.offset, largest)
    assert keeper.locate(topic, "latest").offset == 1


@clients_that(Can.WRITE, Can.READ)
def test_a_topic_may_allow_larger_messages(client: Client, keeper: Keeper, topic_name: str) -> None:
    keeper.create(topic_name, configs={"max.message.bytes": str(3 << 20)})
    value = b"y" * (2 << 20)
    client.produce(topic_name, [Record(value=value)], **LARGER_THAN_THE_BROKER_ALLOWS)
    [found] = client.fetch(topic_name, count=1)
    assert found.value == value


@clients_that(Can.WRITE)
def test_a_compacted_topic_takes_no_record_without_a_key(client: Client, keeper: Keeper, topic_name: str) -> None:
    keeper.create(topic_name, configs={"cleanup.policy": "compact"})
    [refused] = client.attempt(topic_name, [Record(key=None, value=b"v")])
    assert isinstance(refused, ClientError)
    assert refused.code == (
        UNKNOWN_SERVER_ERROR if client.name == "aiokafka" else INVALID_RECORD
    )  # which it cannot name
    [stored] = client.produce(topic_name, [Record(key=b"k", value=b"v")])
    assert stored.offset == 0


@clients_that(Can.WRITE, Can.READ)
@pytest.mark.parametrize("start", [0, 7, 19])
def test_replay_from_an_offset(client: Client, topic: str, start: int) -> None:
    client.produce(topic, [Record(value=b"%d" % number) for number in range(20)])
    for _ in range(2):  # Reading takes nothing away.
        found = client.fetch(topic, offset=start, count=20 - start)
        assert [one.value for one in found] == [b"%d" % number for number in range(start, 20)]
