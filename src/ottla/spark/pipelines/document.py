"""A YAML file as plain data, together with the line and column of every key, so that what is wrong can be pointed at.

A place in the data is a path such as ("source", "topic") or ("transform", 1). `${NAME}` in a value stands for an
environment variable, `${NAME:-text}` for one that may be missing, `$${` for the characters themselves.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

Place = tuple[str | int, ...]

_VARIABLE: Final = re.compile(r"\$(\$\{)|\$\{([A-Za-z_]\w*)(?::-([^}]*))?\}")


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Problem:
    """Something wrong in a file. Lines and columns count from 1, as editors do."""

    file: Path
    line: int
    column: int
    message: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}: {self.message}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    file: Path
    data: Any
    marks: Mapping[Place, yaml.Mark]
    problems: list[Problem]
    """Found while reading; the checker adds its own."""

    def add_problem(self, place: Place, message: str) -> None:
        """At `place`, or, where that is missing, at what should contain it."""
        while place and place not in self.marks:
            place = place[:-1]
        self.problems.append(problem_at(self.file, self.marks.get(place), message))


def problem_at(file: Path, mark: yaml.Mark | None, message: str) -> Problem:
    line, column = (mark.line + 1, mark.column + 1) if mark is not None else (1, 1)
    return Problem(file=file, line=line, column=column, message=message)


def read_document(file: Path, environment: Mapping[str, str]) -> Document:
    """Never raises for what is in the file; a file that is no YAML has a problem and no data."""
    try:
        return _Composer(file, environment).document(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        problem = problem_at(file, None, f"cannot be read: {error}")
    except yaml.YAMLError as error:
        reason = getattr(error, "problem", None) or error
        problem = problem_at(file, getattr(error, "problem_mark", None), f"no YAML: {reason}")
    except RecursionError:
        problem = problem_at(file, None, "no data: a part of it contains itself")
    return Document(file=file, data=None, marks={}, problems=[problem])


class _Composer:
    """YAML's nodes to plain values, with a mark for each place."""

    def __init__(self, file: Path, environment: Mapping[str, str]) -> None:
        self._file = file
        self._environment = environment
        self._marks: dict[Place, yaml.Mark] = {}
        self._problems: list[Problem] = []

    def document(self, text: str) -> Document:
        self._loader = yaml.SafeLoader(text)
        root = self._loader.get_single_node()
        data = None if root is None else self._value(root, ())
        return Document(file=self._file, data=data, marks=self._marks, problems=self._problems)

    def _value(self, node: yaml.Node, place: Place) -> Any:
        self._marks.setdefault(place, node.start_mark)
        match node:
            case yaml.MappingNode():
                return self._mapping(node, place)
            case yaml.SequenceNode():
                return [self._value(item, (*place, index)) for index, item in enumerate(node.value)]
            case yaml.ScalarNode():
                return self._scalar(node)

    def _mapping(self, node: yaml.MappingNode, place: Place) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = str(key_node.value)
            if key in found:
                self._complain(key_node, f"{key} is there twice")
            self._marks[*place, key] = key_node.start_mark
            found[key] = self._value(value_node, (*place, key))
        return found

    def _scalar(self, node: yaml.ScalarNode) -> Any:
        text = _VARIABLE.sub(lambda match: self._variable(match, node), node.value)
        if "${" in _VARIABLE.sub("", node.value):
            self._complain(node, "${ begins a variable: ${NAME} or ${NAME:-default}; $${ is what stands for itself")
        if text == node.value:
            return self._loader.construct_object(node)
        # What an unquoted ${N} stands for has the type that it would have if it stood there itself.
        tag = self._loader.resolve(yaml.ScalarNode, text, (node.style is None, False))  # type: ignore[no-untyped-call]
        return self._loader.construct_object(yaml.ScalarNode(tag, text, node.start_mark, node.end_mark))

    def _variable(self, match: re.Match[str], node: yaml.Node) -> str:
        escaped, name, default = match.groups()
        if escaped:
            return str(escaped)
        value = self._environment.get(name, default)
        if value is None:
            self._complain(node, f"the environment variable {name} is not set; ${{{name}:-…}} gives it a default")
            return str(name)  # Something stands there: that it is empty is not another mistake.
        return value

    def _complain(self, node: yaml.Node, message: str) -> None:
        self._problems.append(problem_at(self._file, node.start_mark, message))
