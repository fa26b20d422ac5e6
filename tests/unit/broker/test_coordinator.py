"""Finding coordinators: the internal topics come to be with the first question."""

import asyncio
from pathlib import Path

import pytest

from ottla.base.errors import ErrorCode
from ottla.coordinator.placement import java_string_hash, partition_for
from ottla.wire import api
from ottla.wire.apis import ApiKey
from tests.unit.broker.real_node import RealNode, play


@pytest.mark.parametrize("version", range(7))
@pytest.mark.parametrize(("key_type", "topic"), [(0, "__consumer_offsets"), (1, "__transaction_state")])
def test_this_node_coordinates_every_key(tmp_path: Path, version: int, key_type: int, topic: str) -> None:
    async def scene(node: RealNode) -> None:
        request = api.FindCoordinatorRequest(key="g", key_type=key_type, coordinator_keys=["g", "h"])
        response = await node.ask(ApiKey.FIND_COORDINATOR, request, 1 if version == 0 and key_type else version)
        found = response.coordinators if version >= 4 else [response]
        assert {(one.error_code, one.node_id, one.host, one.port) for one in found} == {
            (0, node.node.node_id, "localhost", 9092)
        }
        assert len(node.node.partitions.of_topic(topic)) == 50
        assert node.node.partitions.of_topic(topic)[0].log.config.compacts

    play(tmp_path, scene)


def test_whoever_asked_first_finds_the_coordinator_ready(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        await node.ask(ApiKey.FIND_COORDINATOR, api.FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]))
        answer = await node.ask(ApiKey.HEARTBEAT, api.HeartbeatRequest(group_id="g", member_id="m"))
        assert answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID

    play(tmp_path, scene)


def test_whoever_asks_while_the_topic_comes_to_be_finds_it_ready_too(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        question = api.FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])
        first = asyncio.ensure_future(node.ask(ApiKey.FIND_COORDINATOR, question))
        while "__consumer_offsets" not in node.node.image.topics:
            await asyncio.sleep(0)
        await node.ask(ApiKey.FIND_COORDINATOR, question)
        answer = await node.ask(ApiKey.HEARTBEAT, api.HeartbeatRequest(group_id="g", member_id="m"))
        assert answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID
        await first

    play(tmp_path, scene)


def test_share_groups_have_no_coordinator(tmp_path: Path) -> None:
    async def scene(node: RealNode) -> None:
        request = api.FindCoordinatorRequest(key_type=2, coordinator_keys=["s:1:0"])
        (answer,) = (await node.ask(ApiKey.FIND_COORDINATOR, request)).coordinators
        assert answer.error_code == ErrorCode.INVALID_REQUEST

    play(tmp_path, scene)


def test_the_partition_of_a_group_is_kafkas() -> None:
    # Integer.MIN_VALUE is the hash of "polygenelubricants"; the values are what `"…".hashCode()` gives in Java.
    assert java_string_hash("polygenelubricants") == -(1 << 31)
    assert java_string_hash("") == 0
    assert java_string_hash("group-1") == sum(ord(c) * 31 ** (6 - i) for i, c in enumerate("group-1")) - 22 * (1 << 32)
    assert partition_for("polygenelubricants", 50) == 0
    assert java_string_hash("full-23") == -511291841
    assert partition_for("full-23", 50) == 41  # Where Apache Kafka 4.3.1 puts it.
