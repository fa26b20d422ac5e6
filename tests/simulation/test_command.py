"""`python -m sim`: what is noted as done is not run again, failures are."""

import json
import subprocess
import sys
from pathlib import Path

from sim.__main__ import Portion, run_portion


def run_sim(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "sim", *arguments], capture_output=True, text=True, check=False)


def test_what_is_done_is_noted_and_not_run_again(tmp_path: Path) -> None:
    notes = tmp_path / "done"
    arguments = ("--scenario", "metadata", "--seeds", "30", "--processes", "1", "--resume", str(notes))
    first = run_sim(*arguments)
    assert (first.returncode, first.stderr) == (0, "")
    assert [json.loads(line)[0] for line in notes.read_text().splitlines()] == [
        ["metadata", 0, 20],
        ["metadata", 20, 10],
    ]
    again = run_sim(*arguments)
    assert again.stdout.splitlines()[1:] == first.stdout.splitlines()[1:]
    assert again.stdout.startswith("metadata: 30 seeds, 0.0 seeds/s, 0 failed")


def test_a_portion_is_the_sum_of_its_seeds() -> None:
    both = run_portion(Portion("raft", 5, 2))
    hits = [run_portion(Portion("raft", seed, 1)).hits for seed in (5, 6)]
    assert not both.failures
    assert both.hits == {what: hits[0].get(what, 0) + hits[1].get(what, 0) for what in hits[0] | hits[1]}
