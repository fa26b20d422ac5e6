"""Reads the text form of a definition.

    ProduceResponse: response 0, versions 3-13, flexible 9+       name: kind number, versions, first flexible version
      responses: [TopicProduceResponse]                           an array of a struct, whose fields are indented
        name: string 3-12                                         only in these versions
        error_message: string? 8+ = null                          nullable, from version 8 on, default null
        current_leader: LeaderIdAndEpoch 10+ tag 0                a tagged field (KIP-482)
      topics: [string]?1+                                         exists always, nullable from version 1 on
      ReplicaState:                                               a struct that several fields of this message use
        replica_id: int32 = -1

A field without versions lives as long as the field or message around it. Without `= default` the default is zero,
false, the empty string, the empty array or the zero UUID, as in Kafka. A request also says which listeners serve it:
`on broker controller`. Errors here are ours, so they are `InvariantViolation`s.
"""

import json
import re
from dataclasses import dataclass, field
from typing import Final

from ottla.base.errors import invariant
from ottla.base.types import ZERO_TOPIC_ID
from ottla.wire.schema import (
    FIXED_FORMATS,
    VARIABLE_TYPES,
    FieldSchema,
    Heading,
    MessageSchema,
    StructSchema,
    Versions,
)

_HEADING: Final = re.compile(
    r"(?P<name>\w+): (?P<kind>\w+)(?: (?P<number>\d+))?, versions (?P<versions>[\d-]+)"
    r"(?:, flexible (?P<flexible>\d+)\+)?(?:, on (?P<listeners>[\w ]+))?"
)
_FIELD: Final = re.compile(
    r"(?P<name>\w+): (?P<array>\[)?(?P<type>\w+)\]?(?P<nullable>\?(?:(?P<nullable_from>\d+)\+)?)?"
    r"(?: (?P<versions>\d+(?:-\d+|\+)?))?(?: tag (?P<tag>\d+))?(?: = (?P<default>.+))?"
)
_SHARED_STRUCT: Final = re.compile(r"(?P<name>[A-Z]\w+):")
_INDENT: Final = 2
_ZERO: Final[dict[str, object]] = {
    "bool": False,
    "float64": 0.0,
    "uuid": ZERO_TOPIC_ID,
    "string": "",
    "legacy_string": "",
    "bytes": b"",
    "records": b"",
}


def parse_heading(line: str) -> Heading:
    match = _HEADING.fullmatch(line)
    invariant(match, "a heading that cannot be read", line=line)
    assert match is not None
    low, _, high = match["versions"].partition("-")
    return Heading(
        name=match["name"],
        kind=match["kind"],
        number=_number(match["number"]),
        versions=Versions(int(low), int(high or low)),
        flexible_from=_number(match["flexible"]),
        listeners=frozenset((match["listeners"] or "").split()),
    )


def parse_message(text: str) -> MessageSchema:
    first, *rest = text.splitlines()
    heading = parse_heading(first)
    return _Reader(heading, _outline(rest)).read()


@dataclass(slots=True)
class _Line:
    text: str
    below: "list[_Line]" = field(default_factory=list)


def _outline(lines: list[str]) -> list[_Line]:
    """Indented lines as a tree."""
    top = _Line("")
    path = [top]
    for raw in lines:
        text = raw.lstrip()
        depth = (len(raw) - len(text)) // _INDENT
        invariant(1 <= depth <= len(path), "a line indented too far", line=raw)
        del path[depth:]
        line = _Line(text)
        path[-1].below.append(line)
        path.append(line)
    return top.below


class _Reader:
    def __init__(self, heading: Heading, outline: list[_Line]) -> None:
        self._heading = heading
        self._field_lines = [line for line in outline if not _SHARED_STRUCT.fullmatch(line.text)]
        self._shared_lines = {line.text[:-1]: line for line in outline if _SHARED_STRUCT.fullmatch(line.text)}
        self._structs: dict[str, StructSchema] = {}

    def read(self) -> MessageSchema:
        root = self._struct(self._heading.name, self._field_lines, self._heading.versions)
        return MessageSchema(heading=self._heading, root=root, structs=self._structs)

    def _struct(self, name: str, lines: list[_Line], versions: Versions) -> StructSchema:
        return StructSchema(name=name, fields=tuple(self._field(line, versions) for line in lines))

    def _field(self, line: _Line, around: Versions) -> FieldSchema:
        match = _FIELD.fullmatch(line.text)
        invariant(match, "a field that cannot be read", message=self._heading.name, line=line.text)
        assert match is not None
        type_name = match["type"]
        versions = self._versions(match["versions"], around)
        struct = None
        if type_name not in FIXED_FORMATS and type_name not in VARIABLE_TYPES:
            struct = self._nested(type_name, line, versions)
        nullable_from = int(match["nullable_from"] or versions.low) if match["nullable"] else None
        return FieldSchema(
            name=match["name"],
            type=type_name,
            struct=struct,
            is_array=match["array"] is not None,
            versions=versions,
            nullable_from=nullable_from,
            tag=_number(match["tag"]),
            default=_ZERO.get(type_name, 0) if match["default"] is None else json.loads(match["default"]),
            default_is_null=match["default"] == "null" or (type_name == "records" and nullable_from is not None),
        )

    def _versions(self, text: str | None, around: Versions) -> Versions:
        if text is None:
            return around
        if text.endswith("+"):
            return Versions(int(text[:-1]), self._heading.versions.high)
        low, _, high = text.partition("-")
        return Versions(int(low), int(high or low))

    def _nested(self, name: str, line: _Line, versions: Versions) -> StructSchema:
        known = self._structs.get(name)
        if known is not None:
            invariant(not line.below, "a struct defined twice", message=self._heading.name, struct=name)
            return known
        if name in self._shared_lines:
            # Taken out of the table while it is read: a struct that contains itself is then unknown, not endless.
            struct = self._struct(name, self._shared_lines.pop(name).below, self._heading.versions)
        else:
            invariant(line.below, "a struct without fields", message=self._heading.name, struct=name)
            struct = self._struct(name, line.below, versions)
        self._structs[name] = struct
        return struct


def _number(text: str | None) -> int | None:
    return None if text is None else int(text)
