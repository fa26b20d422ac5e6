"""The group APIs of a whole node, in every version that is advertised."""

import asyncio
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from ottla.base.errors import ErrorCode
from ottla.wire import api
from ottla.wire.apis import ApiKey
from tests.unit.broker.real_node import RealNode, play

GROUP = "g"
QUICK = {"group_initial_rebalance_delay_ms": "0", "offsets_topic_num_partitions": "3"}


async def found(node: RealNode) -> None:
    """The internal topic exists and is loaded."""
    await node.ask(ApiKey.FIND_COORDINATOR, api.FindCoordinatorRequest(coordinator_keys=[GROUP]))
    while node.node.coordinators.groups.is_loading:
        await asyncio.sleep(0)


def join_request(member_id: str = "", **fields: Any) -> api.JoinGroupRequest:
    protocol = api.JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"m")
    return api.JoinGroupRequest(
        **{
            "group_id": GROUP,
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 20_000,
            "member_id": member_id,
            "protocol_type": "consumer",
            "protocols": [protocol],
        }
        | fields
    )


async def joined(node: RealNode, version: int = 9, **fields: Any) -> Any:
    answer = await node.ask(ApiKey.JOIN_GROUP, join_request(**fields), version)
    if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        answer = await node.ask(ApiKey.JOIN_GROUP, join_request(answer.member_id, **fields), version)
    assert answer.error_code == ErrorCode.NONE
    return answer


async def stable(node: RealNode) -> Any:
    member = await joined(node)
    await synced(node, member)
    return member


async def synced(node: RealNode, member: Any, version: int = 5, **fields: Any) -> Any:
    given = api.SyncGroupRequest.SyncGroupRequestAssignment(member_id=member.member_id, assignment=b"all")
    request = api.SyncGroupRequest(
        **{
            "group_id": GROUP,
            "generation_id": member.generation_id,
            "member_id": member.member_id,
            "protocol_type": "consumer",
            "protocol_name": "range",
            "assignments": [given],
        }
        | fields
    )
    return await node.ask(ApiKey.SYNC_GROUP, request, version)


def commit_request(offset: int, topic: str = "t", topic_id: UUID | None = None, **fields: Any) -> Any:
    partition = api.OffsetCommitRequest.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset, committed_leader_epoch=4, committed_metadata="note"
    )
    named = api.OffsetCommitRequest.OffsetCommitRequestTopic(name=topic, partitions=[partition])
    if topic_id is not None:
        named.topic_id = topic_id
    return api.OffsetCommitRequest(**{"group_id": GROUP, "topics": [named]} | fields)


async def commit(node: RealNode, offset: int, version: int = 9, **fields: Any) -> int:
    answer = await node.ask(ApiKey.OFFSET_COMMIT, commit_request(offset, **fields), version)
    code: int = answer.topics[0].partitions[0].error_code
    return code


async def fetch(node: RealNode, version: int = 9, *, is_all: bool = False, topic_id: UUID | None = None) -> Any:
    """The topics of the answer."""
    old = [api.OffsetFetchRequest.OffsetFetchRequestTopic(name="t", partition_indexes=[0, 1])]
    new = api.OffsetFetchRequest.OffsetFetchRequestTopics(name="t", partition_indexes=[0, 1])
    if topic_id is not None:
        new.topic_id = topic_id
    group = api.OffsetFetchRequest.OffsetFetchRequestGroup(group_id=GROUP, topics=None if is_all else [new])
    request = api.OffsetFetchRequest(group_id=GROUP, topics=None if is_all else old, groups=[group])
    answer = await node.ask(ApiKey.OFFSET_FETCH, request, version)
    if version < 8:
        return answer.topics
    (one,) = answer.groups
    assert (one.group_id, one.error_code) == (GROUP, ErrorCode.NONE)
    return one.topics


# -- members -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(10))
def test_a_member_joins_in_every_version(tmp_path: Path, version: int) -> None:
    async def scene(node: RealNode) -> None:
        await found(node)
        member = await joined(node, version)
        assert member.member_id.startswith("test-") and member.leader == member.member_id
        assert (member.generation_id, member.protocol_name, len(member.members)) == (1, "range", 1)
        if version >= 7:
            assert member.protocol_type == "consumer"
        assert (await synced(node, member, min(version, 5))).assignment == b"all"

    play(tmp_path, scene, **QUICK)


