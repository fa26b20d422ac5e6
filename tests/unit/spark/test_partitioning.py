"""One key, one partition, whoever writes it: the SDK, librdkafka, Java and Spark."""

import itertools
import random
from collections import Counter

import confluent_kafka
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.murmur2 import murmur2, partition_of_key
from ottla.spark.partitioning import (
    STICKY_ROWS_MIN,
    VECTOR_KEY_BYTES_MAX,
    PartitionError,
    choose_partitions,
    murmur2_of_all,
)

JAVA_HASHES = {"21": -973932308, "foobar": -790332482, "a-little-bit-long-string": -985981536, "abc": 479470107}


def chosen(keys: list[bytes | None] | None, *, count: int, partition_count: int, named: list[int | None] | None = None):  # type: ignore[no-untyped-def]
    return choose_partitions(
        None if keys is None else pa.array(keys, pa.binary()),
        None if named is None else pa.array(named, pa.int32()),
        count=count,
        partition_count=partition_count,
        chance=random.Random(1),
    ).tolist()


@given(st.lists(st.binary(max_size=40) | st.binary(min_size=250, max_size=270)), st.integers(0, 3))
def test_hashes_of_a_column_are_those_of_its_keys(keys: list[bytes], skipped: int) -> None:
    column = pa.array(keys, pa.binary())[skipped:]
    hashes = murmur2_of_all(column) if len(column) else np.empty(0, np.uint32)
    assert hashes.tolist() == [murmur2(key) & 0xFFFFFFFF for key in keys[skipped:]]
    assert VECTOR_KEY_BYTES_MAX in range(250, 270)  # Both ways were tried.


def test_hashes_are_the_java_clients() -> None:
    hashes = murmur2_of_all(pa.array([key.encode() for key in JAVA_HASHES]))
    assert hashes.astype(np.int32).tolist() == list(JAVA_HASHES.values())


@given(st.lists(st.binary(max_size=40), min_size=1), st.integers(1, 1000))
def test_partitions_are_librdkafkas_and_the_sdks(keys: list[bytes], partition_count: int) -> None:
    found = chosen(keys, count=len(keys), partition_count=partition_count)
    assert found == [confluent_kafka.murmur2(key, partition_count) for key in keys]
    assert found == [partition_of_key(key, partition_count) for key in keys]


def test_rows_without_a_key_stay_together_and_are_spread_evenly() -> None:
    few = chosen(None, count=10, partition_count=4)
    assert len(set(few)) == 1
    many = chosen([None] * 4 * STICKY_ROWS_MIN, count=4 * STICKY_ROWS_MIN, partition_count=4)
    assert Counter(many) == dict.fromkeys(range(4), STICKY_ROWS_MIN)
    assert sum(one != other for one, other in itertools.pairwise(many)) == 3


def test_a_named_partition_wins_over_the_key_and_has_to_exist() -> None:
    by_key = partition_of_key(b"k", 8)
    assert chosen([b"k", b"k"], count=2, partition_count=8, named=[7, None]) == [7, by_key]
    with pytest.raises(PartitionError, match="partition 8: the topic has 0 to 7"):
        chosen([b"k", b"k"], count=2, partition_count=8, named=[8, None])
