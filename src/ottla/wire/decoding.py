"""Writes the decoder of one message at one version: a single flat function, no calls per field.

    def decode(view: memoryview, position: int) -> tuple[Message, int]

Neighbouring fixed-width fields are read by one `unpack_from` (a run). Everything of variable length starts with a
number of its own (the length, the count, the null marker, the number of tags), so that number is read as the last part
of the run before it. Nested structs are read in line, arrays in loops; definitions cannot be recursive, so nesting is
bounded by the definition, never by the peer.

Whatever the bytes are, the outcome is a value or a `ProtocolError`: lengths are compared with what is left before
anything is sliced or reserved, and reading past the end (IndexError, struct.error) or bad UTF-8 (ValueError) is
translated at the one `except` around the whole function.
"""

import struct

from ottla.wire.layout import (
    NULL_MARKER_FORMAT,
    count_format,
    is_fixed,
    length_format,
    null_marker,
    smallest_value_size,
)
from ottla.wire.message import Message
from ottla.wire.schema import FIXED_FORMATS, FieldSchema, MessageSchema, StructSchema
from ottla.wire.source import Source


def decoder_source(message_class: type[Message], version: int) -> Source:
    return _DecoderWriter(message_class, version).write()


class _DecoderWriter:
    def __init__(self, message_class: type[Message], version: int) -> None:
        self._schema: MessageSchema = message_class.SCHEMA
        self._version = version
        self._flexible = self._schema.is_flexible(version)
        self._source = Source(message_class)
        # The run: formats and targets of fixed-width values that are not read yet, and what to do after reading them.
        self._formats = ""
        self._targets: list[str] = []
        self._afterwards: list[str] = []

    def write(self) -> Source:
        source, name = self._source, self._schema.name
        with source.block(f"def decode(view: memoryview, position: int) -> tuple[{name}, int]:"):
            source.line("end = len(view)")
            source.line("room = ELEMENTS_MAX")
            with source.block("try:"):
                source.line(f"message = new({name})")
                self._struct(self._schema.root, "message")
                self._flush()
            with source.block("except (IndexError, ValueError, struct.error) as error:"):
                source.line(f'raise ProtocolError(f"{name} v{self._version}: {{error}}") from error')
            source.line("return message, position")
        return source

    # Structs

    def _struct(self, struct_schema: StructSchema, target: str) -> None:
        for field in struct_schema.absent_fields(self._version):
            self._source.line(f"{target}.{field.name} = {self._source.default(field)}")
        tagged = struct_schema.tagged_fields(self._version)
        for _, field in tagged:
            self._source.line(f"{target}.{field.name} = {self._source.default(field)}")
        for field in struct_schema.plain_fields(self._version):
            self._field(field, f"{target}.{field.name}")
        if self._flexible:
            count = self._lead("B", "count")
            with self._source.block(f"if {count}:"):
                if tagged:
                    self._tagged_fields(tagged, target, count)
                else:
                    self._source.line(f"position = skip_tags(view, position, {count})")

    def _tagged_fields(self, tagged: list[tuple[int, FieldSchema]], target: str, count: str) -> None:
        source = self._source
        stop = source.new_name("stop")
        self._continue_varint(count)
        with source.block(f"for _ in range({count}):"):
            for number in ("tag", "size"):
                source.line(f"{number} = view[position]")
                source.line("position += 1")
                self._continue_varint(number)
            source.line(f"{stop} = position + size")
            self._refuse_if(f"{stop} > end", "a tagged field is longer than the message")
            keyword = "if"
            for tag, field in tagged:
                with source.block(f"{keyword} tag == {tag}:"):
                    self._field(field, f"{target}.{field.name}")
                    self._flush()
                    self._refuse_if(f"position != {stop}", f"{field.name} is not as long as its tag says")
                keyword = "elif"
            with source.block("else:"):
                source.line(f"position = {stop}")

    # Fields

    def _field(self, field: FieldSchema, target: str) -> None:
        if field.is_array:
            self._array(field, target)
        elif field.struct is not None:
            self._nested_struct(field, target)
        elif is_fixed(field):
            self._fixed(field, target)
        else:
            self._text_or_bytes(field, target)

    def _fixed(self, field: FieldSchema, target: str) -> None:
        self._formats += FIXED_FORMATS[field.type]
        if field.type == "uuid":
            raw = self._source.new_name("raw")
            self._targets.append(raw)
            self._afterwards.append(f"{target} = uuid_of({raw})")
        else:
            self._targets.append(target)

    def _nested_struct(self, field: FieldSchema, target: str) -> None:
        assert field.struct is not None
        made = self._source.new_name("struct")
        if not field.nullable_in(self._version):
            self._source.line(f"{target} = {made} = new({self._source.struct_class(field.type)})")
            self._struct(field.struct, made)
            return
        marker = self._lead(NULL_MARKER_FORMAT, "marker")
        with self._source.block(f"if {marker} <= {null_marker(field)}:"):
            self._source.line(f"{target} = None")
        with self._source.block("else:"):
            self._source.line(f"{target} = {made} = new({self._source.struct_class(field.type)})")
            self._struct(field.struct, made)
            self._flush()

    def _text_or_bytes(self, field: FieldSchema, target: str) -> None:
        source = self._source
        length = self._length(length_format(field.type, self._flexible))
        with source.block(f"if {length} > 0:"):
            source.line(f"stop = position + {length}")
            self._refuse_if("stop > end", f"{field.name} is longer than the message")
            source.line(f"{target} = {_slice_source(field)}")
            source.line("position = stop")
        with source.block(f"elif {length} == 0:"):
            source.line(f"{target} = {_empty_source(field)}")
        self._null(field, target)

    def _array(self, field: FieldSchema, target: str) -> None:
        source = self._source
        count = self._length(count_format(self._flexible))
        with source.block(f"if {count} > 0:"):
            size = smallest_value_size(field, self._version, self._flexible)
            left = "end - position" if size == 1 else f"(end - position) // {size}"
            self._refuse_if(f"{count} > {left}", f"{field.name} has more elements than the message has bytes")
            if is_fixed(field) and field.type != "uuid":
                self._fixed_elements(field, target, count, size)
            else:
                source.line(f"room -= {count}")
                self._refuse_if("room < 0", "more elements than a message may have")
                self._elements(field, target, count)
        with source.block(f"elif {count} == 0:"):
            source.line(f"{target} = []")
        self._null(field, target)

    def _fixed_elements(self, field: FieldSchema, target: str, count: str, size: int) -> None:
        unpackers = self._source.unpack_all(field.type, FIXED_FORMATS[field.type])
        self._source.line(f"{target} = list({unpackers}[{count}](view, position))")
        self._source.line(f"position += {count} * {size}" if size > 1 else f"position += {count}")

    def _elements(self, field: FieldSchema, target: str, count: str) -> None:
        source = self._source
        elements = source.new_name("elements")
        element = source.new_name("element")
        source.line(f"{elements}: list[{self._element_type(field)}] = []")
        source.line(f"{target} = {elements}")
        with source.block(f"for _ in range({count}):"):
            if field.struct is not None:
                source.line(f"{element} = new({source.struct_class(field.type)})")
                self._struct(field.struct, element)
                self._flush()
            elif field.type == "uuid":
                source.line(f"{element} = uuid_of(bytes(view[position : position + 16]))")
                source.line("position += 16")
            else:
                length = self._length(length_format(field.type, self._flexible))
                self._refuse_if(f"{length} < 0", f"null in {field.name}")
                source.line(f"stop = position + {length}")
                self._refuse_if("stop > end", f"an element of {field.name} is longer than the message")
                source.line(f"{element} = {_slice_source(field)}")
                source.line("position = stop")
            source.line(f"{elements}.append({element})")

    def _element_type(self, field: FieldSchema) -> str:
        if field.struct is not None:
            return self._source.struct_class(field.type)
        return {"uuid": "UUID", "string": "str"}.get(field.type, "bytes")

    # Lengths and nulls

    def _length(self, lead_format: str) -> str:
        """Emits the reading of a length or count, -1 (or less) for null; returns the variable that holds it."""
        length = self._lead(lead_format, "length")
        if lead_format == "B":
            self._continue_varint(length)
            self._source.line(f"{length} -= 1")
        return length

    def _null(self, field: FieldSchema, target: str) -> None:
        with self._source.block("else:"):
            if field.nullable_in(self._version):
                self._source.line(f"{target} = None")
            else:
                self._source.line(f"raise {self._error(f'{field.name} is null')}")

    def _continue_varint(self, number: str) -> None:
        with self._source.block(f"if {number} > 127:"):
            self._source.line(f"{number}, position = long_varint(view, position, {number})")

    # Runs

    def _lead(self, lead_format: str, stem: str) -> str:
        """Ends the run with a number that decides how to go on; returns the variable that holds it."""
        name = self._source.new_name(stem)
        self._formats += lead_format
        self._targets.append(name)
        self._flush()
        return name

    def _flush(self) -> None:
        if not self._targets:
            return
        source, targets = self._source, self._targets
        if self._formats == "B":
            source.line(f"{targets[0]} = view[position]")
        else:
            comma = "," if len(targets) == 1 else ""
            source.line(f"{', '.join(targets)}{comma} = {source.unpack(self._formats)}(view, position)")
        source.line(f"position += {struct.calcsize('>' + self._formats)}")
        for line in self._afterwards:
            source.line(line)
        self._formats, self._targets, self._afterwards = "", [], []

    # Refusals

    def _refuse_if(self, condition: str, reason: str) -> None:
        with self._source.block(f"if {condition}:"):
            self._source.line(f"raise {self._error(reason)}")

    def _error(self, reason: str) -> str:
        return f'ProtocolError("{self._schema.name} v{self._version}: {reason}")'


def _slice_source(field: FieldSchema) -> str:
    if field.type == "records":
        return "view[position:stop]"  # Batches stay where they were received.
    if field.type == "bytes":
        return "bytes(view[position:stop])"
    return 'str(view[position:stop], "utf-8")'


def _empty_source(field: FieldSchema) -> str:
    match field.type:
        case "records":
            return "view[position:position]"
        case "bytes":
            return 'b""'
        case _:
            return '""'
