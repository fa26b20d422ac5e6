"""Fetch through a whole node: long poll, limits, sessions, topics that go and come back."""

import asyncio
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from ottla.base.errors import ErrorCode
from ottla.wire import api
from ottla.wire.apis import ApiKey
from tests.unit.broker.real_node import RealNode, play, values_of

BY_NAME, BY_ID = 12, 18


def fetch_request(
    topic: str | UUID,
    offsets: dict[int, int],
    *,
    session: tuple[int, int] = (0, -1),
    forgotten: list[int] | None = None,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 50 << 20,
    partition_max_bytes: int = 1 << 20,
    current_leader_epoch: int = -1,
) -> api.FetchRequest:
    named: dict[str, Any] = {"topic": topic} if isinstance(topic, str) else {"topic_id": topic}
    partitions = [
        api.FetchRequest.FetchPartition(
            partition=index,
            fetch_offset=offset,
            partition_max_bytes=partition_max_bytes,
            current_leader_epoch=current_leader_epoch,
        )
        for index, offset in offsets.items()
    ]
    return api.FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        session_id=session[0],
        session_epoch=session[1],
        topics=[api.FetchRequest.FetchTopic(**named, partitions=partitions)] if partitions else [],
        forgotten_topics_data=[api.FetchRequest.ForgottenTopic(**named, partitions=forgotten)] if forgotten else [],
    )


def partitions_of(response: Any) -> dict[int, Any]:
    return {one.partition_index: one for topic in response.responses for one in topic.partitions}


@pytest.mark.parametrize("version", range(4, 19))
def test_every_version_reads(tmp_path: Path, version: int) -> None:
    async def scene(node: RealNode) -> None:
        topic_id = await node.create_topic("t", 2)
        await node.produce("t", b"a", b"b")
        request = fetch_request(topic_id if version >= 13 else "t", {0: 0, 1: 0})
        answer = partitions_of(await node.ask(ApiKey.FETCH, request, version))
        assert values_of(answer[0].records) == [b"a", b"b"]
        assert answer[0].high_watermark == 2
        assert answer[1].error_code == 0
        assert values_of(answer[1].records) == []

    play(tmp_path, scene)


