"""Elections by an administrator, and those that spread the leaders again."""

from uuid import UUID

import pytest

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.types import TopicPartition
from ottla.metadata.controller.brokers import decide_fence_broker
from ottla.metadata.controller.elections import (
    BALANCING_ELECTIONS_MAX,
    ElectionType,
    decide_balance_leaders,
    decide_elect_leaders,
    decide_elect_where_leaderless,
)
from ottla.metadata.controller.electorate import NO_STATIC_CONFIGS
from ottla.metadata.image_parts import UNASSIGNED_DIRECTORY
from ottla.wire import api
from tests.unit.metadata.cluster import (
    DIRECTORY_ID,
    apply,
    broker_record,
    image_of,
    orders,
    partition_of,
    partition_record,
    replay,
    shown,
    topic_records,
)

PREFERRED, UNCLEAN = ElectionType.PREFERRED, ElectionType.UNCLEAN


def cluster(*, leader, isr=(1, 2), fenced=()):
    """Partition orders-0 with the replicas 1 and 2, of which 1 is preferred."""
    image = image_of(*topic_records("orders", replicas=(1, 2)), brokers=2)
    topic_id = image.topics["orders"].id
    replay(image, api.PartitionChangeRecord(partition_id=0, topic_id=topic_id, leader=leader, isr=list(isr)))
    replay(image, *(broker_record(broker, fenced=True) for broker in fenced))
    return image


def decide(image, election_type=PREFERRED, *asked):
    topics = [api.ElectLeadersRequest.TopicPartitions(topic=topic, partitions=list(some)) for topic, some in asked]
    return decide_elect_leaders(
        image, api.ElectLeadersRequest(election_type=election_type, topic_partitions=topics or None)
    )


def outcome(image, election_type):
    """What is said of orders-0 by name, and who leads it afterwards."""
    decision = decide(image, election_type, ("orders", [0]))
    (result,) = decision.reply.replica_election_results[0].partition_result
    apply(image, decision)
    return ErrorCode(result.error_code).name, image.topics["orders"].partitions[0].leader


@pytest.mark.parametrize(
    ("election_type", "facts", "code", "leader"),
    [
        (PREFERRED, {"leader": 1}, "ELECTION_NOT_NEEDED", 1),
        (PREFERRED, {"leader": 2}, "NONE", 1),
        (PREFERRED, {"leader": 2, "isr": (2,)}, "PREFERRED_LEADER_NOT_AVAILABLE", 2),
        (PREFERRED, {"leader": 2, "fenced": (1,)}, "PREFERRED_LEADER_NOT_AVAILABLE", 2),
        (PREFERRED, {"leader": -1, "isr": (2,)}, "NONE", 2),
        (PREFERRED, {"leader": -1, "fenced": (1, 2)}, "PREFERRED_LEADER_NOT_AVAILABLE", -1),
        (UNCLEAN, {"leader": 2}, "ELECTION_NOT_NEEDED", 2),
        (UNCLEAN, {"leader": -1}, "NONE", 1),
        (UNCLEAN, {"leader": -1, "isr": (1,), "fenced": (1,)}, "NONE", 2),
        (UNCLEAN, {"leader": -1, "isr": (1,), "fenced": (1, 2)}, "ELIGIBLE_LEADERS_NOT_AVAILABLE", -1),
    ],
)
def test_who_is_elected(election_type, facts, code, leader):
    assert outcome(cluster(**facts), election_type) == (code, leader)


def test_an_election_starts_a_new_epoch_and_one_that_is_not_needed_does_not():
    image = cluster(leader=2)
    before = image.topics["orders"].partitions[0].leader_epoch
    apply(image, decide(image, PREFERRED, ("orders", [0, 0]), ("orders", [0])))
    assert image.topics["orders"].partitions[0].leader_epoch == before + 1
    assert decide(image, PREFERRED, ("orders", [0])).records == []


def test_of_all_partitions_only_those_that_needed_an_election_are_told():
    image = image_of(
        *topic_records("orders", replicas=(1, 2)), *topic_records("bills", number=2, replicas=(2, 1)), brokers=2
    )
    apply(image, decide_fence_broker(image, 1, 7))
    replay(image, broker_record(1))
    told = {one.topic: one.partition_result for one in decide(image).reply.replica_election_results}
    assert told["bills"] == []
    # Broker 1 is back, yet not in sync again.
    assert [ErrorCode(one.error_code).name for one in told["orders"]] == ["PREFERRED_LEADER_NOT_AVAILABLE"]


def test_an_unknown_kind_of_election_is_refused():
    with pytest.raises(ApiError, match="Unknown election type 7"):
        decide(image_of(), 7)


def test_an_unclean_election_leaves_the_new_leader_recovering_and_alone():
    image = cluster(leader=-1, isr=(1,), fenced=(1,))
    apply(image, decide(image, UNCLEAN, ("orders", [0])))
    partition = image.topics["orders"].partitions[0]
    assert (shown(image), partition.leader_recovery_state) == ("2 | 2 | -", 1)


# ---- after unclean elections were allowed ----


