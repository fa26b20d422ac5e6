"""Each strategy's spread, and what a hot key does under it (scene 14; seeds 000, 002, 003)."""

import itertools
import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.murmur2 import partition_of_key
from ottla.client.partitioners import (
    COUNTED_KEYS_MAX,
    HASH,
    FallThrough,
    KeyHash,
    Partitioner,
    RoundRobin,
    Salting,
    Sticky,
)

PARTITIONS = 12
HOT = b"celebrity"


def hot_key_traffic(count: int = 10_000, *, seed: int = 14) -> list[bytes]:
    """Nine records of ten have one key."""
    chance = random.Random(seed)
    return [HOT if chance.random() < 0.9 else b"user-%d" % chance.randrange(1000) for _ in range(count)]


def spread(partitioner: Partitioner, keys: list[bytes | None]) -> Counter[int]:
    return Counter(partitioner("events", key, b"value", PARTITIONS) for key in keys)


def test_key_hash_sends_one_key_to_one_partition() -> None:
    assert spread(KeyHash(), [b"user_123"] * 100) == {partition_of_key(b"user_123", PARTITIONS): 100}


def test_key_hash_spreads_many_keys_evenly() -> None:
    counts = spread(HASH, [b"user-%d" % number for number in range(12_000)])
    assert set(counts) == set(range(PARTITIONS))
    assert max(counts.values()) < 1.2 * 12_000 / PARTITIONS


def test_hot_key_by_hash_burdens_one_partition() -> None:
    counts = spread(KeyHash(), hot_key_traffic())
    assert counts.most_common(1)[0][1] > 8_500


def test_round_robin_is_even_whatever_the_keys() -> None:
    counts = spread(RoundRobin(), [HOT] * 1_200)
    assert counts == dict.fromkeys(range(PARTITIONS), 100)


def test_round_robin_counts_each_topic_for_itself() -> None:
    partitioner = RoundRobin()
    assert [partitioner(topic, None, None, 3) for topic in ("a", "b", "a", "b")] == [0, 0, 1, 1]


def test_sticky_stays_for_a_batch_then_moves() -> None:
    partitioner = Sticky(batch_bytes=1_000, chance=random.Random(1))
    chosen = [partitioner("events", None, b"x" * 100, PARTITIONS) for _ in range(200)]
    stays = [set(chosen[start : start + 10]) for start in range(0, 200, 10)]
    assert all(len(stay) == 1 for stay in stays)
    assert all(before != after for before, after in itertools.pairwise(stays))


def test_sticky_reaches_every_partition_evenly() -> None:
    partitioner = Sticky(batch_bytes=100, chance=random.Random(2))
    counts = Counter(partitioner("events", None, b"x" * 50, PARTITIONS) for _ in range(12_000))
    assert set(counts) == set(range(PARTITIONS))
    assert max(counts.values()) < 1.3 * 12_000 / PARTITIONS


def test_keyless_records_are_sticky_by_default() -> None:
    assert len(spread(KeyHash(), [None] * 50)) == 1


def test_salting_spreads_the_hot_key_over_at_most_five_partitions() -> None:
    partitioner = Salting([HOT])
    used = Counter(partitioner("events", key, b"", PARTITIONS) for key in hot_key_traffic() if key == HOT)
    assert len(used) == 5
    assert max(used.values()) - min(used.values()) <= 1


def test_salting_leaves_other_keys_in_order() -> None:
    partitioner = Salting(["celebrity"])
    others = [key for key in hot_key_traffic() if key != HOT]
    assert all(partitioner("t", key, b"", PARTITIONS) == partition_of_key(key, PARTITIONS) for key in others)


def test_salting_tells_readers_where_a_key_is() -> None:
    partitioner = Salting([HOT], salts=3)
    used = {partitioner("t", HOT, b"", PARTITIONS) for _ in range(30)}
    assert used == set(partitioner.partitions_of_key(HOT, PARTITIONS))
    assert partitioner.partitions_of_key(b"cold", PARTITIONS) == [partition_of_key(b"cold", PARTITIONS)]


@pytest.mark.parametrize("salts", [0, 6])
def test_salting_refuses_more_salts_than_readers_bear(salts: int) -> None:
    with pytest.raises(ValueError, match="give 1 to 5"):
        Salting([HOT], salts=salts)


def test_fall_through_begins_past_the_threshold() -> None:
    partitioner = FallThrough(threshold=100, monotonic=lambda: 0.0)
    chosen = [partitioner("events", HOT, b"", PARTITIONS) for _ in range(1_300)]
    assert set(chosen[:100]) == {partition_of_key(HOT, PARTITIONS)}
    assert Counter(chosen[100:]) == dict.fromkeys(range(PARTITIONS), 100)


def test_fall_through_leaves_cold_keys_in_order() -> None:
    partitioner = FallThrough(threshold=100, monotonic=lambda: 0.0)
    for key in hot_key_traffic():
        partition = partitioner("events", key, b"", PARTITIONS)
        assert key == HOT or partition == partition_of_key(key, PARTITIONS)


def test_fall_through_returns_to_the_hash_with_the_next_window() -> None:
    now = [0.0]
    partitioner = FallThrough(threshold=1, window_s=1.0, monotonic=lambda: now[0])
    home = partition_of_key(HOT, PARTITIONS)
    hot = [partitioner("events", HOT, b"", PARTITIONS) for _ in range(1 + PARTITIONS)]
    assert set(hot) == set(range(PARTITIONS))
    now[0] = 1.0
    assert partitioner("events", HOT, b"", PARTITIONS) == home


def test_fall_through_counts_a_bounded_number_of_keys() -> None:
    partitioner = FallThrough(threshold=1, monotonic=lambda: 0.0)
    for number in range(COUNTED_KEYS_MAX):
        partitioner("events", b"key-%d" % number, b"", PARTITIONS)
    late = [partitioner("events", b"late", b"", PARTITIONS) for _ in range(50)]
    assert set(late) == {partition_of_key(b"late", PARTITIONS)}


@given(st.integers(1, 50), st.none() | st.binary(max_size=8))
def test_every_choice_is_a_partition_of_the_topic(partition_count: int, key: bytes | None) -> None:
    for partitioner in (KeyHash(), RoundRobin(), Sticky(), Salting([b""]), FallThrough(threshold=1)):
        for _ in range(3):
            assert 0 <= partitioner("t", key, b"", partition_count) < partition_count


def test_sticky_follows_a_topic_that_was_recreated_smaller() -> None:
    partitioner = Sticky(chance=random.Random(3))
    assert all(partitioner("t", None, b"", count) < count for count in (50, 3, 1))
