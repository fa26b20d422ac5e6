"""Logs that are renamed and removed later, and what a crash leaves of them."""

import asyncio

import pytest

from ottla.log.config import LogConfig
from tests.unit.metadata.cluster import orders
from tests.unit.replica.brokers import TOPIC, Broker, World, play


def deleted_of(broker: Broker) -> list[str]:
    return [name for name in broker.disk.list("/logs") if name.endswith("-delete")]


def test_what_leaves_is_removed_after_a_while() -> None:
    async def scene(world: World) -> None:
        await world[1].produce(b"one")
        await world.until(lambda: world[3].log_bytes() == world[1].log_bytes())
        await world.change(replicas=(1, 2), isr=(1, 2))
        await world.until(lambda: deleted_of(world[3]) != [])
        await asyncio.sleep(LogConfig().file_delete_delay_ms / 1000 + 1)
        assert deleted_of(world[3]) == []

    play(scene, *orders([1, 2, 3]))


@pytest.mark.parametrize("is_broken", [False, True])
def test_what_a_crash_has_left_is_removed_behind_the_start(
    is_broken: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene(world: World) -> None:
        await world[3].crash()
        disk = world[3].disk
        for number in range(5):
            disk.make_directory(f"/logs/{TOPIC}-{number}.0123-delete")
        remove_tree = disk.remove_tree

        def remove(path: str) -> None:
            if is_broken and f"{TOPIC}-2" in path:
                raise OSError("rotten")
            remove_tree(path)

        monkeypatch.setattr(disk, "remove_tree", remove)
        await world[3].open()
        await world.until(lambda: len(deleted_of(world[3])) == is_broken)
        assert ("rotten" in caplog.text) is is_broken

    play(scene, *orders([1, 2, 3]))