def test_an_offset_inside_a_batch_returns_the_whole_batch(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        await node.create_topic("t")
        await node.produce("t", b"a", b"b", b"c")
        answer = partitions_of(await node.ask(ApiKey.FETCH, fetch_request("t", {0: 2}), BY_NAME))
        assert values_of(answer[0].records) == [b"a", b"b", b"c"]

    play(tmp_path, scene)


def test_an_oversized_first_batch_is_still_returned(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        await node.create_topic("t", 2)
        for index in (0, 1):
            await node.produce("t", b"x" * 5000, index=index)
        request = fetch_request("t", {0: 0, 1: 0}, max_bytes=100, partition_max_bytes=100)
        answer = partitions_of(await node.ask(ApiKey.FETCH, request, BY_NAME))
        sizes = {index: len(values_of(one.records)) for index, one in answer.items()}
        assert sizes == {0: 1, 1: 0}

    play(tmp_path, scene)


def test_limits_end_with_whole_batches(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        await node.create_topic("t")
        for number in range(20):
            await node.produce("t", b"%d" % number * 1000)
        request = fetch_request("t", {0: 0}, partition_max_bytes=5000)
        answer = partitions_of(await node.ask(ApiKey.FETCH, request, BY_NAME))
        found = values_of(answer[0].records)
        assert found[0] == b"0" * 1000
        assert 1 <= len(found) <= 4
        assert sum(len(value or b"") + 61 for value in found) <= len(answer[0].records) < 5000

    play(tmp_path, scene)


@pytest.mark.parametrize(
    ("offset", "epoch", "code"),
    [
        (99, -1, ErrorCode.OFFSET_OUT_OF_RANGE),
        (-1, -1, ErrorCode.OFFSET_OUT_OF_RANGE),
        (0, 7, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_errors_are_told_at_once(tmp_path: Path, offset: int, epoch: int, code: ErrorCode) -> None:
    async def scene(node: RealNode) -> None:
        await node.create_topic("t")
        await node.produce("t", b"a")
        request = fetch_request("t", {0: offset}, max_wait_ms=60_000, current_leader_epoch=epoch)
        answer = await asyncio.wait_for(node.ask(ApiKey.FETCH, request, BY_NAME), 5)
        assert partitions_of(answer)[0].error_code == code

    play(tmp_path, scene)


def test_unknown_topics(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        by_name = await node.ask(ApiKey.FETCH, fetch_request("nope", {0: 0}, max_wait_ms=60_000), BY_NAME)
        assert partitions_of(by_name)[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        by_id = await node.ask(ApiKey.FETCH, fetch_request(UUID(int=77), {0: 0}, max_wait_ms=60_000), BY_ID)
        assert partitions_of(by_id)[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID

    play(tmp_path, scene)


# -- long poll (scene 17) ---------------------------------------------------------------------------------------------


def test_a_long_poll_is_answered_when_data_arrives(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        await node.create_topic("t")
        waiting = asyncio.create_task(node.ask(ApiKey.FETCH, fetch_request("t", {0: 0}, max_wait_ms=60_000), BY_NAME))
        await asyncio.sleep(0.01)
        assert not waiting.done()
        await node.produce("t", b"now")
        answer = await asyncio.wait_for(waiting, 5)
        assert values_of(partitions_of(answer)[0].records) == [b"now"]

    play(tmp_path, scene)


def test_a_long_poll_waits_for_min_bytes(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        await node.create_topic("t")
        request = fetch_request("t", {0: 0}, max_wait_ms=60_000, min_bytes=3000)
        waiting = asyncio.create_task(node.ask(ApiKey.FETCH, request, BY_NAME))
        for number in range(3):
            await node.produce("t", b"x" * 1000)
            await asyncio.sleep(0.005)
            assert waiting.done() is (number == 2)
        assert len(values_of(partitions_of(await waiting)[0].records)) == 3

    play(tmp_path, scene)


def test_an_empty_long_poll_ends_with_its_time(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        await node.create_topic("t")

        async def passing_time() -> None:
            while True:
                await asyncio.sleep(0.001)
                node.clock.advance(0.001)

        clock = asyncio.create_task(passing_time())
        answer = await asyncio.wait_for(node.ask(ApiKey.FETCH, fetch_request("t", {0: 0}, max_wait_ms=50), BY_NAME), 5)
        clock.cancel()
        assert node.clock.monotonic() >= 0.02
        assert values_of(partitions_of(answer)[0].records) == []

    play(tmp_path, scene)


def test_a_stopping_node_answers_those_who_wait(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        await node.create_topic("t")
        session = (await open_session(node, "t", {0: 0}, BY_NAME), 1)
        waiting = [
            asyncio.create_task(node.ask(ApiKey.FETCH, request, BY_NAME))
            for request in (
                fetch_request("t", {0: 0}, max_wait_ms=60_000),
                fetch_request("t", {0: 0}, max_wait_ms=60_000, session=session),
            )
        ]
        await asyncio.sleep(0.01)
        node.node.stopping = True
        node.node.fetch_sessions.interrupt_all()
        await asyncio.wait_for(asyncio.gather(*waiting), 5)

    play(tmp_path, scene)


# -- sessions ---------------------------------------------------------------------------------------------------------


async def open_session(node: RealNode, topic: str | UUID, offsets: dict[int, int], version: int) -> int:
    answer = await node.ask(ApiKey.FETCH, fetch_request(topic, offsets, session=(0, 0)), version)
    assert answer.session_id != 0
    assert set(partitions_of(answer)) == set(offsets)
    session_id: int = answer.session_id
    return session_id


@pytest.mark.parametrize("version", [7, BY_NAME, BY_ID])
def test_a_session_answers_only_what_changed(tmp_path: Path, version: int) -> None:
    async def scene(node: RealNode) -> None:
        topic_id = await node.create_topic("t", 50)
        topic: str | UUID = topic_id if version >= 13 else "t"
        session_id = await open_session(node, topic, dict.fromkeys(range(50), 0), version)
        quiet = await node.ask(ApiKey.FETCH, fetch_request(topic, {}, session=(session_id, 1)), version)
        assert quiet.responses == []
        await node.produce("t", b"news", index=33)
        answer = partitions_of(await node.ask(ApiKey.FETCH, fetch_request(topic, {}, session=(session_id, 2)), version))
        assert list(answer) == [33]
        assert values_of(answer[33].records) == [b"news"]
        # Not acknowledged by a new offset: it comes again.
        again = partitions_of(await node.ask(ApiKey.FETCH, fetch_request(topic, {}, session=(session_id, 3)), version))
        assert values_of(again[33].records) == [b"news"]
        done = await node.ask(ApiKey.FETCH, fetch_request(topic, {33: 1}, session=(session_id, 4)), version)
        assert done.responses == []
        session = node.node.fetch_sessions.get(session_id)
        assert session is not None
        assert len(session.due) == 0  # Nothing to look at until something changes: that is the point of a session.

    play(tmp_path, scene)


def test_a_session_by_name_cannot_go_on_by_topic_id(tmp_path: Path) -> None:
    """The Java consumer knows no topic ids for a moment after a reconnect, then uses them."""

    async def scene(node: RealNode) -> None:
        topic_id = await node.create_topic("t")
        for first, other, then in (("t", topic_id, BY_ID), (topic_id, "t", BY_NAME)):
            version = BY_NAME if then == BY_ID else BY_ID
            session_id = await open_session(node, first, {0: 0}, version)
            wrong = await node.ask(ApiKey.FETCH, fetch_request(other, {0: 0}, session=(session_id, 1)), then)
            assert (wrong.error_code, wrong.responses) == (ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, [])
            right = await node.ask(ApiKey.FETCH, fetch_request(first, {}, session=(session_id, 1)), version)
            assert right.error_code == 0

    play(tmp_path, scene)


def test_a_session_forgets_and_ends(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        await node.create_topic("t", 2)
        session_id = await open_session(node, "t", {0: 0, 1: 0}, BY_NAME)
        await node.produce("t", b"a", index=0)
        await node.produce("t", b"b", index=1)
        request = fetch_request("t", {}, session=(session_id, 1), forgotten=[0])
        assert list(partitions_of(await node.ask(ApiKey.FETCH, request, BY_NAME))) == [1]
        wrong = await node.ask(ApiKey.FETCH, fetch_request("t", {}, session=(session_id, 9)), BY_NAME)
        assert wrong.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
        ended = await node.ask(ApiKey.FETCH, fetch_request("t", {0: 0}, session=(session_id, -1)), BY_NAME)
        assert ended.session_id == 0
        assert list(partitions_of(ended)) == [0]
        gone = await node.ask(ApiKey.FETCH, fetch_request("t", {}, session=(session_id, 2)), BY_NAME)
        assert gone.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND

    play(tmp_path, scene)


def test_a_fetch_of_nothing_is_answered_at_once(tmp_path: Path) -> None:
    """The Java consumer ends its session so when it closes, and waits for the answer."""

    async def scene(node: RealNode) -> None:
        await node.create_topic("t")
        session_id = await open_session(node, "t", {0: 0}, BY_NAME)
        request = fetch_request("t", {}, session=(session_id, -1), max_wait_ms=60_000)
        answer = await asyncio.wait_for(node.ask(ApiKey.FETCH, request, BY_NAME), 5)
        assert answer.responses == [] and answer.session_id == 0

    play(tmp_path, scene)


@pytest.mark.parametrize("epoch", [2, 0], ids=["goes on", "starts anew"])
def test_a_session_taken_over_by_another_connection_answers_both(tmp_path: Path, epoch: int) -> None:
    """A client that reconnects: its old long poll is in nobody's way, and ends."""

    async def scene(node: RealNode) -> None:
        await node.create_topic("t")
        session_id = await open_session(node, "t", {0: 0}, BY_NAME)
        request = fetch_request("t", {}, session=(session_id, 1), max_wait_ms=60_000)
        old = asyncio.create_task(node.ask(ApiKey.FETCH, request, BY_NAME))
        await asyncio.sleep(0.01)
        request = fetch_request("t", {0: 0} if epoch == 0 else {}, session=(session_id, epoch), max_wait_ms=60_000)
        new = asyncio.create_task(node.ask(ApiKey.FETCH, request, BY_NAME))
        assert partitions_of(await asyncio.wait_for(old, 5)) == {}
        await asyncio.sleep(0.01)
        assert not new.done()
        await node.produce("t", b"now")
        assert values_of(partitions_of(await asyncio.wait_for(new, 5))[0].records) == [b"now"]

    play(tmp_path, scene)


def test_sessions_are_bounded(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        await node.create_topic("t")
        ids = [await open_session(node, "t", {0: 0}, BY_NAME) for _ in range(5)]
        assert len(node.node.fetch_sessions) == 3
        oldest = await node.ask(ApiKey.FETCH, fetch_request("t", {}, session=(ids[0], 1)), BY_NAME)
        assert oldest.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        newest = await node.ask(ApiKey.FETCH, fetch_request("t", {}, session=(ids[-1], 1)), BY_NAME)
        assert newest.error_code == 0

    play(tmp_path, scene, max_incremental_fetch_session_cache_slots="3")


def test_a_busy_partition_does_not_starve_the_others(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        await node.create_topic("t", 3)
        for index in range(3):
            for _ in range(4):
                await node.produce("t", b"x" * 900, index=index)
        session_id = await open_session(node, "t", {0: 0, 1: 0, 2: 0}, BY_NAME)
        served: list[int] = []
        for epoch in range(1, 4):
            request = fetch_request("t", {}, session=(session_id, epoch), max_bytes=1000)
            answer = partitions_of(await node.ask(ApiKey.FETCH, request, BY_NAME))
            served += [index for index, one in answer.items() if one.records]
        assert sorted(served) == [0, 1, 2]

    play(tmp_path, scene)


@pytest.mark.parametrize("version", [BY_NAME, BY_ID])
def test_a_topic_deleted_and_created_again_under_a_session(tmp_path: Path, version: int) -> None:
    async def scene(node: RealNode) -> None:
        old_id = await node.create_topic("t")
        await node.produce("t", b"old")
        topic: str | UUID = old_id if version >= 13 else "t"
        session_id = await open_session(node, topic, {0: 1}, version)
        waiting = asyncio.create_task(
            node.ask(ApiKey.FETCH, fetch_request(topic, {}, session=(session_id, 1), max_wait_ms=60_000), version)
        )
        await asyncio.sleep(0.01)
        await node.delete_topic("t")
        answer = partitions_of(await asyncio.wait_for(waiting, 5))
        missing = ErrorCode.UNKNOWN_TOPIC_ID if version >= 13 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert answer[0].error_code == missing
        new_id = await node.create_topic("t")
        await node.produce("t", b"new")
        topic = new_id if version >= 13 else "t"
        answer = partitions_of(
            await node.ask(ApiKey.FETCH, fetch_request(topic, {0: 0}, session=(session_id, 2)), version)
        )
        assert values_of(answer[0].records or b"") == [b"new"]

    play(tmp_path, scene)
