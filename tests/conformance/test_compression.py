"""Every codec from every client: what was sent is what is stored, and every other client can read it.

The stored codec is read out of the segment file: a value that reads back right says nothing about how it was kept.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conformance.client import Client, Record
from tests.conformance.registry import Can, can, clients_that, names_that
from tests.conformance.segments import batches_on_disk
from tests.conformance.under_test import Keeper

CODECS = ["gzip", "snappy", "lz4", "zstd"]
LINGER_MS = 20  # So that a batch holds many records and compresses well.
TEXTS = [b'{"order": %d, "state": "shipped", "note": "%s"}' % (number, b"ottla " * 8) for number in range(40)]


@pytest.mark.needs_directory
@clients_that(Can.WRITE)
@pytest.mark.parametrize("codec", ["none", *CODECS])
def test_the_codec_sent_is_the_codec_stored(
    client: Client, keeper: Keeper, topic: str, data_dir: Path, codec: str
) -> None:
    client.produce(topic, [Record(value=text) for text in TEXTS], compression=codec, linger_ms=LINGER_MS)
    batches = batches_on_disk(data_dir, topic)
    assert {batch.codec for batch in batches} == {codec}
    assert sum(batch.record_count for batch in batches) == len(TEXTS)
    reader = client if can(client, Can.READ) else keeper
    assert [found.value for found in reader.fetch(topic, count=len(TEXTS))] == TEXTS


@clients_that(Can.READ)
def test_every_client_reads_every_codec_of_every_client(
    client: Client, borrow: Callable[[str], Client], topic: str
) -> None:
    written: list[bytes] = []
    for name in names_that(Can.WRITE):
        for codec in CODECS:
            values = [b"%s %s %s" % (name.encode(), codec.encode(), text) for text in TEXTS[:5]]
            borrow(name).produce(topic, [Record(value=value) for value in values], compression=codec)
            written += values
    assert [found.value for found in client.fetch(topic, count=len(written))] == written


@pytest.mark.needs_directory
@clients_that(Can.WRITE)
@pytest.mark.parametrize("codec", CODECS)
def test_an_idempotent_producer_may_compress(
    client: Client, keeper: Keeper, topic: str, data_dir: Path, codec: str
) -> None:
    settings = {"compression": codec, "idempotence": True, "acks": "all", "linger_ms": LINGER_MS}
    client.produce(topic, [Record(value=text) for text in TEXTS], **settings)
    batches = batches_on_disk(data_dir, topic)
    assert {batch.codec for batch in batches} == {codec}
    assert all(batch.producer_id >= 0 for batch in batches)
    # Sequences count records, so within one producer they run as the offsets do.
    assert [batch.base_sequence for batch in batches] == [batch.base_offset for batch in batches]
    assert [found.value for found in keeper.fetch(topic, count=len(TEXTS))] == TEXTS


@pytest.mark.needs_directory
@clients_that(Can.WRITE)
def test_scene_21_a_gzip_producers_batches_are_stored_as_lz4(
    client: Client, keeper: Keeper, topic_name: str, data_dir: Path
) -> None:
    keeper.create(topic_name, configs={"compression.type": "lz4"})
    headers = [("kept", b"too")]
    records = [Record(key=b"%d" % index, value=text, headers=headers) for index, text in enumerate(TEXTS[:6])]
    client.produce(topic_name, records, compression="gzip")
    assert {batch.codec for batch in batches_on_disk(data_dir, topic_name)} == {"lz4"}
    found = keeper.fetch(topic_name, count=len(records))
    assert [(one.key, one.value, one.headers) for one in found] == [(r.key, r.value, r.headers) for r in records]


@pytest.mark.needs_directory
@pytest.mark.parametrize("wanted", ["uncompressed", *CODECS])
def test_a_topics_codec_holds_whatever_the_producer_sends(
    borrow: Callable[[str], Client], keeper: Keeper, topic_name: str, data_dir: Path, wanted: str
) -> None:
    keeper.create(topic_name, configs={"compression.type": wanted})
    client = borrow("java")
    for sent in ["none", *CODECS]:
        client.produce(topic_name, [Record(value=text) for text in TEXTS[:5]], compression=sent, idempotence=True)
    stored = {"uncompressed": "none"}.get(wanted, wanted)
    assert {batch.codec for batch in batches_on_disk(data_dir, topic_name)} == {stored}
    assert [found.value for found in client.fetch(topic_name, count=25)] == TEXTS[:5] * 5
