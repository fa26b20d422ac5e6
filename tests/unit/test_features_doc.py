"""docs/FEATURES.md and the tree: what it names exists, and no line claims more than it shows.

A test is named as `path::name` below tests/, code by its path below src/ottla/ (or from the root), a benchmark by the
name of its scenario.
"""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from benchmarks.catalogue import SCENARIOS
from benchmarks.cluster_scenarios import SCENARIOS as CLUSTER_SCENARIOS

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "FEATURES.md").read_text()

CODES = [
    *(f"L{number}" for number in range(1, 12)),
    *(f"P{number}" for number in range(1, 7)),
    *(f"C{number}" for number in range(1, 12)),
    *(f"K{number}" for number in range(1, 11)),
    *(f"I{number}" for number in range(1, 5)),
    *(f"S{number}" for number in range(1, 6)),
    *(f"O{number}" for number in range(1, 8)),
]
NUMBERS_COUNT = 15  # Rows of the design's table of numbers.
SCENES = [str(number) for number in range(1, 66)]
MEASURED_SCENES = {"37"}  # A figure, shown by a benchmark.

TEST_ID = re.compile(r"`([\w/]+\.py)(?:::(\w+))?`")
PATH = re.compile(r"`([\w.]+/[\w./]*|\w+\.(?:md|py))`")
SCENARIO = re.compile(r"`([a-z0-9]+(?:-[a-z0-9]+)+)`")


def rows_of(*headings: str) -> list[list[str]]:
    """The cells of the tables under these headings, without their heads."""
    rows: list[list[str]] = []
    for heading in headings:
        [section] = re.findall(rf"^## {heading}\n(.*?)(?=^## |\Z)", TEXT, re.MULTILINE | re.DOTALL)
        lines = [line for line in section.splitlines() if line.startswith("| ")]
        rows += [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines[1:]]
    return rows


FEATURES = rows_of("Log and storage", "Producing", "Consuming", "Cluster", "Interfaces", "Data pipeline", "Operations")
NUMBERS = rows_of("Numbers")
SCENE_ROWS = rows_of("Scenes")
TESTS_NAMED = sorted({found for row in (*FEATURES, *NUMBERS, *SCENE_ROWS) for found in TEST_ID.findall(" ".join(row))})


@cache
def functions_in(path: Path) -> dict[str, str]:
    """What a test file says of each of its functions: the docstrings of the file and of the function."""
    module = ast.parse(path.read_text())
    told = ast.get_docstring(module) or ""
    functions = [node for node in module.body if isinstance(node, ast.FunctionDef)]
    return {function.name: f"{told} {ast.get_docstring(function) or ''}" for function in functions}


def plays(number: str, path: str, name: str) -> bool:
    """A test says which scene it is: by its name, or in words beside it."""
    if re.match(rf"test_scenes?_(\d+_and_)?0?{number}_", name):
        return True
    told = functions_in(ROOT / "tests" / path)[name]
    return bool(re.search(rf"\bscenes? .*?\b{number}\b", told, re.IGNORECASE | re.DOTALL))


def test_every_line_of_the_design_has_one_here() -> None:
    assert sorted(row[0] for row in FEATURES) == sorted(CODES)
    assert len(NUMBERS) == NUMBERS_COUNT
    assert [row[0] for row in SCENE_ROWS] == SCENES


def test_every_test_that_is_named_exists() -> None:
    tests = [(path, name) for path, name in TESTS_NAMED if name]
    assert len(tests) > 100
    missing = [
        f"{path}::{name}"
        for path, name in tests
        if not (ROOT / "tests" / path).is_file() or name not in functions_in(ROOT / "tests" / path)
    ]
    assert missing == []


def test_every_path_that_is_named_exists() -> None:
    named = {path for row in (*FEATURES, *NUMBERS, *SCENE_ROWS) for path in PATH.findall(" ".join(row))}
    assert len(named) > 40
    places = [ROOT, ROOT / "src" / "ottla", ROOT / "tests"]
    assert [path for path in sorted(named) if not any((place / path).exists() for place in places)] == []


def test_every_benchmark_that_is_named_exists() -> None:
    named = {name for row in (*FEATURES, *NUMBERS, *SCENE_ROWS) for name in SCENARIO.findall(" ".join(row))}
    assert len(named) > 5
    assert named <= {scenario.name for scenario in (*SCENARIOS, *CLUSTER_SCENARIOS)}


@pytest.mark.parametrize("row", FEATURES, ids=[row[0] for row in FEATURES])
def test_a_feature_claims_no_more_than_it_shows(row: list[str]) -> None:
    _, _, where, shown_by, state = row
    assert state in ("done", "not yet") or state.startswith(("partly: ", "not yet: ")), state
    if not state.startswith("not yet"):
        assert TEST_ID.search(shown_by), "nothing shows it"
    if state == "done":
        assert PATH.search(where), "it lives nowhere"


@pytest.mark.parametrize("row", NUMBERS, ids=[row[0] for row in NUMBERS])
def test_a_number_claims_no_more_than_it_shows(row: list[str]) -> None:
    _, _, shown_by, state = row
    assert state in ("done", "not yet") or state.startswith("partly: "), state
    assert (shown_by == "–") is (state == "not yet")
    assert state != "done" or TEST_ID.search(shown_by)


@pytest.mark.parametrize("row", SCENE_ROWS, ids=[f"scene {row[0]}" for row in SCENE_ROWS])
def test_a_scene_is_found_by_its_number(row: list[str]) -> None:
    number, _, tests, _ = row
    if number in MEASURED_SCENES:
        assert SCENARIO.search(tests)
    else:
        assert any(plays(number, path, name) for path, name in TEST_ID.findall(tests))
