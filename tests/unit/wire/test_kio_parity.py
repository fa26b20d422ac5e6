"""kio is the oracle: every message and version that it has, both directions, byte for byte."""

import datetime
import io
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from importlib import import_module
from pkgutil import resolve_name
from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.index import schema_name_map
from kio.serial import entity_reader, entity_writer

from ottla.wire import api
from ottla.wire.codec import codec_for
from ottla.wire.message import Message
from tests.unit.wire.message_values import ValueMaker, versions_of

RICHNESS = (0.0, 0.3, 0.5, 0.7, 0.9, 0.9, 0.97, 1.0)
"""One value per entry: from all defaults and nulls to everything set."""

MILLISECOND = datetime.timedelta(milliseconds=1)
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


@cache
def kio_paths() -> dict[str, dict[int, str]]:
    """Message name → version → where kio has its class."""
    paths: dict[str, dict[int, str]] = {}
    for versions in schema_name_map.values():
        for version, by_type in versions.items():
            for path in by_type.values():
                paths.setdefault(path.rpartition(":")[2], {})[version] = path
    return paths


def plain(value: Any) -> Any:
    """A value of kio's or ours as numbers, text, bytes, lists and dictionaries."""
    match value:
        case Message():
            return {field.name: plain(getattr(value, field.name)) for field in value.STRUCT.fields}
        case list() | tuple():
            return [plain(element) for element in value]
        case memoryview():
            return bytes(value)
        case datetime.timedelta():
            return value // MILLISECOND
        case datetime.datetime():
            return (value - EPOCH) // MILLISECOND
        case ErrorCode():
            return value.value
        case _:
            return value


def our_value(ours: Any, kio_name: str) -> Any:
    """kio leaves the unit out of a name and appends `_` to a builtin's."""
    name = kio_name.rstrip("_")
    return getattr(ours, name) if hasattr(ours, name) else getattr(ours, f"{name}_ms")


def assert_same(ours: Any, theirs: Any, path: str) -> None:
    """kio reads a zero UUID or a time of -1 as None."""
    if is_dataclass(theirs):
        for field in fields(theirs):
            assert_same(our_value(ours, field.name), getattr(theirs, field.name), f"{path}.{field.name}")
    elif isinstance(ours, list) and isinstance(theirs, tuple):
        assert len(ours) == len(theirs), path
        for index, (our_element, their_element) in enumerate(zip(ours, theirs, strict=True)):
            assert_same(our_element, their_element, f"{path}[{index}]")
    elif theirs is None:
        assert ours is None or ours in (UUID(int=0), -1), path
    else:
        assert plain(ours) == plain(theirs), path


def test_ours_and_theirs_are_the_same_messages_and_versions() -> None:
    for name, by_version in kio_paths().items():
        assert list(versions_of(getattr(api, name))) == sorted(by_version), name
    assert len(kio_paths()) == 190


def test_defaults() -> None:
    """Where kio states one. It has no word for an array that is null by default and says `()`."""
    compared_count = 0
    for name, by_version in kio_paths().items():
        module = import_module(by_version[max(by_version)].partition(":")[0])
        for struct_name, struct_class in getattr(api, name).CLASSES.items():
            kio_class = getattr(module, struct_name, None)
            for field in fields(kio_class) if kio_class is not None else ():
                if field.default is MISSING:
                    continue
                ours = our_value(struct_class(), field.name)
                if field.default == ():
                    assert not ours, (name, struct_name, field.name)
                else:
                    assert_same(ours, field.default, f"{name}.{struct_name}.{field.name}")
                compared_count += 1
    assert compared_count > 300


@pytest.mark.parametrize("name", sorted(kio_paths()))
def test_both_directions(name: str) -> None:
    message_class = getattr(api, name)
    for version, path in kio_paths()[name].items():
        codec = codec_for(message_class, version)
        kio_class = resolve_name(path)
        read, write = entity_reader(kio_class), entity_writer(kio_class)
        for seed, richness in enumerate(RICHNESS):
            message = ValueMaker(seed, richness).message(message_class, version)
            encoded = codec.encode(message)

            entity, size = read(encoded, 0)
            assert size == len(encoded)
            assert_same(message, entity, f"{name} v{version}")

            written = io.BytesIO()
            write(written, entity)
            decoded, end = codec.decode(memoryview(written.getvalue()), 0)
            assert end == len(written.getvalue())
            assert decoded == message
            assert written.getvalue() == encoded
