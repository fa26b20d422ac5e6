"""Partitions by broker, and those that need somebody: the same whether the index grew with the records or came later."""

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from ottla.wire import api
from tests.unit.metadata.cluster import image_of, partition_record, replay, topic_records

ORDERS_ID, BILLS_ID = UUID(int=101), UUID(int=102)


def names(refs):
    return [str(ref) for ref in refs]


def everything(image):
    """What an image answers, in no order: it depends on when the index was built."""
    found = [*(image.partitions_on(broker) for broker in range(1, 5)), image.partitions_unsettled()]
    return [sorted(names(refs)) for refs in found]


def change(number=0, **changes):
    return api.PartitionChangeRecord(partition_id=number, topic_id=ORDERS_ID, **changes)


def test_a_broker_has_the_partitions_with_a_replica_on_it():
    image = image_of(*topic_records("orders", partitions=2, replicas=(1, 2)), brokers=3)
    assert names(image.partitions_on(2)) == ["orders-0", "orders-1"]
    assert names(image.partitions_on(3)) == []
    replay(image, change(1, replicas=[1, 3]))
    assert names(image.partitions_on(2)) == ["orders-0"]
    assert names(image.partitions_on(3)) == ["orders-1"]


def test_who_leaves_the_isr_still_has_the_partition():
    image = image_of(*topic_records("orders", replicas=(1, 2)), brokers=2)
    assert names(image.partitions_on(2)) == ["orders-0"]
    replay(image, change(isr=[1]))
    assert names(image.partitions_on(2)) == ["orders-0"]


def test_partitions_without_a_leader_are_found_until_they_have_one():
    image = image_of(*topic_records("orders", partitions=2))
    assert names(image.partitions_without_leader()) == []
    replay(image, change(1, leader=-1))
    assert names(image.partitions_without_leader()) == ["orders-1"]
    replay(image, change(1, leader=1))
    assert names(image.partitions_without_leader()) == []


def test_a_partition_is_unsettled_while_another_than_its_first_replica_leads():
    image = image_of(*topic_records("orders", replicas=(1, 2)), brokers=2)
    replay(image, change(leader=2))
    assert names(image.partitions_unsettled()) == ["orders-0"]
    replay(image, change(leader=1))
    assert names(image.partitions_unsettled()) == []


def test_a_partition_is_unsettled_while_replicas_are_added_or_removed():
    image = image_of(*topic_records("orders", replicas=(1, 2)), brokers=3)
    assert names(image.partitions_unsettled()) == []
    replay(image, change(replicas=[1, 3, 2], adding_replicas=[3], removing_replicas=[2]))
    assert names(image.partitions_unsettled()) == ["orders-0"]
    replay(image, change(replicas=[1, 3], adding_replicas=[], removing_replicas=[]))
    assert names(image.partitions_unsettled()) == []


def test_a_removed_topic_leaves_nothing_behind():
    image = image_of(*topic_records("orders", replicas=(1, 2)), *topic_records("bills", number=2), brokers=2)
    replay(image, change(leader=-1, adding_replicas=[2]))
    assert names(image.partitions_without_leader()) == ["orders-0"]
    replay(image, api.RemoveTopicRecord(topic_id=ORDERS_ID))
    assert everything(image) == [["bills-0"], [], [], [], []]


def test_a_copy_builds_its_own():
    image = image_of(*topic_records("orders"))
    assert names(image.partitions_on(1)) == ["orders-0"]
    twin = image.copy()
    replay(twin, *topic_records("bills", number=2))
    assert names(twin.partitions_on(1)) == ["orders-0", "bills-0"]
    assert names(image.partitions_on(1)) == ["orders-0"]


replica_lists = st.permutations([1, 2, 3, 4]).flatmap(lambda ids: st.sampled_from([ids[:1], ids[:2], ids[:3]]))
steps = st.one_of(
    st.builds(lambda n, r: partition_record(r, partition=n), st.integers(0, 4), replica_lists),
    st.builds(lambda n, r: change(n, replicas=r, adding_replicas=r[1:]), st.integers(0, 1), replica_lists),
    st.builds(lambda n, leader: change(n, leader=leader), st.integers(0, 1), st.sampled_from([-1, 1, 2])),
)


@given(st.lists(steps, max_size=20))
def test_an_index_kept_up_equals_one_built_anew(records):
    image = image_of(*topic_records("orders", partitions=2, replicas=(1, 2)), brokers=4)
    list(image.partitions_on(1))
    replay(image, *records)
    assert everything(image) == everything(image.copy())
