"""Writes `api.pyi`, so that mypy knows every message, struct and field.

    python -m ottla.wire.stub > stub.new && mv stub.new src/ottla/wire/api.pyi

A test compares the file with the definitions. `records` reads as the view that decoding gives; any buffer may be
passed when a message is made.
"""

from collections.abc import Iterator

from ottla.wire import definitions
from ottla.wire.notation import parse_message
from ottla.wire.schema import FieldSchema, MessageSchema, StructSchema

_OPENING = '''\
"""Written by `python -m ottla.wire.stub` from the definitions: change those, not this."""

from uuid import UUID

from ottla.base.disk import Buffer
from ottla.wire.message import Message
'''

_PYTHON_TYPES = {
    "bool": "bool",
    "float64": "float",
    "uuid": "UUID",
    "string": "str",
    "legacy_string": "str",
    "bytes": "bytes",
    "records": "memoryview",
}


def stub_text() -> str:
    lines = [_OPENING.rstrip("\n")]
    for _, text in sorted(definitions.texts().items()):
        lines.append("")
        lines += _message_lines(parse_message(text))
    return "\n".join(lines) + "\n"


def _message_lines(schema: MessageSchema) -> Iterator[str]:
    nested = list(schema.structs.values())
    if not nested and not schema.root.fields:
        yield f"class {schema.name}(Message): ..."
        return
    yield f"class {schema.name}(Message):"
    for struct in nested:
        yield f"    class {struct.name}(Message):"
        yield from ("        " + line for line in _field_lines(struct, schema.name))
        yield ""
    yield from ("    " + line for line in _field_lines(schema.root, schema.name))


def _field_lines(struct: StructSchema, message_name: str) -> Iterator[str]:
    for field in struct.fields:
        yield f"{field.name}: {_type(field, message_name)}"
    yield "def __init__("
    yield "    self,"
    yield "    *,"
    for field in struct.fields:
        yield f"    {field.name}: {_type(field, message_name).replace('memoryview', 'Buffer')} = ...,"
    yield ") -> None: ..."


def _type(field: FieldSchema, message_name: str) -> str:
    if field.struct is not None:
        # Spelled out from the top: the body of a nested class does not see its neighbours.
        name = f"{message_name}.{field.type}"
    else:
        name = _PYTHON_TYPES.get(field.type, "int")
    if field.is_array:
        name = f"list[{name}]"
    return name if field.nullable_from is None else f"{name} | None"


if __name__ == "__main__":
    print(stub_text(), end="")
