"""Crews of client processes, and chance with a seed that is printed: `OTTLA_CHAOS_SEED` repeats a run's choices."""

import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.chaos.crew import Crew

SEED: Final = int(os.environ.pop("OTTLA_CHAOS_SEED", "0")) or random.SystemRandom().getrandbits(32)
NewCrew = Callable[..., Crew]


@pytest.fixture
def chance(request: pytest.FixtureRequest) -> random.Random:
    """Random choices of this test, from the run's seed."""
    return random.Random(f"{SEED} {request.node.name}")


@pytest.fixture
def new_crew(tmp_path: Path) -> Iterator[NewCrew]:
    crews: list[Crew] = []

    def new(module: str, *, size: int, **settings: Any) -> Crew:
        directory = tmp_path / module
        directory.mkdir()
        crews.append(Crew(module, size=size, directory=directory, settings=settings))
        return crews[-1]

    yield new
    for crew in crews:
        crew.discard()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.write_line(f"OTTLA_CHAOS_SEED={SEED}")
