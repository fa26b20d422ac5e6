"""A disk that somebody else fills, under each role in turn: what was acknowledged stays, and room heals it."""

import errno
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.chaos.small_disk import mounted
from tests.chaos.writers import abandon_all
from tests.cluster.conftest import Report, new_site
from tests.cluster.load import IMPATIENT, Load
from tests.cluster.site import Site

DISK_BYTES: Final = 64 << 20
STEP_BYTES: Final = 1 << 20
FULL_SECONDS: Final = 5.0
SMALL_SEGMENTS: Final = {"log.segment.bytes": 4 << 20, "log.index.size.max.bytes": 1 << 16}


@pytest.fixture
def disks(tmp_path: Path) -> Iterator[dict[int, Path]]:
    with ExitStack() as stack:
        yield {
            node: stack.enter_context(mounted(tmp_path / f"disk-{node}", kind="tmpfs", size_bytes=DISK_BYTES))
            for node in (1, 2, 3)
        }


@pytest.fixture
def site(disks: dict[int, Path]) -> Iterator[Site]:
    configs = {node: {"log.dirs": disk / "data"} for node, disk in disks.items()}
    with new_site(config=SMALL_SEGMENTS, configs=configs) as own:
        yield own
        abandon_all()


@contextmanager
def full(disk: Path) -> Iterator[None]:
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        for step_bytes in (STEP_BYTES, 1):
            try:
                while file.write(bytes(step_bytes)):
                    pass
            except OSError as error:
                assert error.errno == errno.ENOSPC
    yield
    ballast.unlink()


@pytest.mark.timeout(900)
@pytest.mark.parametrize("role", ["follower", "leader", "controller"])
def test_a_full_disk_loses_nothing(
    role: str, site: Site, disks: dict[int, Path], topic_name: str, rounds: int, report: Report
) -> None:
    site.topics.create(topic_name)
    with Load(site.bootstrap, topic_name, settings=IMPATIENT) as load:
        for _ in range(rounds):
            load.wait_for(100)
            target = site.controller() if role == "controller" else getattr(site, role)(topic_name)
            with full(disks[target]):
                # Others lead and commit without it: it neither leads nor is waited for.
                site.topics.wait_until(topic_name, lambda state, target=target: target not in state.isr)
                time.sleep(FULL_SECONDS)
            load.wait_for(100)
            site.topics.wait_until(topic_name, lambda state: len(state.isr) == 3)
    report(load.require_clean())
