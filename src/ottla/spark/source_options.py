"""The options of a source, by the official connector's names.

Only what tunes Java's consumer is passed over: there is none here to tune.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Self

from ottla.base.types import Offset, TimestampMs, TopicPartition
from ottla.client.raw.security import Security
from ottla.spark.options import OptionError, Options, json_object, one_of, whole_number

EARLIEST: Final = "earliest"
LATEST: Final = "latest"
EARLIEST_OFFSET: Final = -2
LATEST_OFFSET: Final = -1
READ_COMMITTED: Final = "read_committed"
GROUP_PREFIX: Final = "group:"
TASK_BYTES_DEFAULT: Final = 128 << 20

COLUMNS: Final = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
ERROR_COLUMN: Final = "error"

_PASSED_OVER: Final = frozenset(
    {
        "groupidprefix",
        "kafkaconsumer.polltimeoutms",
        "fetchoffset.numretries",
        "fetchoffset.retryintervalms",
        "kafka.allow.auto.create.topics",
        "kafka.auto.commit.interval.ms",
        "kafka.check.crcs",
        "kafka.client.dns.lookup",
        "kafka.client.id",
        "kafka.client.rack",
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
        "kafka.retry.backoff.max.ms",
        "kafka.send.buffer.bytes",
        "kafka.socket.connection.setup.timeout.max.ms",
        "kafka.socket.connection.setup.timeout.ms",
        "kafka.session.timeout.ms",
    }
)
_UNIT_SECONDS: Final = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION: Final = re.compile(rf"(?P<number>\d+)\s*(?P<unit>{'|'.join(_UNIT_SECONDS)})?")
_NEEDS_REGISTRY: Final = frozenset({"avro", "protobuf"})


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
    security: Security
    topics: tuple[str, ...]
    topic_pattern: str
    assigned: tuple[TopicPartition, ...]
    starting: Bound
    ending: Bound
    unmatched_timestamp_is_latest: bool
    max_offsets_per_trigger: int | None
    max_bytes_per_trigger: int | None
    min_offsets_per_trigger: int | None
    max_trigger_delay_seconds: float
    min_partitions: int
    max_bytes_per_task: int
    fail_on_data_loss: bool
    include_headers: bool
    columns: tuple[str, ...]
    key_format: FieldFormat
    value_format: FieldFormat
    bad_records: BadRecords
    dead_letter_topic: str
    push_filters: bool
    group_id: str
    read_committed: bool
    timeout_seconds: float = 60.0

    @property
    def topic_names(self) -> frozenset[str]:
        """Those that are asked for by name; none with a pattern."""
        return frozenset(self.topics or (one.topic for one in self.assigned))

    @classmethod
    def parse(cls, given: Mapping[str, str], *, streaming: bool = False) -> Self:
        """A stream begins at the end unless told otherwise and has no end of its own, as with the official connector."""
        options = Options(given)
        columns = _columns(options)
        bad_records, dead_letter_topic = _bad_records(options)
        topics, topic_pattern, assigned = _subscription(options)
        strategy = options.choice("startingOffsetsByTimestampStrategy", ("error", LATEST), "error")
        isolation = options.choice("kafka.isolation.level", (READ_COMMITTED, "read_uncommitted"), READ_COMMITTED)
        parsed = cls(
            bootstrap_servers=options.bootstrap_servers(),
            security=options.security(),
            topics=topics,
            topic_pattern=topic_pattern,
            assigned=assigned,
            starting=_starting(options, streaming=streaming),
            ending=_ending(options, streaming=streaming),
            unmatched_timestamp_is_latest=strategy == LATEST,
            max_offsets_per_trigger=options.count("maxOffsetsPerTrigger", None),
            max_bytes_per_trigger=options.count("maxBytesPerTrigger", None),
            min_offsets_per_trigger=options.count("minOffsetsPerTrigger", None),
            max_trigger_delay_seconds=_seconds("maxTriggerDelay", options.text("maxTriggerDelay", "15m")),
            min_partitions=options.count("minPartitions", 1),
            max_bytes_per_task=options.count("maxBytesPerTask", TASK_BYTES_DEFAULT),
            fail_on_data_loss=options.flag("failOnDataLoss", default=True),
            include_headers=options.flag("includeHeaders", default=False) or "headers" in columns,
            columns=columns,
            key_format=_format(options, "key"),
            value_format=_format(options, "value"),
            bad_records=bad_records,
            dead_letter_topic=dead_letter_topic,
            push_filters=options.flag("pushFilters", default=False),
            group_id=options.text("kafka.group.id"),
            read_committed=isolation == READ_COMMITTED,
        )
        options.end(_PASSED_OVER)
        return parsed


# -- what is read ----------------------------------------------------------------------------------------------------


def _subscription(options: Options) -> tuple[tuple[str, ...], str, tuple[TopicPartition, ...]]:
    if sum(map(options.has, ("subscribe", "subscribePattern", "assign"))) != 1:
        raise OptionError("exactly one of the options subscribe, subscribePattern and assign is needed")
    topics, pattern = _names(options.text("subscribe")), options.text("subscribePattern")
    assigned = _assigned(options.text("assign", "{}"))
    if not (topics or pattern or assigned):
        raise OptionError("subscribe, subscribePattern or assign names no topic: nothing would be read")
    try:
        re.compile(pattern)
    except re.error as error:
        raise OptionError(f"subscribePattern={pattern} is not a regular expression: {error}") from None
    return topics, pattern, assigned


def _assigned(text: str) -> tuple[TopicPartition, ...]:
    assigned: list[TopicPartition] = []
    for topic, indexes in json_object("assign", text).items():
        if not isinstance(indexes, list) or not all(type(index) is int and index >= 0 for index in indexes):
            raise OptionError(f'assign: {{"{topic}": [0, 1]}} is the form')
        assigned += [TopicPartition(topic, index) for index in indexes]
    return tuple(assigned)


def _starting(options: Options, *, streaming: bool) -> Bound:
    starting = _bound(options, "starting", LATEST if streaming else EARLIEST)
    if not streaming and (starting.rule == LATEST or LATEST_OFFSET in starting.offsets.values()):
        raise OptionError("startingOffsets cannot be latest in a batch read: nothing is behind the end")
    return starting


def _ending(options: Options, *, streaming: bool) -> Bound:
    for name in ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"):
        if streaming and options.has(name):
            raise OptionError(f"{name} is for batch reads: a stream has no end")
    ending = _bound(options, "ending", LATEST)
    if ending.rule not in (LATEST, ""):
        raise OptionError(f"endingOffsets cannot be {ending.rule}")
    if EARLIEST_OFFSET in ending.offsets.values():
        raise OptionError(f"endingOffsets cannot be {EARLIEST} ({EARLIEST_OFFSET})")
    return ending


def _bound(options: Options, side: str, default: str) -> Bound:
    rule = options.text(f"{side}Offsets", default)
    each_timestamp = options.text(f"{side}OffsetsByTimestamp")
    timestamp = options.text(f"{side}Timestamp")
    # The order in which the official connector lets one win over the other.
    if timestamp:
        return Bound(timestamp_ms=_at_least(f"{side}Timestamp", whole_number(f"{side}Timestamp", timestamp), 0))
    if each_timestamp:
        return Bound(timestamps_ms=_by_partition(f"{side}OffsetsByTimestamp", each_timestamp, 0))
    if rule.lower() in (EARLIEST, LATEST):
        return Bound(rule=rule.lower())
    if rule.startswith(GROUP_PREFIX) and rule != GROUP_PREFIX:
        return Bound(rule=rule)
    if not rule.lstrip().startswith("{"):
        raise OptionError(f"{side}Offsets={rule}: earliest, latest, group:<name>, or JSON with an offset per partition")
    return Bound(offsets=_by_partition(f"{side}Offsets", rule, EARLIEST_OFFSET))


def _at_least(name: str, number: int, minimum: int) -> int:
    if number < minimum:
        raise OptionError(f"{name}: {number} is less than {minimum}")
    return number


def _by_partition(name: str, text: str, minimum: int) -> dict[TopicPartition, int]:
    found: dict[TopicPartition, int] = {}
    for topic, numbers in json_object(name, text).items():
        if not isinstance(numbers, dict):
            raise OptionError(f'{name}: {{"{topic}": {{"0": 23}}}} is the form')
        for index, number in numbers.items():
            place = TopicPartition(topic, whole_number(name, index))
            found[place] = _at_least(name, whole_number(name, str(number)), minimum)
    if not found:
        raise OptionError(f"{name} names no partition")
    return found


# -- what becomes of it ----------------------------------------------------------------------------------------------


def _columns(options: Options) -> tuple[str, ...]:
    columns = tuple(one_of("columns", name, COLUMNS) for name in _names(options.text("columns")))
    if len(set(columns)) < len(columns):
        raise OptionError("columns names one of them twice")
    return columns


def _format(options: Options, side: str) -> FieldFormat:
    name = f"{side}Format"
    text = options.text(name, Format.BINARY)
    if text.lower() in _NEEDS_REGISTRY:
        raise OptionError(f"{name}={text} comes with the schema registry, which is not there yet: use json")
    kind = Format(one_of(name, text, tuple(Format)))
    schema = options.text(f"{side}Schema")
    if schema and kind is not Format.JSON:
        raise OptionError(f"{side}Schema is the schema of JSON: set {name}=json")
    return FieldFormat(kind=kind, schema=schema)


def _bad_records(options: Options) -> tuple[BadRecords, str]:
    choice = BadRecords(options.choice("badRecords", tuple(BadRecords), BadRecords.FAIL))
    topic = options.text("deadLetterTopic")
    if bool(topic) != (choice is BadRecords.DEAD_LETTER):
        raise OptionError("badRecords=deadLetter and deadLetterTopic=<topic> need each other")
    return choice, topic


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _seconds(name: str, text: str) -> float:
    """`15m`, `500ms`, `30s`, `2h`: Spark's short forms; a number alone is milliseconds."""
    match = _DURATION.fullmatch(text.strip().lower())
    if match is None:
        raise OptionError(f"{name}={text}: a number with {', '.join(_UNIT_SECONDS)}")
    return int(match["number"]) * _UNIT_SECONDS[match["unit"] or "ms"]
