"""Seeded values for any message at any version: boundaries, nulls, empty and full, tagged fields set and unset.

Values keep to what kio can hold too: error codes that exist, times that fit a `datetime`.
"""

from collections.abc import Iterator
from random import Random
from typing import Any
from uuid import UUID

from ottla.wire import api
from ottla.wire.message import Message
from ottla.wire.schema import FieldSchema, StructSchema

INTEGER_BOUNDS = {
    "int8": (-(2**7), 2**7 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "uint16": (0, 2**16 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "uint32": (0, 2**32 - 1),
    "int64": (-(2**63), 2**63 - 1),
}
TEXTS = ("", "a", "orders", "ottla-Ž-猫-🦊", "x" * 126, "y" * 127, "z" * 300)
TIMES_MS = (0, 1, 1_700_000_000_123, 86_400_000)
ARRAY_LENGTHS = (0, 1, 2, 3)


def message_classes() -> list[type[Message]]:
    return [getattr(api, name) for name in dir(api)]


def versions_of(message_class: type[Message]) -> range:
    low, high = message_class.SCHEMA.heading.versions
    return range(low, high + 1)


def every_version() -> Iterator[tuple[type[Message], int]]:
    for message_class in message_classes():
        for version in versions_of(message_class):
            yield message_class, version


class ValueMaker:
    """`richness` is the chance that an optional thing (null, tagged field, long array) is there."""

    def __init__(self, seed: int, richness: float) -> None:
        self._random = Random(seed)
        self._richness = richness

    def message(self, message_class: type[Any], version: int) -> Any:
        return self._struct(message_class, message_class.STRUCT, version)

    def _struct(self, struct_class: type[Any], struct: StructSchema, version: int) -> Any:
        values = {}
        for field in struct.fields:
            if not field.versions.includes(version):
                continue
            if field.tag is not None and not self._chance():
                continue
            values[field.name] = self._value(struct_class, field, version)
        return struct_class(**values)

    def _value(self, struct_class: type[Any], field: FieldSchema, version: int) -> Any:
        if field.nullable_in(version) and not self._chance():
            return None
        if not field.is_array:
            return self._single(struct_class, field, version)
        length = self._random.choice(ARRAY_LENGTHS) if self._chance() else 0
        if length and field.struct is None and self._random.random() < 0.05:
            length = 130  # The count then takes two bytes.
        return [self._single(struct_class, field, version) for _ in range(length)]

    def _single(self, struct_class: type[Any], field: FieldSchema, version: int) -> Any:
        random = self._random
        match field.type:
            case _ if field.struct is not None:
                return self._struct(struct_class.CLASSES[field.type], field.struct, version)
            case "string" | "legacy_string":
                return random.choice(TEXTS)
            case "bytes" | "records":
                return random.randbytes(random.choice((0, 1, 5, 127, 128, 200)))
            case "bool":
                return random.random() < 0.5
            case "float64":
                return random.choice((0.0, -1.5, 1e300, random.random()))
            case "uuid":
                return random.choice((UUID(int=0), UUID(int=2**128 - 1), UUID(int=random.getrandbits(128))))
            case _ if field.name.endswith("error_code"):
                return random.choice((-1, 0, 3, 87, 113))
            case _ if field.name.endswith("_ms"):
                return random.choice(TIMES_MS) % INTEGER_BOUNDS[field.type][1]
            case _:
                low, high = INTEGER_BOUNDS[field.type]
                return random.choice((low, high, 0, -1 if low < 0 else 1, random.randint(low, high)))

    def _chance(self) -> bool:
        return self._random.random() < self._richness