@pytest.mark.parametrize(("unclean", "expected", "count"), [(False, "- | - | 1", 0), (True, "2 | 2 | -", 1)])
def test_where_nobody_leads_the_configuration_may_let_somebody(unclean, expected, count):
    offline = {"leader": -1, "isr": [], "eligible_leader_replicas": [1]}
    image = image_of(*orders((1, 2), unclean=unclean, **offline), broker_record(1, fenced=True), brokers=3)
    decision = decide_elect_where_leaderless(image, static_configs=NO_STATIC_CONFIGS)
    apply(image, decision)
    assert (shown(image), decision.reply) == (expected, count)


# ---- disks that were replaced ----

OLD_DISK, NEW_DISK = UUID(int=31), UUID(int=32)
OFFLINE = {"leader": -1, "isr": [], "last_known_elr": [2]}


def replaced(replicas=(2,), *, unclean, disks=(NEW_DISK,)):
    """orders-0 was on a disk of broker 2 that is not among its own any more; 1 has no copy unless it is a replica."""
    directories = [OLD_DISK if one == 2 else DIRECTORY_ID for one in replicas]
    records = orders(replicas, unclean=unclean, directories=directories, **OFFLINE)
    return image_of(*records, broker_record(2, log_dirs=list(disks)), brokers=3)


def elected(image, offline_directories):
    decision = decide_elect_where_leaderless(
        image, static_configs=NO_STATIC_CONFIGS, offline_directories=offline_directories
    )
    apply(image, decision)
    return shown(image), partition_of(image).directories


@pytest.mark.parametrize(
    ("disks", "directory"), [([NEW_DISK], NEW_DISK), ([NEW_DISK, UUID(int=33)], UNASSIGNED_DIRECTORY)]
)
def test_what_was_on_a_replaced_disk_alone_begins_empty_where_unclean_elections_are_allowed(disks, directory):
    image = replaced(unclean=True, disks=disks)
    assert elected(image, {2: frozenset()}) == ("2 | 2 | -", (directory,))
    assert partition_of(image).leader_recovery_state == 1
    delta = image.take_delta()
    assert delta.unclean_elections == delta.begun_empty == [TopicPartition("orders", 0)]


def test_what_was_on_a_replaced_disk_alone_waits_for_it_otherwise():
    assert elected(replaced(unclean=False), {2: frozenset()}) == ("- | - | -", (OLD_DISK,))


@pytest.mark.parametrize(
    "offline_directories", [{}, {2: frozenset({OLD_DISK})}], ids=["not heard of yet", "the disk failed"]
)
def test_a_disk_that_may_come_back_is_not_replaced(offline_directories):
    assert elected(replaced(unclean=True), offline_directories) == ("- | - | -", (OLD_DISK,))


def test_an_older_copy_leads_rather_than_an_empty_one_and_is_waited_for_while_it_is_down():
    image = replaced((2, 3), unclean=True)
    assert elected(image, {2: frozenset(), 3: frozenset()})[0] == "3 | 3 | -"
    image = replaced((2, 3), unclean=True)
    replay(image, broker_record(3, fenced=True))
    assert elected(image, {2: frozenset(), 3: frozenset()})[0] == "- | - | -"


def test_an_administrator_need_not_wait_for_older_copies():
    image = replaced((2, 3), unclean=False)
    replay(image, broker_record(3, fenced=True))
    topics = [api.ElectLeadersRequest.TopicPartitions(topic="orders", partitions=[0])]
    request = api.ElectLeadersRequest(election_type=UNCLEAN, topic_partitions=topics)
    apply(image, decide_elect_leaders(image, request, offline_directories={2: frozenset()}))
    assert (shown(image), partition_of(image).directories) == ("2 | 2 | -", (NEW_DISK, DIRECTORY_ID))


def test_clean_elections_know_nothing_of_replaced_disks():
    image = image_of(
        *orders((1, 2), leader=-1, isr=[], eligible_leader_replicas=[2], directories=[DIRECTORY_ID, OLD_DISK]),
        broker_record(2, log_dirs=[NEW_DISK]),
        brokers=2,
    )
    assert elected(image, {1: frozenset(), 2: frozenset()}) == ("- | - | 2", (DIRECTORY_ID, OLD_DISK))


# ---- balance ----


def spread(*leaders, replicas=(1, 2, 3), count=None, **changes):
    """Partitions of one topic, each with its leader; broker 1 is preferred by all."""
    leaders = leaders * (count or 1)
    records = [partition_record(replicas, partition=n, leader=leader, **changes) for n, leader in enumerate(leaders)]
    return image_of(api.TopicRecord(name="orders", topic_id=UUID(int=101)), *records, brokers=3)


def balance(image):
    return decide_balance_leaders(image, static_configs=NO_STATIC_CONFIGS)


def test_leaders_go_back_to_the_first_replicas():
    image = spread(1, 2, 3, 1)
    decision = balance(image)
    apply(image, decision)
    assert {one.leader for one in image.topics["orders"].partitions.values()} == {1}
    assert decision.reply is False


def test_who_is_not_in_sync_or_not_alive_gets_nothing_back():
    assert balance(spread(2, isr=[2, 3])).records == []
    image = spread(2)
    replay(image, broker_record(1, fenced=True))
    assert balance(image).records == []


def test_not_all_leaders_change_at_one_moment():
    image = spread(2, count=BALANCING_ELECTIONS_MAX + 5)
    first = balance(image)
    apply(image, first)
    second = balance(image)
    assert (len(first.records), first.reply) == (BALANCING_ELECTIONS_MAX, True)
    assert (len(second.records), second.reply) == (5, False)
