"""Directories on disk that the image does not give this broker: set aside and kept, or left alone where in doubt."""

import pytest

from ottla.log.partition_metadata import encode_partition_metadata
from ottla.wire import api
from tests.unit.metadata.cluster import orders, topic_records
from tests.unit.replica.brokers import TOPIC, Broker, World, play

DIRECTORY = f"/logs/{TOPIC}-0"
OLD_ID = orders([1])[0].topic_id  # type: ignore[attr-defined]
RECREATED = (api.RemoveTopicRecord(topic_id=OLD_ID), *topic_records(TOPIC, number=2, replicas=[1, 2, 3]))


async def leave(world: World) -> None:
    """Broker 3 has a record, and dies."""
    await world[1].produce(b"old")
    await world.until(lambda: world[3].log_bytes() == world[1].log_bytes())
    await world[3].crash()
    await world.elect(1, isr=[1, 2])


def strays_of(broker: Broker) -> list[str]:
    return [name for name in broker.disk.list("/logs") if name.endswith("-stray")]


def test_a_topic_recreated_while_a_broker_was_down_is_copied_anew(caplog: pytest.LogCaptureFixture) -> None:
    async def scene(world: World) -> None:
        await leave(world)
        await world.commit(*RECREATED)
        await world.elect(1, isr=[1, 2])
        await world[1].produce(b"new")
        await world[3].open()
        await world.until(lambda: len(world.state().isr) == 3)
        assert world[3].values() == [b"new"]
        (stray,) = strays_of(world[3])
        assert stray.startswith(f"{TOPIC}-0.{OLD_ID.hex}")
        assert b"old" in world[3].disk.read(f"/logs/{stray}/00000000000000000000.log")
        told = [record.getMessage() for record in caplog.records if stray in record.getMessage()]
        assert len(told) == 1 and f"{TOPIC}-0" in told[0]

        caplog.clear()
        await world[3].crash()
        await world[3].open()
        assert world[3].values() == [b"new"]
        assert stray in caplog.text, "it is named with every start until somebody deletes it"

    play(scene, *orders([1, 2, 3]))


@pytest.mark.parametrize("how", ["deleted", "moved"])
def test_what_was_deleted_or_moved_away_while_a_broker_was_down_frees_its_name(how: str) -> None:
    async def scene(world: World) -> None:
        await leave(world)
        if how == "deleted":
            await world.commit(api.RemoveTopicRecord(topic_id=OLD_ID))
        else:
            await world.change(replicas=(1, 2))
        await world[3].open()
        assert not world[3].disk.exists(DIRECTORY)
        assert len(strays_of(world[3])) == 1

    play(scene, *orders([1, 2, 3]))


def test_what_moves_away_and_back_again_and_again_is_set_aside_each_time() -> None:
    async def scene(world: World) -> None:
        for count in (1, 2):
            await leave(world)
            await world.change(replicas=(1, 2))
            await world[3].open()
            await world.change(replicas=(1, 2, 3))
            await world.until(lambda: len(world.state().isr) == 3)
            assert len(strays_of(world[3])) == count
            assert world[3].values() == [b"old"] * count

    play(scene, *orders([1, 2, 3]))


@pytest.mark.parametrize("records", [RECREATED, RECREATED[:1]], ids=["recreated", "deleted"])
def test_an_image_that_may_be_older_than_the_directory_moves_nothing(
    records: tuple[object, ...], caplog: pytest.LogCaptureFixture
) -> None:
    async def scene(world: World) -> None:
        await leave(world)
        await world.commit(*records)
        world[3].is_current = False
        await world[3].open()
        assert strays_of(world[3]) == []
        assert b"old" in world[3].disk.read(f"{DIRECTORY}/00000000000000000000.log")
        assert f"{TOPIC}-0" in caplog.text

    play(scene, *orders([1, 2, 3]))


@pytest.mark.parametrize("content", [None, b"", b"version: 1\ntopic_id: x"], ids=["absent", "torn", "unknown"])
def test_a_directory_that_does_not_say_whose_it_is_is_left_alone(
    content: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene(world: World) -> None:
        await leave(world)
        world[3].disk.remove(f"{DIRECTORY}/partition.metadata")
        if content is not None:
            world[3].disk.replace(f"{DIRECTORY}/partition.metadata", content)
        await world.commit(api.RemoveTopicRecord(topic_id=OLD_ID))
        await world[3].open()
        assert strays_of(world[3]) == []
        assert world[3].disk.exists(DIRECTORY)
        assert "left alone" in caplog.text

    play(scene, *orders([1, 2, 3]))


def test_a_partition_of_ours_under_another_name_is_left_alone() -> None:
    """A person has renamed it: its topic lives, and perhaps it is the only copy."""

    async def scene(world: World) -> None:
        await leave(world)
        world[3].disk.rename(DIRECTORY, "/logs/saved-0")
        await world[3].open()
        assert strays_of(world[3]) == []
        assert world[3].disk.read("/logs/saved-0/partition.metadata") == encode_partition_metadata(OLD_ID)

    play(scene, *orders([1, 2, 3]))


def test_a_directory_of_a_topic_that_lives_is_not_taken_for_a_former_one_of_the_name() -> None:
    """A person has exchanged the names of two: both stay as they are, and are told of."""

    async def scene(world: World) -> None:
        await world.commit(*topic_records("other", number=2, replicas=[3]))
        await leave(world)
        for source, target in ((DIRECTORY, "/logs/x"), ("/logs/other-0", DIRECTORY), ("/logs/x", "/logs/other-0")):
            world[3].disk.rename(source, target)
        await world[3].open()
        assert strays_of(world[3]) == []
        assert world[3].partitions.find(TOPIC, 0) is None

    play(scene, *orders([1, 2, 3]))
