"""Every file in scenarios/ gives the transcript that it contains. `scenario.py` says how to read and renew them."""

from pathlib import Path

import pytest

from tests.unit.raft.scenario import transcript_of

FILES = sorted((Path(__file__).parent / "scenarios").glob("*.txt"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_transcript_is_as_written(path: Path) -> None:
    assert transcript_of(path.read_text()).splitlines() == path.read_text().splitlines()


def test_there_are_scenarios() -> None:
    assert len(FILES) >= 8