@pytest.mark.parametrize("version", range(10))
def test_who_may_not_join_is_told_no_protocol(tmp_path: Path, version: int) -> None:
    async def scene(node: RealNode) -> None:
        await found(node)
        refused = await node.ask(ApiKey.JOIN_GROUP, join_request("nobody"), version)
        assert refused.error_code == ErrorCode.UNKNOWN_MEMBER_ID
        assert refused.protocol_name == ("" if version < 7 else None)

    play(tmp_path, scene, **QUICK)


@pytest.mark.parametrize("missing", ["protocol_type", "protocol_name"])
def test_from_version_5_on_a_sync_says_for_which_protocol(tmp_path: Path, missing: str) -> None:
    async def scene(node: RealNode) -> None:
        await found(node)
        member = await joined(node)
        refused = await synced(node, member, 5, **{missing: None})
        assert refused.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        assert (await synced(node, member, 4, **{missing: None})).error_code == ErrorCode.NONE

    play(tmp_path, scene, **QUICK)


@pytest.mark.parametrize("version", range(5))
def test_heartbeats_in_every_version(tmp_path: Path, version: int) -> None:
    async def scene(node: RealNode) -> None:
        await found(node)
        member = await stable(node)
        beat = api.HeartbeatRequest(group_id=GROUP, generation_id=1, member_id=member.member_id)
        assert (await node.ask(ApiKey.HEARTBEAT, beat, version)).error_code == ErrorCode.NONE
        beat.generation_id = 0
        assert (await node.ask(ApiKey.HEARTBEAT, beat, version)).error_code == ErrorCode.ILLEGAL_GENERATION
        nameless = api.HeartbeatRequest(group_id="", generation_id=1, member_id="m")
        assert (await node.ask(ApiKey.HEARTBEAT, nameless, version)).error_code == ErrorCode.INVALID_GROUP_ID

    play(tmp_path, scene, **QUICK)


@pytest.mark.parametrize("version", range(6))
def test_leaving_in_every_version(tmp_path: Path, version: int) -> None:
    async def scene(node: RealNode) -> None:
        await found(node)
        member = await stable(node)
        leaving = [
            api.LeaveGroupRequest.MemberIdentity(member_id=member.member_id),
            api.LeaveGroupRequest.MemberIdentity(member_id="stranger"),
        ]
        request = api.LeaveGroupRequest(group_id=GROUP, member_id=member.member_id, members=leaving)
        answer = await node.ask(ApiKey.LEAVE_GROUP, request, version)
        assert answer.error_code == ErrorCode.NONE
        if version >= 3:
            assert [one.error_code for one in answer.members] == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID]
        else:
            again = await node.ask(ApiKey.LEAVE_GROUP, request, version)
            assert again.error_code == ErrorCode.UNKNOWN_MEMBER_ID

    play(tmp_path, scene, **QUICK)


