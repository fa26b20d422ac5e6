"""The planner: what it must never do, whatever the cluster, and what it does with clusters that anybody can judge."""

from hypothesis import given
from hypothesis import strategies as st

from ottla.base.types import TopicPartition
from ottla.cli.balancing.balance import Balance
from ottla.cli.balancing.model import Model
from ottla.cli.balancing.plan import plan_of
from ottla.cli.balancing.rebalancing import broker_to_isolate, rebalanced
from tests.unit.cli.balancing.models import load, model, models

NO_LIMIT = 1_000


def racks_of(planned: Model, replicas: tuple[int, ...]) -> int:
    racks = {broker.id: broker.rack for broker in planned.brokers}
    return len({racks[node] for node in replicas})


@given(models(), st.integers(0, 5))
def test_no_replica_is_lost_doubled_or_put_on_fewer_racks_and_copies_are_bounded(drawn: Model, copies_max: int) -> None:
    target = rebalanced(drawn, copies_max=copies_max)
    for each in drawn.partitions:
        after = target.get(each.partition, each.replicas)
        assert len(after) == len(set(after)) == len(each.replicas)
        assert set(after) <= {broker.id for broker in drawn.brokers}
        assert racks_of(drawn, after) >= racks_of(drawn, each.replicas)
    plan = plan_of(drawn, target)
    assert plan.copies <= copies_max
    assert plan.gain >= -1e-9


@given(models())
def test_what_is_not_settled_stays_as_it_is(drawn: Model) -> None:
    target = rebalanced(drawn, copies_max=NO_LIMIT)
    unsettled = {each.partition: each.replicas for each in drawn.partitions if not each.is_settled}
    assert not target.keys() & unsettled.keys()


@given(models())
def test_a_plan_carried_out_leaves_nothing_to_plan(drawn: Model) -> None:
    target = rebalanced(drawn, copies_max=NO_LIMIT)
    moved = model(
        [broker.rack for broker in drawn.brokers],
        *(
            load(
                each.partition.partition,
                target.get(each.partition, each.replicas),
                leader=target[each.partition][0] if each.partition in target else each.leader,
                size_bytes=each.size_bytes,
                bytes_per_second=each.bytes_per_second,
                in_sync=target.get(each.partition, tuple(each.in_sync)),
            )
            for each in drawn.partitions
        ),
    )
    assert plan_of(moved, rebalanced(moved, copies_max=NO_LIMIT)).gain < 1e-6


@given(models())
def test_a_gain_foretold_is_the_gain_had(drawn: Model) -> None:
    target = rebalanced(drawn, copies_max=NO_LIMIT)
    balance = Balance(drawn, drawn.assignment)
    before, gain = balance.cost, balance.gain(target)
    balance.change(target)
    assert abs(before - balance.cost - gain) <= 1e-6 * max(1.0, before)


def loads_after(planned: Model) -> dict[int, tuple[float, float]]:
    plan = plan_of(planned, rebalanced(planned, copies_max=NO_LIMIT))
    return {node: (after.replicas, after.leaders) for node, after in plan.after.items()}


def test_a_new_broker_gets_its_share_of_replicas_and_leaders() -> None:
    partitions = [load(index, [1 + index % 3, 1 + (index + 1) % 3, 1 + (index + 2) % 3]) for index in range(12)]
    after = loads_after(model(["a", "b", "c", "d"], *partitions))
    assert after == {1: (9, 3), 2: (9, 3), 3: (9, 3), 4: (9, 3)}


def test_leaders_are_evened_out_without_copying_anything() -> None:
    planned = model(["a", "b", "c"], *(load(index, [1, 2, 3]) for index in range(7)))
    plan = plan_of(planned, rebalanced(planned, copies_max=0))
    assert plan.copies == 0
    assert sorted(after.leaders for after in plan.after.values()) == [2, 2, 3]


def test_leaders_go_on_over_a_broker_between_where_two_share_no_partition() -> None:
    """1 leads two too many, 3 leads none, and they have no partition in common."""
    partitions = [*(load(index, [1, 2]) for index in range(3)), load(3, [2, 3]), load(4, [2, 3])]
    planned = model([None, None, None], *partitions)
    plan = plan_of(planned, rebalanced(planned, copies_max=0))
    assert sorted(after.leaders for after in plan.after.values()) == [1, 2, 2]


def test_leaders_that_failed_over_go_home() -> None:
    planned = model([None, None], load(0, [1, 2], leader=2), load(1, [2, 1]))
    plan = plan_of(planned, rebalanced(planned, copies_max=NO_LIMIT))
    assert [(move.partition.partition, move.leader_before, move.after) for move in plan.moves] == [(0, 2, (1, 2))]


def test_two_replicas_in_one_rack_are_parted() -> None:
    planned = model(["a", "a", "b"], load(0, [1, 2]))
    [move] = plan_of(planned, rebalanced(planned, copies_max=NO_LIMIT)).moves
    assert 3 in move.after


def test_large_and_small_change_places_where_the_counts_are_even() -> None:
    sizes = {0: 40 << 30, 1: 40 << 30, 2: 1 << 30, 3: 1 << 30}
    planned = model([None, None], *(load(index, [1 + index // 2], size_bytes=sizes[index]) for index in range(4)))
    plan = plan_of(planned, rebalanced(planned, copies_max=NO_LIMIT))
    assert {after.disk_bytes for after in plan.after.values()} == {41 << 30}
    assert {after.replicas for after in plan.after.values()} == {2}


def test_a_balanced_cluster_is_left_alone() -> None:
    planned = model(["a", "b", "c"], *(load(index, [1 + index % 3, 1 + (index + 1) % 3]) for index in range(6)))
    assert plan_of(planned, rebalanced(planned, copies_max=NO_LIMIT)).moves == ()


def test_a_hot_partition_gets_a_leader_that_leads_nothing_else() -> None:
    partitions = [load(index, [1 + index % 3, 1 + (index + 1) % 3, 1 + (index + 2) % 3]) for index in range(9)]
    hot = TopicPartition("t", 4)
    planned = model(["a", "b", "c"], *partitions)
    broker = broker_to_isolate(planned, hot)
    plan = plan_of(planned, rebalanced(planned, copies_max=NO_LIMIT, isolate_leader=hot), isolated={broker: hot})
    assert {node: after.leaders for node, after in plan.after.items()} == {broker: 1} | dict.fromkeys(
        {1, 2, 3} - {broker}, 4
    )
    assert plan.copies == 0


def test_a_partition_without_followers_is_copied_away_from_an_isolated_broker() -> None:
    hot = TopicPartition("t", 0)
    planned = model([None, None], load(0, [1]), load(1, [1]), load(2, [2]))
    target = rebalanced(planned, copies_max=NO_LIMIT, isolate_leader=hot)
    assert (target[hot], target[TopicPartition("t", 1)]) == ((1,), (2,))


def test_a_thousand_partitions_are_spread_over_one_broker_more() -> None:
    """A new broker in a cluster of five: little more than its share is copied."""
    partitions = [
        load(index, [1 + (index + step) % 5 for step in range(3)], size_bytes=1 << 20) for index in range(1_000)
    ]
    planned = model(["a", "b", "c", "a", "b", "c"], *partitions)
    plan = plan_of(planned, rebalanced(planned, copies_max=NO_LIMIT))
    assert 400 <= plan.copies <= 600
    assert (
        max(after.leaders for after in plan.after.values()) - min(after.leaders for after in plan.after.values()) <= 1
    )
