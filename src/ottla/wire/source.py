"""The text of a compiled codec: a Python module of its own, with types, that imports and defines all it needs.

`codec` executes it; `mypy --strict` accepts it, so that mypyc can compile a file of it as well.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from ottla.wire.message import Message, default_source
from ottla.wire.schema import FieldSchema

_IMPORTS: Final = """\
import struct
from uuid import UUID
from ottla.base.errors import ProtocolError
from ottla.base.types import ZERO_TOPIC_ID as ZERO_ID
from ottla.wire.api import {name}
from ottla.wire.message import frozen_default
from ottla.wire.primitives import ELEMENTS_MAX, long_varint, packers, read_varint, skip_tags, unpackers, uuid_of, varint
new = object.__new__
"""


class Source:
    def __init__(self, message_class: type[Message]) -> None:
        self._message_name = message_class.SCHEMA.name
        self._definitions: dict[str, str] = {}
        self._lines: list[str] = []
        self._depth = 0
        self._made_count = 0

    def line(self, text: str) -> None:
        self._lines.append("    " * self._depth + text)

    @contextmanager
    def block(self, opening: str) -> Iterator[None]:
        self.line(opening)
        self._depth += 1
        yield
        self._depth -= 1

    def new_name(self, stem: str) -> str:
        """A variable that nothing else in the function uses."""
        self._made_count += 1
        return f"{stem}{self._made_count}"

    def text(self) -> str:
        definitions = [f"{name} = {expression}" for name, expression in self._definitions.items()]
        return _IMPORTS.format(name=self._message_name) + "\n".join([*definitions, *self._lines]) + "\n"

    # Names that the text refers to. Each is defined once, before the function.

    def struct_class(self, struct_name: str) -> str:
        return self._define(struct_name, f"{self._message_name}.{struct_name}")

    def default(self, field: FieldSchema) -> str:
        """The default of a field, as an expression."""
        if field.struct is not None and not field.default_is_null and not field.is_array:
            struct_class = self.struct_class(field.type)
            if not field.struct.has_arrays():
                self._define(f"DEFAULT_{field.type}", f"frozen_default({struct_class})")
        return default_source(field)

    def unpack(self, formats: str) -> str:
        """A function that reads these fixed-width values at a position of a view."""
        return self._define(f"unpack_{formats.replace('?', 't')}", f'struct.Struct(">{formats}").unpack_from')

    def pack(self, formats: str) -> str:
        return self._define(f"pack_{formats.replace('?', 't')}", f'struct.Struct(">{formats}").pack')

    def unpack_all(self, type_name: str, element_format: str) -> str:
        """A table: number of elements → function that reads them."""
        return self._define(f"unpack_all_{type_name}", f'unpackers("{element_format}")')

    def pack_all(self, type_name: str, element_format: str) -> str:
        return self._define(f"pack_all_{type_name}", f'packers("{element_format}")')

    def _define(self, name: str, expression: str) -> str:
        self._definitions[name] = expression
        return name
