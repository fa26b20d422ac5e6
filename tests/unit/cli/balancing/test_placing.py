"""Replicas that need a place: brokers emptied, replication factors raised and lowered."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.base.types import TopicPartition
from ottla.cli.balancing.balance import Balance
from ottla.cli.balancing.model import Model
from ottla.cli.balancing.placing import NoPlace, emptied, resized
from tests.unit.cli.balancing.models import load, model, models

P0 = TopicPartition("t", 0)


def every_partition(planned: Model) -> list[TopicPartition]:
    return [each.partition for each in planned.partitions]


@given(models(), st.integers(1, 6))
def test_an_emptied_broker_keeps_nothing_and_nothing_is_lost(drawn: Model, leaving: int) -> None:
    try:
        target = emptied(drawn, {leaving}, every_partition(drawn))
    except NoPlace as error:
        assert error.wanted > len(drawn.brokers) - 1
        return
    staying = {broker.id for broker in drawn.brokers} - {leaving}
    assert target.keys() == {each.partition for each in drawn.partitions if leaving in each.replicas}
    for each in drawn.partitions:
        if after := target.get(each.partition):
            assert set(after) <= staying
            assert len(set(after)) == len(each.replicas)
            assert set(each.replicas) - {leaving} <= set(after)


@given(models(), st.integers(1, 6))
def test_a_replication_factor_is_reached_and_the_leader_stays(drawn: Model, replica_count: int) -> None:
    try:
        target = resized(drawn, replica_count, every_partition(drawn))
    except NoPlace:
        assert replica_count > len(drawn.brokers)
        return
    spread = Balance(drawn, drawn.assignment)
    for each in drawn.partitions:
        after = target.get(each.partition, each.replicas)
        assert len(set(after)) == len(after) == replica_count
        assert after[0] == each.leader or each.partition not in target
        smaller, larger = sorted((set(after), set(each.replicas)), key=len)
        assert smaller <= larger
        if len(each.replicas) == 1:
            assert spread.racks_missing(after) == 0


def test_a_follower_in_sync_takes_over_not_the_new_copy() -> None:
    planned = model([None] * 4, load(0, [1, 2, 3], in_sync=[1, 3]))
    assert emptied(planned, {1}, [P0])[P0] == (3, 2, 4)


def test_the_new_copy_goes_to_the_rack_that_is_left_without() -> None:
    planned = model(["a", "b", "b", "a"], load(0, [1, 2]))
    assert emptied(planned, {1}, [P0])[P0] == (2, 4)


def test_too_few_brokers_is_told_not_worked_around() -> None:
    planned = model([None] * 3, load(0, [1, 2, 3]))
    with pytest.raises(NoPlace, match="t-0 needs 3 brokers and 2 would be there"):
        emptied(planned, {3}, [P0])
    with pytest.raises(NoPlace):
        resized(planned, 4, [P0])


def test_only_the_partitions_asked_for_move() -> None:
    planned = model([None] * 3, load(0, [1]), load(1, [1]))
    assert emptied(planned, {1}, [P0]).keys() == {P0}
    assert resized(planned, 2, [P0]).keys() == {P0}


def test_a_replica_that_is_behind_is_dropped_first_then_one_of_a_doubled_rack() -> None:
    planned = model(["a", "b", "b", "c"], load(0, [1, 2, 4], in_sync=[1, 4]))
    assert resized(planned, 2, [P0])[P0] == (1, 4)
    planned = model(["a", "b", "b", "c"], load(0, [1, 2, 3, 4]))
    assert set(resized(planned, 3, [P0])[P0]) in ({1, 2, 4}, {1, 3, 4})


def test_new_replicas_are_spread_evenly() -> None:
    planned = model(["a", "b", "c"], *(load(index, [1]) for index in range(8)))
    target = resized(planned, 2, every_partition(planned))
    assert sorted(node for replicas in target.values() for node in replicas[1:]) == [2] * 4 + [3] * 4
