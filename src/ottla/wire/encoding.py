"""Writes the encoder of one message at one version: the mirror image of `decoding`.

    def encode_into(message: Message, out: bytearray) -> None

Neighbouring fixed-width fields are packed by one call (a run), which also writes the empty tag section where a struct
has no tagged fields. Fields that the version does not have are dropped. A value that does not fit its type is our
mistake and raises `ValueError`.
"""

import struct

from ottla.wire import primitives
from ottla.wire.layout import NOT_NULL, count_format, is_fixed, length_format, null_marker
from ottla.wire.message import Message
from ottla.wire.schema import FIXED_FORMATS, FieldSchema, MessageSchema, StructSchema
from ottla.wire.source import Source


def encoder_source(message_class: type[Message], version: int) -> Source:
    return _EncoderWriter(message_class, version).write()


class _EncoderWriter:
    def __init__(self, message_class: type[Message], version: int) -> None:
        self._schema: MessageSchema = message_class.SCHEMA
        self._version = version
        self._flexible = self._schema.is_flexible(version)
        self._source = Source(message_class)
        self._out = "out"
        # The run: formats and expressions of fixed-width values that are not written yet.
        self._formats = ""
        self._values: list[str] = []

    def write(self) -> Source:
        source, name = self._source, self._schema.name
        with source.block(f"def encode_into(message: {name}, out: bytearray) -> None:"):
            with source.block("try:"):
                self._struct(self._schema.root, "message")
                self._flush()
                source.line("return")
            with source.block("except (AttributeError, TypeError, ValueError, struct.error) as error:"):
                source.line(f'raise ValueError(f"{name} v{self._version} cannot be encoded: {{error}}") from error')
        return source

    # Structs

    def _struct(self, struct_schema: StructSchema, value: str) -> None:
        for field in struct_schema.plain_fields(self._version):
            self._field(field, f"{value}.{field.name}")
        if self._flexible:
            tagged = struct_schema.tagged_fields(self._version)
            if tagged:
                self._tagged_fields(tagged, value)
            else:
                self._formats += "x"

    def _tagged_fields(self, tagged: list[tuple[int, FieldSchema]], value: str) -> None:
        """Only fields that differ from their default are written (KIP-482)."""
        self._flush()
        source = self._source
        count = source.new_name("count")
        flags = [source.new_name("has") for _ in tagged]
        for flag, (_, field) in zip(flags, tagged, strict=True):
            source.line(f"{flag} = {self._differs(field, f'{value}.{field.name}')}")
        source.line(f"{count} = {' + '.join(flags)}")
        source.line(f"{self._out}.append({count})")
        with source.block(f"if {count}:"):
            for (tag, field), flag in zip(tagged, flags, strict=True):
                with source.block(f"if {flag}:"):
                    self._tagged_field(tag, field, f"{value}.{field.name}")

    def _differs(self, field: FieldSchema, value: str) -> str:
        """Whether a tagged field must be written, as an expression that is a bool."""
        default = self._source.default(field)
        if default == "None":
            return f"{value} is not None"
        if default == "[]":
            is_filled = f"len({value}) > 0"
            return f"{value} is None or {is_filled}" if field.nullable_in(self._version) else is_filled
        if default.startswith("DEFAULT_"):
            # Nearly always the shared default itself, and then nothing has to be compared.
            assert field.struct is not None
            differences = [self._differs(inner, f"{value}.{inner.name}") for inner in field.struct.fields]
            return f"{value} is not {default} and ({' or '.join(differences)})"
        return f"{value} != {default}"

    def _tagged_field(self, tag: int, field: FieldSchema, value: str) -> None:
        outer, self._out = self._out, self._source.new_name("tagged")
        self._source.line(f"{self._out} = bytearray()")
        self._field(field, value)
        self._flush()
        inner, self._out = self._out, outer
        self._source.line(f"{outer} += {primitives.varint(tag)!r} + varint(len({inner}))")
        self._source.line(f"{outer} += {inner}")

    # Fields

    def _field(self, field: FieldSchema, value: str) -> None:
        if field.is_array:
            self._array(field, value)
        elif field.struct is not None:
            self._nested_struct(field, value)
        elif is_fixed(field):
            self._formats += FIXED_FORMATS[field.type]
            self._values.append(f"{value}.int.to_bytes(16)" if field.type == "uuid" else value)
        else:
            self._text_or_bytes(field, value)

    def _nested_struct(self, field: FieldSchema, value: str) -> None:
        assert field.struct is not None
        name = self._source.new_name("struct")
        if not field.nullable_in(self._version):
            self._source.line(f"{name} = {value}")
            self._struct(field.struct, name)
            return
        self._flush()
        self._source.line(f"{name} = {value}")
        with self._source.block(f"if {name} is None:"):
            self._source.line(f"{self._out}.append({null_marker(field) & 0xFF})")
        with self._source.block("else:"):
            self._source.line(f"{self._out}.append({NOT_NULL})")
            self._struct(field.struct, name)
            self._flush()

    def _text_or_bytes(self, field: FieldSchema, value: str) -> None:
        self._flush()
        name = self._source.new_name("value")
        self._source.line(f"{name} = {value}")
        if not field.nullable_in(self._version):
            self._refuse_null(field, name)
            self._present(field, name)
            return
        with self._source.block(f"if {name} is None:"):
            self._null(length_format(field.type, self._flexible))
        with self._source.block("else:"):
            self._present(field, name)

    def _present(self, field: FieldSchema, value: str) -> None:
        """A string or bytes that cannot be null here."""
        content = value
        if field.type in ("string", "legacy_string"):
            content = self._source.new_name("encoded")
            self._source.line(f"{content} = {value}.encode()")
        self._length(length_format(field.type, self._flexible), f"len({content})")
        self._source.line(f"{self._out} += {content}")

    def _array(self, field: FieldSchema, value: str) -> None:
        self._flush()
        source = self._source
        name = source.new_name("elements")
        source.line(f"{name} = {value}")
        if field.nullable_in(self._version):
            with source.block(f"if {name} is None:"):
                self._null(count_format(self._flexible))
            with source.block("else:"):
                self._elements(field, name)
        else:
            self._refuse_null(field, name)
            self._elements(field, name)

    def _elements(self, field: FieldSchema, name: str) -> None:
        source, out = self._source, self._out
        self._length(count_format(self._flexible), f"len({name})")
        if is_fixed(field) and field.type != "uuid":
            packers = source.pack_all(field.type, FIXED_FORMATS[field.type])
            with source.block(f"if {name}:"):
                source.line(f"{out} += {packers}[len({name})](*{name})")
            return
        element = source.new_name("element")
        with source.block(f"for {element} in {name}:"):
            if field.struct is not None:
                self._struct(field.struct, element)
                self._flush()
            elif field.type == "uuid":
                source.line(f"{out} += {element}.int.to_bytes(16)")
            else:
                self._present(field, element)

    # Lengths and nulls

    def _length(self, lead_format: str, length: str) -> None:
        source, out = self._source, self._out
        if lead_format != "B":
            source.line(f"{out} += {source.pack(lead_format)}({length})")
            return
        number = source.new_name("length")
        source.line(f"{number} = {length} + 1")
        with source.block(f"if {number} < 128:"):
            source.line(f"{out}.append({number})")
        with source.block("else:"):
            source.line(f"{out} += varint({number})")

    def _refuse_null(self, field: FieldSchema, value: str) -> None:
        """Null exists in other versions of this field, so a caller may have set it."""
        if field.nullable_from is not None:
            with self._source.block(f"if {value} is None:"):
                self._source.line(f'raise ValueError("{field.name} is null")')

    def _null(self, lead_format: str) -> None:
        if lead_format == "B":
            self._source.line(f"{self._out}.append(0)")
        else:
            self._source.line(f"{self._out} += {struct.pack('>' + lead_format, -1)!r}")

    # Runs

    def _flush(self) -> None:
        if not self._formats:
            return
        source, out = self._source, self._out
        if self._formats == "x":
            source.line(f"{out}.append(0)")
        else:
            source.line(f"{out} += {source.pack(self._formats)}({', '.join(self._values)})")
        self._formats, self._values = "", []
