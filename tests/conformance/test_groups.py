"""Subscribe, read, commit, come back: what a single consumer of a group relies on (scene 23)."""

from collections.abc import Callable
from functools import partial

import pytest

from tests.conformance.client import Client, ClientError, Record
from tests.conformance.error_codes import OFFSET_METADATA_TOO_LARGE, UNKNOWN_MEMBER_ID
from tests.conformance.groups import Member, committed, each_of, new_group
from tests.conformance.registry import Can, clients_that
from tests.conformance.under_test import Keeper
from tests.conformance.waiting import eventually

LETTERS = [b"A", b"B", b"C", b"D", b"E"]
SHORT_SESSION = {"session_ms": 2000, "heartbeat_ms": 500}
Join = Callable[..., Member]


@pytest.fixture
def letters(keeper: Keeper, topic: str) -> str:
    keeper.produce(topic, [Record(value=letter) for letter in LETTERS])
    return topic


def expect_committed(keeper: Keeper, group: str, topic: str, offset: int) -> None:
    assert committed(keeper.client, group, topic) == {0: offset}


@clients_that(Can.JOIN_GROUPS, Can.COMMIT)
def test_scene_23_commit_3_crash_and_resume_at_d(
    client: Client, own_process: Callable[[str], Client], join: Join, letters: str
) -> None:
    group = new_group()
    doomed = join(own_process(client.name), group, letters, reset="earliest", auto_commit=False, **SHORT_SESSION)
    assert [record.value for record in doomed.read(5)] == LETTERS
    doomed.commit(letters, {0: 3})
    doomed.client.kill()  # In the middle of D: it was read and not committed, so it comes again.
    successor = join(client, group, letters, reset="earliest", auto_commit=False)
    assert [record.value for record in successor.read(2)] == LETTERS[3:]


@clients_that(Can.JOIN_GROUPS, Can.COMMIT_POSITIONS)
@pytest.mark.parametrize("asynchronous", [False, True])
def test_positions_are_committed_and_gone_on_from(
    client: Client, keeper: Keeper, join: Join, letters: str, asynchronous: bool
) -> None:
    group = new_group()
    first = join(client, group, letters, reset="earliest", auto_commit=False)
    first.read(5)
    first.commit_positions(asynchronous=asynchronous)
    eventually(partial(expect_committed, keeper, group, letters, 5))
    first.leave()
    keeper.produce(letters, [Record(value=b"F")])
    second = join(client, group, letters, reset="earliest", auto_commit=False)
    assert [(record.offset, record.value) for record in second.read(1)] == [(5, b"F")]


@clients_that(Can.JOIN_GROUPS)
def test_offsets_are_committed_by_and_by_and_at_leaving(
    client: Client, keeper: Keeper, join: Join, letters: str
) -> None:
    quick, slow = new_group(), new_group()
    reading = {"reset": "earliest", "auto_commit": True}
    by_and_by = join(client, quick, letters, **reading, auto_commit_ms=200)
    at_leaving = join(client, slow, letters, **reading, auto_commit_ms=600_000)
    each_of([by_and_by, at_leaving], lambda member: len(member.records) == 5)
    eventually(partial(expect_committed, keeper, quick, letters, 5))
    if client.name not in (
        "kafkajs",
        "kcat",
    ):  # One commits its first batch at once, the other every 5 s, whatever is set.
        expect_committed(keeper, slow, letters, -1)
    at_leaving.leave()
    eventually(partial(expect_committed, keeper, slow, letters, 5))


@clients_that(Can.JOIN_GROUPS, Can.COMMIT)
def test_metadata_of_a_commit_comes_back(client: Client, join: Join, letters: str) -> None:
    group = new_group()
    member = join(client, group, letters, reset="earliest", auto_commit=False)
    member.read(5)
    member.commit(letters, {0: 4}, metadata="zurück bei D ✓")
    [found] = client.call("committed", group=group, topic=letters, partitions=[0])
    assert (found["offset"], found["metadata"]) == (4, "zurück bei D ✓")
    with pytest.raises(ClientError) as refused:
        member.commit(letters, {0: 4}, metadata="x" * 4097)
    assert refused.value.code == OFFSET_METADATA_TOO_LARGE, refused.value
    assert committed(client, group, letters) == {0: 4}


