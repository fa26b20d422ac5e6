"""Where replicas go: over racks, then hosts, then brokers."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from ottla.metadata.placement import Candidate, place_replicas


def brokers(*places, unusable=()):
    """`places`: rack and host of brokers 1, 2, …"""
    return [Candidate(n, rack, host, n not in unusable) for n, (rack, host) in enumerate(places, 1)]


def test_one_broker_gets_everything():
    found = place_replicas(brokers((None, "h")), partition_count=3, replication_factor=1, start=17)
    assert found == [(1,), (1,), (1,)]


def test_leaders_go_round_the_brokers():
    four = brokers(*((None, f"h{n}") for n in range(4)))
    found = place_replicas(four, partition_count=8, replication_factor=2, start=0)
    assert Counter(replicas[0] for replicas in found) == {1: 2, 2: 2, 3: 2, 4: 2}


def test_each_round_shifts_the_followers():
    four = brokers(*((None, f"h{n}") for n in range(4)))
    found = place_replicas(four, partition_count=12, replication_factor=2, start=0)
    followers_of_one = {replicas[1] for replicas in found if replicas[0] == 1}
    assert followers_of_one == {2, 3, 4}


def test_further_partitions_go_on_where_the_first_ones_ended():
    three = brokers(*((None, f"h{n}") for n in range(3)))
    whole = place_replicas(three, partition_count=6, replication_factor=2, start=1)
    rest = place_replicas(three, partition_count=4, replication_factor=2, start=1, first_partition=2)
    assert rest == whole[2:]


def test_replicas_spread_over_racks():
    six = brokers(("a", "1"), ("a", "2"), ("b", "3"), ("b", "4"), ("c", "5"), ("c", "6"))
    racks = {one.id: one.rack for one in six}
    for replicas in place_replicas(six, partition_count=30, replication_factor=3, start=0):
        assert {racks[one] for one in replicas} == {"a", "b", "c"}


def test_no_two_replicas_on_one_host_while_another_is_free():
    six = brokers(*((None, host) for host in "aabbcc"))
    hosts = {one.id: one.host for one in six}
    for replicas in place_replicas(six, partition_count=30, replication_factor=3, start=0):
        assert {hosts[one] for one in replicas} == {"a", "b", "c"}


def test_fenced_brokers_are_taken_last_and_never_lead_while_another_can():
    three = brokers(("a", "1"), ("b", "2"), ("c", "3"), unusable={2})
    assert all(2 not in one for one in place_replicas(three, partition_count=9, replication_factor=2, start=0))
    for replicas in place_replicas(three, partition_count=9, replication_factor=3, start=0):
        assert replicas[2] == 2


@given(
    st.lists(st.tuples(st.sampled_from([None, "a", "b", "c"]), st.sampled_from("123456")), min_size=1, max_size=12),
    st.integers(1, 20),
    st.integers(0, 1000),
    st.data(),
)
def test_every_placement_is_a_set_of_brokers_spread_as_far_as_it_goes(places, partition_count, start, data):
    candidates = brokers(*places)
    factor = data.draw(st.integers(1, len(candidates)))
    racks = {one.id: one.rack for one in candidates}
    for replicas in place_replicas(candidates, partition_count=partition_count, replication_factor=factor, start=start):
        assert len(set(replicas)) == factor
        assert len({racks[one] for one in replicas}) == min(factor, len(set(racks.values())))


def test_every_broker_of_equal_racks_gets_as_many_replicas_and_leaders():
    six = brokers(("a", "1"), ("a", "2"), ("b", "3"), ("b", "4"), ("c", "5"), ("c", "6"))
    found = place_replicas(six, partition_count=30, replication_factor=3, start=4)
    assert set(Counter(one for replicas in found for one in replicas).values()) == {15}
    assert set(Counter(replicas[0] for replicas in found).values()) == {5}


def test_within_a_rack_of_its_own_size_the_load_is_even_too():
    five = brokers(("a", "1"), ("a", "2"), ("b", "3"), ("b", "4"), ("c", "5"))
    found = place_replicas(five, partition_count=100, replication_factor=3, start=0)
    replicas = Counter(one for replicas in found for one in replicas)
    assert replicas[5] == 100
    assert all(45 <= replicas[one] <= 55 for one in (1, 2, 3, 4))


def test_two_brokers_of_one_host_never_hold_one_partition_while_another_host_of_the_rack_is_free():
    eight = brokers(*((rack, f"{rack}{host}") for rack in "ab" for host in (1, 1, 2, 2)))
    hosts = {one.id: one.host for one in eight}
    for replicas in place_replicas(eight, partition_count=40, replication_factor=4, start=3):
        assert len({hosts[one] for one in replicas}) == 4


def test_the_same_start_gives_the_same_places():
    six = brokers(*((rack, f"{rack}{n}") for rack in "abc" for n in range(2)))
    first = place_replicas(six, partition_count=12, replication_factor=3, start=17)
    assert first == place_replicas(list(reversed(six)), partition_count=12, replication_factor=3, start=17)
    assert first != place_replicas(six, partition_count=12, replication_factor=3, start=18)
