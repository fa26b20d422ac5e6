"""The text form of definitions, and that every definition keeps its rules."""

import pytest

from ottla.base.errors import InvariantViolation
from ottla.wire import definitions
from ottla.wire.notation import parse_heading, parse_message
from ottla.wire.schema import Versions

EXAMPLE = """\
ExampleRequest: request 7, versions 1-5, flexible 4+, on broker controller
  name: string?2+
  limit: int32 3-4 = -1
  parts: [Part]
    index: int32
    leader: Leader 5+ tag 0
  others: [Leader]? 2+ = null
  Leader:
    id: int32 = -1
    epoch: int32 3+"""


def test_a_heading() -> None:
    heading = parse_heading(EXAMPLE.splitlines()[0])
    assert heading.name == "ExampleRequest"
    assert (heading.kind, heading.number) == ("request", 7)
    assert heading.versions == Versions(1, 5)
    assert heading.flexible_from == 4
    assert heading.listeners == {"broker", "controller"}


def test_fields() -> None:
    schema = parse_message(EXAMPLE)
    name, limit, parts, others = schema.root.fields
    assert not name.nullable_in(1)
    assert name.nullable_in(2)
    assert (limit.versions, limit.default) == (Versions(3, 4), -1)
    assert parts.is_array
    assert parts.struct is not None
    assert [field.name for field in parts.struct.plain_fields(5)] == ["index"]
    assert [(tag, field.name) for tag, field in parts.struct.tagged_fields(5)] == [(0, "leader")]
    assert parts.struct.tagged_fields(4) == []
    assert (others.nullable_from, others.default_is_null, others.versions) == (2, True, Versions(2, 5))
    assert [field.name for field in schema.root.absent_fields(1)] == ["limit", "others"]


def test_a_shared_struct_is_one_struct() -> None:
    schema = parse_message(EXAMPLE)
    assert set(schema.structs) == {"Part", "Leader"}
    assert schema.root.fields[3].struct is schema.structs["Leader"]
    assert schema.structs["Part"].fields[1].struct is schema.structs["Leader"]
    assert list(schema.structs) == ["Leader", "Part"], "a struct comes after those that it contains"


@pytest.mark.parametrize(
    "text",
    [
        "NoVersions: request 7",
        "Example: data, versions 0\n  name string",
        "Example: data, versions 0\n      name: string",
        "Example: data, versions 0\n  name: Unknown",
        "Example: data, versions 0\n  name: int32 tag",
        "Example: data, versions 0\n  loop: Loop\n  Loop:\n    inner: [Loop]",
        "Example: data, versions 0\n  a: A\n    x: int8\n  b: A\n    x: int8",
    ],
)
def test_a_mistake_in_a_definition_is_ours(text: str) -> None:
    with pytest.raises(InvariantViolation):
        parse_message(text)


@pytest.mark.parametrize("name", sorted(definitions.texts()))
def test_every_definition_keeps_the_rules(name: str) -> None:
    schema = parse_message(definitions.texts()[name])
    assert schema.name == name
    whole = schema.heading.versions
    for struct in schema.all_structs():
        names = [field.name for field in struct.fields]
        assert len(names) == len(set(names)), "a field twice"
        tags = [field.tag for field in struct.fields if field.tag is not None]
        assert len(tags) == len(set(tags)), "a tag twice"
        for field in struct.fields:
            assert whole.low <= field.versions.low <= field.versions.high <= whole.high, field.name
            assert field.tag is None or schema.is_flexible(field.versions.low), "tags need a flexible version"
            assert not field.default_is_null or field.nullable_from is not None, "null as the default of no nullable"


def test_a_name_belongs_to_one_message() -> None:
    headings = [parse_heading(line) for line in definitions.headings()]
    numbered = [
        (heading.kind, heading.number) for heading in headings if heading.kind in ("request", "response", "metadata")
    ]
    assert len(numbered) == len(set(numbered))
    assert len(headings) == len({heading.name for heading in headings})
