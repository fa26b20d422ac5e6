"""What a capture is told: a YAML file, or the same by options of the command line. Checked before anything is opened."""

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from ottla.cdc.errors import CaptureError
from ottla.cdc.table import topic_name
from ottla.client.topics import BROKER_DEFAULT

_KEYS: Final = {
    "": ("name", "bootstrapServers", "prefix", "postgres", "topics", "kafka"),
    "postgres": ("dsn", "tables", "slot", "publication"),
    "topics": ("compacted", "partitions", "replicationFactor"),
}
_IDENTIFIER_LENGTH_MAX: Final = 63
_SLOT: Final = re.compile(r"[a-z0-9_]{1,63}")


class TableName(NamedTuple):
    schema: str
    table: str

    def __str__(self) -> str:
        return f"{self.schema}.{self.table}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureSettings:
    name: str
    """Of this capture: its position is kept under it, and no two may run under one name."""
    dsn: str
    tables: tuple[TableName, ...]
    prefix: str
    bootstrap_servers: str
    slot: str
    publication: str
    is_compacted: bool = False
    partition_count: int = BROKER_DEFAULT
    replication_factor: int = BROKER_DEFAULT
    client_options: Mapping[str, str] = field(default_factory=dict)

    @property
    def transactional_id(self) -> str:
        return f"cdc-{self.name}"

    @property
    def positions_topic(self) -> str:
        return topic_name(self.prefix, "offsets")

    @property
    def topics(self) -> list[str]:
        return [topic_name(self.prefix, *table) for table in self.tables]


def read_settings(path: Path) -> CaptureSettings:
    import yaml

    try:
        document = yaml.safe_load(path.read_text())
    except OSError as error:
        raise CaptureError(f"{path}: {error.strerror}") from error
    except yaml.YAMLError as error:
        raise CaptureError(f"{path} is not YAML: {error}") from error
    try:
        return settings_of(document)
    except CaptureError as error:
        raise CaptureError(f"{path}: {error}") from None


def settings_of(document: Any) -> CaptureSettings:
    top = _section(document, "")
    postgres = _section(top.get("postgres") or {}, "postgres")
    topics = _section(top.get("topics") or {}, "topics")
    name = _text(top, "name", "")
    default_identifier = re.sub(r"[^a-z0-9_]", "_", f"ottla_{name.lower()}")[:_IDENTIFIER_LENGTH_MAX]
    slot = _text(postgres, "slot", "postgres", default=default_identifier)
    if not _SLOT.fullmatch(slot):
        raise CaptureError(f"postgres.slot: {slot!r} may have small letters, digits and underscores, 63 at most")
    return CaptureSettings(
        name=name,
        dsn=_text(postgres, "dsn", "postgres"),
        tables=_tables(postgres.get("tables")),
        prefix=_text(top, "prefix", "", default=name),
        bootstrap_servers=_text(top, "bootstrapServers", ""),
        slot=slot,
        publication=_text(postgres, "publication", "postgres", default=default_identifier),
        is_compacted=_flag(topics, "compacted"),
        partition_count=_count(topics, "partitions"),
        replication_factor=_count(topics, "replicationFactor"),
        client_options={str(option): str(value) for option, value in (top.get("kafka") or {}).items()},
    )


def _section(found: Any, section: str) -> Mapping[str, Any]:
    if not isinstance(found, Mapping):
        raise CaptureError(f"{section or 'the file'} must have keys: {', '.join(_KEYS[section])}")
    for key in found:
        if key not in _KEYS[section]:
            near = difflib.get_close_matches(str(key), _KEYS[section], n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(_KEYS[section])}"
            raise CaptureError(f"{_path(section, key)} is not known: {hint}")
    return found


def _text(section: Mapping[str, Any], key: str, path: str, *, default: str | None = None) -> str:
    value = section.get(key, default)
    if not isinstance(value, str) or not value:
        raise CaptureError(f"{_path(path, key)} is missing, or is not text")
    return value


def _flag(section: Mapping[str, Any], key: str) -> bool:
    value = section.get(key, False)
    if not isinstance(value, bool):
        raise CaptureError(f"topics.{key}: {value!r} is neither true nor false")
    return value


def _count(section: Mapping[str, Any], key: str) -> int:
    value = section.get(key)
    if value is None:
        return BROKER_DEFAULT
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise CaptureError(f"topics.{key}: {value!r} is not a number from 1 on")
    return value


def _tables(found: Any) -> tuple[TableName, ...]:
    if not isinstance(found, Sequence) or isinstance(found, str) or not found:
        raise CaptureError("postgres.tables is missing: a list such as [public.orders, public.customers]")
    names = []
    for text in found:
        schema, dot, table = str(text).rpartition(".")
        if not table:
            raise CaptureError(f"postgres.tables: {text!r} is not SCHEMA.TABLE")
        names.append(TableName(schema if dot else "public", table))
    return tuple(dict.fromkeys(names))


def _path(section: str, key: str) -> str:
    return f"{section}.{key}" if section else key