def test_errors_of_a_join_are_in_its_answer(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        answer = await node.ask(ApiKey.JOIN_GROUP, join_request())
        assert answer.error_code == ErrorCode.NOT_COORDINATOR, "nobody has looked for the coordinator yet"
        await found(node)
        answer = await node.ask(ApiKey.JOIN_GROUP, join_request("made-up"))
        assert (answer.error_code, answer.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "made-up")
        answer = await node.ask(ApiKey.JOIN_GROUP, join_request(group_id=""))
        assert answer.error_code == ErrorCode.INVALID_GROUP_ID

    play(tmp_path, scene, **QUICK)


# -- offsets -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(2, 10))
@pytest.mark.parametrize("fetch_version", [1, 2, 5, 7, 8, 9])
def test_offsets_come_back_as_they_were_committed(tmp_path: Path, version: int, fetch_version: int) -> None:
    async def scene(node: RealNode) -> None:
        await node.create_topic("t", 2)
        await found(node)
        assert await commit(node, 7, version) == ErrorCode.NONE
        (topic,) = await fetch(node, fetch_version)
        there, absent = topic.partitions
        assert (topic.name, there.committed_offset, there.metadata) == ("t", 7, "note")
        if fetch_version >= 5:
            assert there.committed_leader_epoch == (4 if version >= 6 else -1)
        assert (absent.committed_offset, absent.metadata, absent.error_code) == (-1, "", ErrorCode.NONE)
        if fetch_version >= 2:
            (topic,) = await fetch(node, fetch_version, is_all=True)
            assert [one.partition_index for one in topic.partitions] == [0]

    play(tmp_path, scene, **QUICK)


def test_from_version_10_topics_go_by_their_ids(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        topic_id = await node.create_topic("t", 2)
        await found(node)
        answer = await node.ask(ApiKey.OFFSET_COMMIT, commit_request(7, "", topic_id), 10)
        assert answer.topics[0].topic_id == topic_id
        assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE
        (topic,) = await fetch(node, 10, topic_id=topic_id)
        assert (topic.topic_id, topic.partitions[0].committed_offset) == (topic_id, 7)
        (topic,) = await fetch(node, 10, is_all=True)
        assert (topic.topic_id, topic.partitions[0].committed_offset) == (topic_id, 7)
        (topic,) = await fetch(node, 9)
        assert topic.partitions[0].committed_offset == 7
        stranger = UUID(int=99)
        assert await commit(node, 8, 10, topic_id=stranger) == ErrorCode.UNKNOWN_TOPIC_ID
        (topic,) = await fetch(node, 10, topic_id=stranger)
        assert {one.error_code for one in topic.partitions} == {ErrorCode.UNKNOWN_TOPIC_ID}

    play(tmp_path, scene, **QUICK)


def test_offsets_of_unknown_topics_are_refused_beside_the_known(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        await node.create_topic("t")
        await found(node)
        request = commit_request(7)
        request.topics += commit_request(7, "unheard-of").topics
        answer = await node.ask(ApiKey.OFFSET_COMMIT, request, 9)
        codes = {topic.name: topic.partitions[0].error_code for topic in answer.topics}
        assert codes == {"t": ErrorCode.NONE, "unheard-of": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}

    play(tmp_path, scene, **QUICK)


@pytest.mark.parametrize("version", [2, 9, 10])
def test_offsets_of_partitions_that_do_not_exist_are_refused_beside_the_others(tmp_path: Path, version: int) -> None:
    async def scene(node: RealNode) -> None:
        topic_id = await node.create_topic("t", 2)
        await found(node)
        request = commit_request(7, topic_id=topic_id)
        for index in (1, 2, -1, 2**31 - 1):
            request.topics[0].partitions.append(
                api.OffsetCommitRequest.OffsetCommitRequestPartition(partition_index=index, committed_offset=8)
            )
        answer = await node.ask(ApiKey.OFFSET_COMMIT, request, version)
        codes = {one.partition_index: one.error_code for topic in answer.topics for one in topic.partitions}
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert codes == {0: ErrorCode.NONE, 1: ErrorCode.NONE, 2: unknown, -1: unknown, 2**31 - 1: unknown}
        (topic,) = await fetch(node, is_all=True)
        assert [one.partition_index for one in topic.partitions] == [0, 1]

    play(tmp_path, scene, **QUICK)


def test_an_error_of_the_group_is_told_of_every_partition(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        await node.create_topic("t")
        await found(node)
        await stable(node)
        assert await commit(node, 1) == ErrorCode.UNKNOWN_MEMBER_ID
        assert await commit(node, 1, group_id="other", generation_id_or_member_epoch=3) == ErrorCode.GROUP_ID_NOT_FOUND

    play(tmp_path, scene, **QUICK)


def test_offsets_that_a_transaction_may_change_are_unstable(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        await node.create_topic("t", 2)
        await found(node)
        await commit(node, 1)
        partition = api.TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=9)
        topic = api.TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(name="t", partitions=[partition])
        pending = api.TxnOffsetCommitRequest(group_id=GROUP, producer_id=5, producer_epoch=0, topics=[topic])
        coordinators = node.node.coordinators
        await coordinators.groups.submit(
            coordinators.group_partition(GROUP),
            lambda machine: machine.decide_transactional_commit(pending, node.clock.now_ms()),
        )
        wanted = api.OffsetFetchRequest.OffsetFetchRequestTopics(name="t", partition_indexes=[0, 1])
        group = api.OffsetFetchRequest.OffsetFetchRequestGroup(group_id=GROUP, topics=[wanted])
        for require_stable, code in ((True, ErrorCode.UNSTABLE_OFFSET_COMMIT), (False, ErrorCode.NONE)):
            request = api.OffsetFetchRequest(groups=[group], require_stable=require_stable)
            (answer,) = (await node.ask(ApiKey.OFFSET_FETCH, request, 9)).groups
            assert [one.error_code for one in answer.topics[0].partitions] == [code, ErrorCode.NONE]

    play(tmp_path, scene, **QUICK)


def test_offsets_go_with_their_topic(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        await node.create_topic("t", 2)
        await found(node)
        await commit(node, 7)
        await node.delete_topic("t")
        await asyncio.sleep(0.01)
        await node.create_topic("t", 2)
        (topic,) = await fetch(node)
        assert topic.partitions[0].committed_offset == -1

    play(tmp_path, scene, **QUICK)


def test_an_offset_of_a_former_topic_of_the_same_name_is_not_found(tmp_path: Path) -> None:
    """The broker died between the topic's deletion and that of its offsets."""

    async def scene(node: RealNode) -> None:
        await node.create_topic("t", 2)
        await found(node)
        await commit(node, 7)
        node.node.coordinators.on_topics_deleted = lambda topics: None  # type: ignore[method-assign]
        await node.delete_topic("t")
        await node.create_topic("t", 2)
        (topic,) = await fetch(node)
        assert topic.partitions[0].committed_offset == -1

    play(tmp_path, scene, **QUICK)


def test_offsets_survive_a_restart(tmp_path: Path) -> None:
    async def run() -> None:
        config = {name.replace("_", "."): value for name, value in QUICK.items()}
        node = await RealNode.open(tmp_path, config)
        await node.create_topic("t", 2)
        await found(node)
        member = await stable(node)
        await commit(node, 7, member_id=member.member_id, generation_id_or_member_epoch=1)
        await node.close()
        node = await RealNode.open(tmp_path, config)
        await found(node)
        (topic,) = await fetch(node)
        assert topic.partitions[0].committed_offset == 7
        beat = api.HeartbeatRequest(group_id=GROUP, generation_id=1, member_id=member.member_id)
        assert (await node.ask(ApiKey.HEARTBEAT, beat)).error_code == ErrorCode.NONE
        await node.close()

    asyncio.run(run())


def test_offsets_are_deleted_on_request(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        await node.create_topic("t")
        await found(node)
        await commit(node, 7)
        topics = [
            api.OffsetDeleteRequest.OffsetDeleteRequestTopic(
                name=name,
                partitions=[
                    api.OffsetDeleteRequest.OffsetDeleteRequestPartition(partition_index=index) for index in (0, 5)
                ],
            )
            for name in ("t", "unheard-of")
        ]
        request = api.OffsetDeleteRequest(group_id=GROUP, topics=topics)
        answer = await node.ask(ApiKey.OFFSET_DELETE, request)
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        codes = [[one.error_code for one in topic.partitions] for topic in answer.topics]
        assert codes == [[ErrorCode.NONE, unknown], [unknown, unknown]]
        (topic,) = await fetch(node)
        assert topic.partitions[0].committed_offset == -1
        request.group_id = "other"
        assert (await node.ask(ApiKey.OFFSET_DELETE, request)).error_code == ErrorCode.GROUP_ID_NOT_FOUND

    play(tmp_path, scene, **QUICK)


# -- administration ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(7))
def test_groups_are_described_in_every_version(tmp_path: Path, version: int) -> None:
    async def scene(node: RealNode) -> None:
        await found(node)
        member = await stable(node)
        request = api.DescribeGroupsRequest(groups=[GROUP, "unheard-of"], include_authorized_operations=True)
        described, unknown = (await node.ask(ApiKey.DESCRIBE_GROUPS, request, version)).groups
        assert (described.group_state, described.protocol_type, described.protocol_data) == (
            "Stable", "consumer", "range",
        )  # fmt: skip
        (one,) = described.members
        assert (one.member_id, one.client_id, one.client_host) == (member.member_id, "test", "/127.0.0.1")
        assert (one.member_metadata, one.member_assignment) == (b"m", b"all")
        assert unknown.group_state == "Dead"
        assert unknown.error_code == (ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else ErrorCode.NONE)
        if version >= 3:
            assert described.authorized_operations == 0b1101_0100_1000

    play(tmp_path, scene, **QUICK)


def test_a_group_that_rebalances_shows_no_assignments(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        await found(node)
        await joined(node)
        (described,) = (await node.ask(ApiKey.DESCRIBE_GROUPS, api.DescribeGroupsRequest(groups=[GROUP]))).groups
        assert (described.group_state, described.protocol_data) == ("CompletingRebalance", "")
        assert described.members[0].member_metadata == b""

    play(tmp_path, scene, **QUICK)


@pytest.mark.parametrize("version", range(6))
def test_groups_are_listed_in_every_version(tmp_path: Path, version: int) -> None:
    async def scene(node: RealNode) -> None:
        await node.create_topic("t")
        await found(node)
        await stable(node)
        await commit(node, 1, group_id="simple")
        answer = await node.ask(ApiKey.LIST_GROUPS, api.ListGroupsRequest(), version)
        listed = {group.group_id: group for group in answer.groups}
        assert {name: group.protocol_type for name, group in listed.items()} == {GROUP: "consumer", "simple": ""}
        if version >= 4:
            assert {name: group.group_state for name, group in listed.items()} == {GROUP: "Stable", "simple": "Empty"}
            only = await node.ask(ApiKey.LIST_GROUPS, api.ListGroupsRequest(states_filter=["sTABLE"]), version)
            assert [group.group_id for group in only.groups] == [GROUP]
        if version >= 5:
            assert {group.group_type for group in answer.groups} == {"classic"}
            for types, count in ((["Classic"], 2), (["consumer"], 0)):
                filtered = await node.ask(ApiKey.LIST_GROUPS, api.ListGroupsRequest(types_filter=types), version)
                assert len(filtered.groups) == count

    play(tmp_path, scene, **QUICK)


@pytest.mark.parametrize("version", range(3))
def test_groups_are_deleted_in_every_version(tmp_path: Path, version: int) -> None:
    async def scene(node: RealNode) -> None:
        await node.create_topic("t")
        await found(node)
        await stable(node)
        await commit(node, 1, group_id="simple")
        request = api.DeleteGroupsRequest(groups_names=[GROUP, "simple", "unheard-of"])
        answer = await node.ask(ApiKey.DELETE_GROUPS, request, version)
        assert {one.group_id: one.error_code for one in answer.results} == {
            GROUP: ErrorCode.NON_EMPTY_GROUP,
            "simple": ErrorCode.NONE,
            "unheard-of": ErrorCode.GROUP_ID_NOT_FOUND,
        }

    play(tmp_path, scene, **QUICK)


def test_a_group_id_that_no_record_can_hold_is_refused(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        await node.create_topic("t")
        await node.ask(ApiKey.FIND_COORDINATOR, api.FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]))
        long = "g" * 40_000
        assert (await node.ask(ApiKey.JOIN_GROUP, api.JoinGroupRequest(group_id=long))).error_code == (
            ErrorCode.INVALID_GROUP_ID
        )
        topic = api.OffsetCommitRequest.OffsetCommitRequestTopic(
            name="t", partitions=[api.OffsetCommitRequest.OffsetCommitRequestPartition(committed_offset=1)]
        )
        answer = await node.ask(ApiKey.OFFSET_COMMIT, api.OffsetCommitRequest(group_id=long, topics=[topic]), 9)
        assert answer.topics[0].partitions[0].error_code == ErrorCode.INVALID_GROUP_ID

    play(tmp_path, scene)
