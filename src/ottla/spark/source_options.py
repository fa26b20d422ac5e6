"""The options of a source, by the official connector's names; keys are read without regard to case, as Spark does.

An unknown or contradictory option is refused with the reason before anything is read: a misspelled limit that is
silently ignored is found in production. Only what tunes Java's consumer is passed over: there is none here to tune.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Self

from ottla.base.types import Offset, TimestampMs, TopicPartition

EARLIEST: Final = "earliest"
LATEST: Final = "latest"
GROUP_PREFIX: Final = "group:"
TASK_BYTES_DEFAULT: Final = 128 << 20

COLUMNS: Final = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
ERROR_COLUMN: Final = "error"

_IGNORED: Final = frozenset(
    {
        "groupidprefix",
        "kafkaconsumer.polltimeoutms",
        "fetchoffset.numretries",
        "fetchoffset.retryintervalms",
        "kafka.client.dns.lookup",
        "kafka.client.id",
        "kafka.connections.max.idle.ms",
        "kafka.default.api.timeout.ms",
        "kafka.fetch.max.bytes",
        "kafka.fetch.max.wait.ms",
        "kafka.fetch.min.bytes",
        "kafka.heartbeat.interval.ms",
        "kafka.max.partition.fetch.bytes",
        "kafka.max.poll.interval.ms",
        "kafka.max.poll.records",
        "kafka.metadata.max.age.ms",
        "kafka.receive.buffer.bytes",
        "kafka.reconnect.backoff.max.ms",
        "kafka.reconnect.backoff.ms",
        "kafka.request.timeout.ms",
        "kafka.retry.backoff.ms",
        "kafka.send.buffer.bytes",
        "kafka.session.timeout.ms",
    }
)
_NEEDS_REGISTRY: Final = frozenset({"avro", "protobuf"})
_TRUE: Final = frozenset({"true", "1"})
_FALSE: Final = frozenset({"false", "0"})


class OptionError(ValueError):
    """An option that is unknown, malformed, or contradicts another."""


class Format(StrEnum):
    """What the bytes of a key or value are read as."""

    BINARY = "binary"
    STRING = "string"
    JSON = "json"


class BadRecords(StrEnum):
    """What becomes of a record whose key or value is not what its format says."""

    FAIL = "fail"
    COLUMN = "column"
    DEAD_LETTER = "deadLetter"


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldFormat:
    kind: Format = Format.BINARY
    schema: str = ""
    """Spark DDL, only with JSON; empty where the query names it with `.schema(…)`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """Where reading begins or ends: one rule for all partitions, or an offset or timestamp for each."""

    rule: str = ""
    """`earliest`, `latest`, or `group:<name>`."""
    offsets: Mapping[TopicPartition, Offset] = field(default_factory=dict)
    """-2 is earliest, -1 latest."""
    timestamp_ms: TimestampMs | None = None
    timestamps_ms: Mapping[TopicPartition, TimestampMs] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    bootstrap_servers: str
    topics: tuple[str, ...] = ()
    topic_pattern: str = ""
    assigned: tuple[TopicPartition, ...] = ()
    starting: Bound
    ending: Bound
    unmatched_timestamp_is_latest: bool = False
    max_offsets_per_trigger: int | None = None
    max_bytes_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_seconds: float = 900.0
    min_partitions: int = 1
    max_bytes_per_task: int = TASK_BYTES_DEFAULT
    fail_on_data_loss: bool = True
    include_headers: bool = False
    columns: tuple[str, ...] = ()
    key_format: FieldFormat = field(default_factory=FieldFormat)
    value_format: FieldFormat = field(default_factory=FieldFormat)
    bad_records: BadRecords = BadRecords.FAIL
    dead_letter_topic: str = ""
    push_filters: bool = False
    group_id: str = ""
    read_committed: bool = True
    timeout_seconds: float = 60.0

    @classmethod
    def parse(cls, options: Mapping[str, str], *, streaming: bool = False) -> Self:
        """A stream begins at the end unless told otherwise and has no end of its own, as with the official connector."""
        lowered = {key.lower(): value for key, value in options.items()}
        if streaming:
            lowered = {"startingoffsets": LATEST, **lowered}
            endings = sorted(key for key in lowered if key.startswith("ending"))
            if endings:
                raise OptionError(f"{endings[0]} is for batch reads: a stream has no end")
        return cls(**_Parser(lowered).parsed())


