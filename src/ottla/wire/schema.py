"""What a message is made of, as data: `MessageSchema` → `StructSchema` → `FieldSchema`.

Written once in the text form of `ottla.wire.definitions`, read by `notation`, and used by everything that is derived
from it: the classes (`message`), the codecs (`decoding`, `encoding`) and the type stub (`stub`). Schemas are never
changed after they were parsed.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

# Fixed-width types and their `struct` formats. Everything else starts with a length.
FIXED_FORMATS: Final = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
    "uuid": "16s",
}

# `legacy_string` keeps its two-byte length in flexible versions too: only the client id of a request header does.
VARIABLE_TYPES: Final = frozenset({"string", "legacy_string", "bytes", "records"})


class Versions(NamedTuple):
    """An inclusive range."""

    low: int
    high: int

    def includes(self, version: int) -> bool:
        return self.low <= version <= self.high


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldSchema:
    name: str
    type: str  # A key of FIXED_FORMATS, one of VARIABLE_TYPES, or the name of a struct.
    struct: "StructSchema | None"
    is_array: bool
    versions: Versions
    nullable_from: int | None
    tag: int | None
    default: object  # Ignored for a struct (its own defaults hold) and for an array (empty), unless `default_is_null`.
    default_is_null: bool

    def nullable_in(self, version: int) -> bool:
        return self.nullable_from is not None and version >= self.nullable_from


@dataclass(frozen=True, slots=True, kw_only=True)
class StructSchema:
    name: str
    fields: tuple[FieldSchema, ...]

    def plain_fields(self, version: int) -> list[FieldSchema]:
        """In wire order."""
        return [field for field in self.fields if field.tag is None and field.versions.includes(version)]

    def tagged_fields(self, version: int) -> list[tuple[int, FieldSchema]]:
        """By tag, the order Kafka writes them in."""
        tagged = [(field.tag, field) for field in self.fields if field.tag is not None]
        return sorted((pair for pair in tagged if pair[1].versions.includes(version)), key=lambda pair: pair[0])

    def absent_fields(self, version: int) -> list[FieldSchema]:
        return [field for field in self.fields if not field.versions.includes(version)]

    def has_arrays(self) -> bool:
        return any(field.is_array or (field.struct is not None and field.struct.has_arrays()) for field in self.fields)


class Heading(NamedTuple):
    """The first line of a definition: all that dispatch needs, without parsing the fields."""

    name: str
    kind: str  # request, response, header, data, metadata, key or value
    number: int | None  # The API key, or the type of a metadata or coordinator record.
    versions: Versions
    flexible_from: int | None
    listeners: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageSchema:
    heading: Heading
    root: StructSchema
    structs: dict[str, StructSchema]  # Every nested struct, a struct after those that it contains.

    @property
    def name(self) -> str:
        return self.heading.name

    def is_flexible(self, version: int) -> bool:
        return self.heading.flexible_from is not None and version >= self.heading.flexible_from

    def all_structs(self) -> Iterator[StructSchema]:
        yield from self.structs.values()
        yield self.root
