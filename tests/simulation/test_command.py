"""`python -m sim`: what is noted as done is not run again, failures are."""

import json
import subprocess
import sys
from pathlib import Path

from sim.__main__ import run_portion
from sim.notes import Notes, Outcome, Portion


def run_sim(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "sim", *arguments], capture_output=True, text=True, check=False)


def test_an_interrupted_run_goes_on_where_it_was(tmp_path: Path) -> None:
    path = tmp_path / "done"
    Notes(path).add(Portion("metadata", 0, 20), Outcome([], {"noted before": 7}))
    with path.open("a") as file:
        file.write('["half a li')
    resumed = run_sim("--scenario", "metadata", "--seeds", "30", "--processes", "1", "--resume", str(path))
    assert (resumed.returncode, resumed.stderr) == (0, "")
    assert resumed.stdout.startswith("metadata: 30 seeds, 20 of them noted before, ")
    assert "7  noted before" in resumed.stdout
    assert not path.exists()


def test_notes_count_for_the_code_that_made_them(tmp_path: Path) -> None:
    path = tmp_path / "done"
    portion, outcome = Portion("raft", 0, 20), Outcome([], {})
    path.write_text(json.dumps(["another digest", portion, {}]) + "\n")
    notes = Notes(path)
    assert notes.read() == {}
    notes.add(portion, outcome)
    notes.add(Portion("raft", 20, 20), Outcome([(21, "failed")], {}))
    assert notes.read() == {portion: outcome}


def test_a_portion_is_the_sum_of_its_seeds() -> None:
    both = run_portion(Portion("raft", 5, 2))
    hits = [run_portion(Portion("raft", seed, 1)).hits for seed in (5, 6)]
    assert not both.failures
    assert both.hits == {what: hits[0].get(what, 0) + hits[1].get(what, 0) for what in hits[0] | hits[1]}