class _Parser:
    """Takes option after option out of the mapping; what is left is unknown."""

    def __init__(self, options: dict[str, str]) -> None:
        self._options = options

    def parsed(self) -> dict[str, Any]:
        fields = {
            "bootstrap_servers": self._required("kafka.bootstrap.servers"),
            **self._subscription(),
            **self._bounds(),
            **self._limits(),
            **self._shape(),
            **self._bad_records(),
            "fail_on_data_loss": self._flag("failondataloss", default=True),
            "push_filters": self._flag("pushfilters", default=False),
            "group_id": self._take("kafka.group.id") or "",
            "read_committed": self._choice(
                "kafka.isolation.level", "read_committed", ("read_committed", "read_uncommitted")
            )
            == "read_committed",
        }
        self._check_security()
        self._check_rest()
        return fields

    def _take(self, key: str) -> str | None:
        return self._options.pop(key, None)

    def _required(self, key: str) -> str:
        value = self._take(key)
        if not value:
            raise OptionError(f"the option {key} is missing: .option({key!r}, 'host:port')")
        return value

    # -- what is read ------------------------------------------------------------------------------------------------

    def _subscription(self) -> dict[str, Any]:
        topics, pattern, assigned = (self._take(key) for key in ("subscribe", "subscribepattern", "assign"))
        if sum(value is not None for value in (topics, pattern, assigned)) != 1:
            raise OptionError("exactly one of the options subscribe, subscribePattern and assign is needed")
        partitions = [
            TopicPartition(topic, int(index))
            for topic, indexes in _json_object("assign", assigned or "{}").items()
            for index in indexes
        ]
        return {
            "topics": tuple(_names(topics or "")),
            "topic_pattern": pattern or "",
            "assigned": tuple(partitions),
        }

    def _bounds(self) -> dict[str, Any]:
        strategy = self._choice("startingoffsetsbytimestampstrategy", "error", ("error", "latest"))
        return {
            "starting": self._bound("starting"),
            "ending": self._bound("ending"),
            "unmatched_timestamp_is_latest": strategy == "latest",
        }

    def _bound(self, side: str) -> Bound:
        rule = EARLIEST if side == "starting" else LATEST
        text = self._take(f"{side}offsets")
        each_timestamp = self._take(f"{side}offsetsbytimestamp")
        timestamp = self._take(f"{side}timestamp")
        # The order in which the official connector lets one win over the other.
        if timestamp is not None:
            return Bound(timestamp_ms=_integer(f"{side}Timestamp", timestamp))
        if each_timestamp is not None:
            return Bound(timestamps_ms=_by_partition(f"{side}OffsetsByTimestamp", each_timestamp))
        if text is None:
            return Bound(rule=rule)
        if text.lower() in (EARLIEST, LATEST):
            if side == "ending" and text.lower() == EARLIEST:
                raise OptionError("endingOffsets cannot be earliest")
            return Bound(rule=text.lower())
        if text.startswith(GROUP_PREFIX) and side == "starting":
            return Bound(rule=text)
        return Bound(offsets=_by_partition(f"{side}Offsets", text))

    def _limits(self) -> dict[str, Any]:
        return {
            "max_offsets_per_trigger": self._count("maxoffsetspertrigger"),
            "max_bytes_per_trigger": self._count("maxbytespertrigger"),
            "min_offsets_per_trigger": self._count("minoffsetspertrigger"),
            "max_trigger_delay_seconds": _seconds(self._take("maxtriggerdelay") or "15m"),
            "min_partitions": self._count("minpartitions") or 1,
            "max_bytes_per_task": self._count("maxbytespertask") or TASK_BYTES_DEFAULT,
        }

    # -- what becomes of it ------------------------------------------------------------------------------------------

    def _shape(self) -> dict[str, Any]:
        columns = tuple(_names(self._take("columns") or ""))
        for name in columns:
            if name not in COLUMNS:
                raise OptionError(f"columns: there is no column {name}, only {', '.join(COLUMNS)}")
        return {
            "columns": columns,
            "include_headers": self._flag("includeheaders", default=False) or "headers" in columns,
            "key_format": self._format("key"),
            "value_format": self._format("value"),
        }

    def _format(self, side: str) -> FieldFormat:
        name = (self._take(f"{side}format") or Format.BINARY).lower()
        schema = self._take(f"{side}schema") or ""
        if name in _NEEDS_REGISTRY:
            raise OptionError(f"{side}Format={name} comes with the schema registry, which is not there yet: use json")
        if name not in set(Format):
            raise OptionError(f"{side}Format={name}: one of {', '.join(Format)}")
        if schema and name != Format.JSON:
            raise OptionError(f"{side}Schema is the schema of JSON: set {side}Format=json")
        return FieldFormat(kind=Format(name), schema=schema)

    def _bad_records(self) -> dict[str, Any]:
        choice = BadRecords(self._choice("badrecords", BadRecords.FAIL, tuple(BadRecords)))
        topic = self._take("deadlettertopic") or ""
        if bool(topic) != (choice is BadRecords.DEAD_LETTER):
            raise OptionError("badRecords=deadLetter and deadLetterTopic=<topic> need each other")
        return {"bad_records": choice, "dead_letter_topic": topic}

    # -- kinds of values ---------------------------------------------------------------------------------------------

    def _count(self, key: str) -> int | None:
        text = self._take(key)
        if text is None:
            return None
        number = _integer(key, text)
        if number <= 0:
            raise OptionError(f"{key}={text}: a positive number is needed")
        return number

    def _flag(self, key: str, *, default: bool) -> bool:
        text = (self._take(key) or str(default)).lower()
        if text not in _TRUE | _FALSE:
            raise OptionError(f"{key}={text}: true or false")
        return text in _TRUE

    def _choice(self, key: str, default: str, choices: tuple[str, ...]) -> str:
        value = self._take(key) or default
        if value not in choices:
            raise OptionError(f"{key}={value}: one of {', '.join(choices)}")
        return value

    def _check_security(self) -> None:
        protocol = self._take("kafka.security.protocol") or "PLAINTEXT"
        if protocol.upper() != "PLAINTEXT":
            raise OptionError(f"kafka.security.protocol={protocol}: only PLAINTEXT listeners can be read as yet")

    def _check_rest(self) -> None:
        unknown = [key for key in self._options if key not in _IGNORED]
        if unknown:
            raise OptionError(f"unknown options: {', '.join(sorted(unknown))}")


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _integer(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise OptionError(f"{name}={text} is not a whole number") from None


def _json_object(name: str, text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise OptionError(f"{name} is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise OptionError(f"{name} is not a JSON object")
    return value


def _by_partition(name: str, text: str) -> dict[TopicPartition, int]:
    found: dict[TopicPartition, int] = {}
    for topic, numbers in _json_object(name, text).items():
        if not isinstance(numbers, dict):
            raise OptionError(f'{name}: {{"{topic}": {{"0": 23}}}} is the form')
        for index, number in numbers.items():
            found[TopicPartition(topic, _integer(name, index))] = _integer(name, str(number))
    return found


def _seconds(text: str) -> float:
    """`15m`, `500ms`, `30s`, `2h`: Spark's short forms."""
    units = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
    for unit in sorted(units, key=len, reverse=True):
        number = text.removesuffix(unit)
        if number != text and number.strip().isdigit():
            return int(number) * units[unit]
    raise OptionError(f"maxTriggerDelay={text}: a number with ms, s, m or h")
