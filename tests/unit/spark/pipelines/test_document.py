"""YAML with positions, and environment variables in it."""

from pathlib import Path

import pytest

from ottla.spark.pipelines.document import Document, read_document


def read(tmp_path: Path, text: str, **environment: str) -> Document:
    file = tmp_path / "p.yaml"
    file.write_text(text)
    return read_document(file, environment)


def positions(document: Document) -> list[tuple[int, int, str]]:
    return [(problem.line, problem.column, problem.message) for problem in document.problems]


def test_every_key_and_item_has_its_place(tmp_path: Path) -> None:
    document = read(tmp_path, "name: a\nsource:\n  topic: t\ntransform:\n  - SELECT 1\n")
    assert document.data == {"name": "a", "source": {"topic": "t"}, "transform": ["SELECT 1"]}
    document.add_problem(("source", "topic"), "here")
    document.add_problem(("transform", 0, "sql"), "in the step")
    document.add_problem(("source", "missing"), "in the section")
    assert positions(document) == [(3, 3, "here"), (5, 5, "in the step"), (2, 1, "in the section")]


def test_variables_come_from_the_environment_and_have_the_type_they_would_have(tmp_path: Path) -> None:
    text = "a: ${HOST}:9092\nb: ${COUNT}\nc: '${COUNT}'\nd: ${NONE:-text}\ne: $${HOST}\n"
    document = read(tmp_path, text, HOST="h", COUNT="5")
    assert document.data == {"a": "h:9092", "b": 5, "c": "5", "d": "text", "e": "${HOST}"}
    assert document.problems == []


def test_a_variable_that_is_not_set_is_a_problem_at_its_line(tmp_path: Path) -> None:
    document = read(tmp_path, "a: 1\nb: x-${NONE}\n")
    assert positions(document) == [
        (2, 4, "the environment variable NONE is not set; ${NONE:-…} gives it a default"),
    ]


def test_a_key_that_is_there_twice_is_a_problem(tmp_path: Path) -> None:
    assert positions(read(tmp_path, "a: 1\na: 2\n")) == [(2, 1, "a is there twice")]


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [("a: [1\nb: 2", 2, 2), ("a: {b: &x [*x]}", 1, 1), ("a: !!python/name:os.system x", 1, 4), ("a: \x00", 1, 1)],
)
def test_what_is_no_yaml_is_one_problem(tmp_path: Path, text: str, line: int, column: int) -> None:
    document = read(tmp_path, text)
    assert document.data is None
    assert [(problem.line, problem.column) for problem in document.problems] == [(line, column)]


def test_a_file_that_cannot_be_read_is_a_problem(tmp_path: Path) -> None:
    [problem] = read_document(tmp_path / "none.yaml", {}).problems
    assert str(problem).startswith(f"{tmp_path}/none.yaml:1:1: cannot be read: ")
