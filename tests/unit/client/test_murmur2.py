"""Kafka's key hash, against values that the Java client computes and against librdkafka."""

import confluent_kafka
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.murmur2 import murmur2, partition_of_key


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("21", -973932308),
        ("foobar", -790332482),
        ("a-little-bit-long-string", -985981536),
        ("a-little-bit-longer-string", -1486304829),
        ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        ("abc", 479470107),
    ],
)
def test_hash_is_the_java_clients(text: str, expected: int) -> None:
    assert murmur2(text.encode()) == expected


@given(st.binary(max_size=40), st.integers(1, 1000))
def test_partition_is_librdkafkas(key: bytes, partition_count: int) -> None:
    assert partition_of_key(key, partition_count) == confluent_kafka.murmur2(key, partition_count)


def test_sign_bit_is_cleared_not_negated() -> None:
    assert murmur2(b"21") < 0
    assert partition_of_key(b"21", 1 << 31) == -973932308 & 0x7FFFFFFF