@clients_that(Can.COMMIT_ALONE, Can.COMMIT_EPOCH)
def test_the_leader_epoch_of_a_commit_comes_back(client: Client, letters: str) -> None:
    group = new_group()
    for epoch in (0, -1):  # -1: the client that committed knew none.
        told = {} if epoch == -1 else {"leader_epoch": epoch}
        client.call("commit_alone", group=group, offsets=[{"topic": letters, "partition": 0, "offset": 2, **told}])
        [found] = client.call("committed", group=group, topic=letters, partitions=[0])
        assert (found["offset"], found["leader_epoch"]) == (2, epoch)


@clients_that(Can.COMMIT_ALONE)
def test_a_consumer_that_never_joins_commits_and_reads_back(client: Client, keeper: Keeper, topic_name: str) -> None:
    keeper.create(topic_name, partitions=3)
    group = new_group()
    assert committed(client, group, topic_name, range(3)) == {0: -1, 1: -1, 2: -1}
    offsets = [{"topic": topic_name, "partition": index, "offset": index * 10} for index in (0, 2)]
    client.call("commit_alone", group=group, offsets=offsets)
    assert committed(client, group, topic_name, range(3)) == {0: 0, 1: -1, 2: 20}
    assert {"group": group, "state": "EMPTY"} in keeper.client.call("list_groups")


@clients_that(Can.JOIN_GROUPS, Can.COMMIT_ALONE)
def test_a_stranger_commits_nothing_into_a_group_with_members(
    client: Client, keeper: Keeper, join: Join, letters: str
) -> None:
    group = new_group()
    member = join(client, group, letters, reset="earliest", auto_commit=False)
    member.read(5)
    with pytest.raises(ClientError) as refused:
        client.call("commit_alone", group=group, offsets=[{"topic": letters, "partition": 0, "offset": 1}])
    # Java and kafka-python wrap it into an exception of their own, which has no number.
    assert refused.value.code in (UNKNOWN_MEMBER_ID, -1), refused.value
    expect_committed(keeper, group, letters, -1)


@clients_that(Can.JOIN_GROUPS)
def test_without_a_commit_the_reset_policy_chooses(client: Client, keeper: Keeper, join: Join, letters: str) -> None:
    earliest = join(client, new_group(), letters, reset="earliest")
    latest = join(client, new_group(), letters, reset="latest")
    assert [record.offset for record in earliest.read(5)] == [0, 1, 2, 3, 4]

    def new_ones_alone() -> None:
        """A position at the end is found a moment after the assignment: write until one arrives."""
        keeper.produce(letters, [Record(value=b"new")])
        assert latest.watch().records

    eventually(new_ones_alone, wait_s=20)
    assert {record.value for record in latest.records} == {b"new"}


@clients_that(Can.JOIN_GROUPS, Can.COMMIT_ALONE)
def test_without_a_commit_and_a_policy_the_consumer_is_told(client: Client, join: Join, letters: str) -> None:
    member = join(client, new_group(), letters, reset="none")
    each_of([member], lambda member: bool(member.errors))
    assert not member.records


@clients_that(Can.JOIN_GROUPS, Can.COMMIT)
def test_a_commit_out_of_range_is_kept_and_reset_when_read(
    client: Client, keeper: Keeper, join: Join, letters: str
) -> None:
    group = new_group()
    keeper.client.call("commit_alone", group=group, offsets=[{"topic": letters, "partition": 0, "offset": 99}])
    expect_committed(keeper, group, letters, 99)
    assert [record.offset for record in join(client, group, letters, reset="earliest").read(5)] == [0, 1, 2, 3, 4]
