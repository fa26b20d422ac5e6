"""Kafka's option names and defaults, whichever names and defaults librdkafka has.

One table row per option: its name in librdkafka (or none, where the SDK itself honours it), Kafka's default, and how
a value is rewritten. Options given as keyword arguments use underscores (`batch_size=`), in a mapping Kafka's dots.
What is in no table goes to librdkafka as it is; what librdkafka does not know either is refused with the nearest name.

The defaults are those of Kafka 4.3, with three of our own: `enable.auto.commit` is false (commit what is processed),
`partition.assignment.strategy` is cooperative (librdkafka cannot offer both families at once), and records
without a key stay on a partition for about a batch.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, TypeVar

from confluent_kafka import KafkaException, libversion

from ottla.client.errors import ConfigError, ErrorLog
from ottla.client.refusals import refusal_text
from ottla.client.text import c_text

ACKS_ALL: Final = "all"
IN_FLIGHT_WITH_IDEMPOTENCE_MAX: Final = 5  # A broker remembers that many batches of a producer and partition.
REBOOTSTRAPS_FROM: Final = 0x020A0000  # librdkafka 2.10 (KIP-899); older ones do not know the option.
MOCK_CLUSTER: Final = "test.mock.num.brokers"  # librdkafka's in-process brokers: the one case without an address.
# Names that are spelt with an underscore in librdkafka or confluent-kafka, too; most are callbacks.
UNDERSCORED: Final = frozenset({"error_cb", "stats_cb", "throttle_cb", "oauth_cb", "on_commit", "logger", "log_level"})
# librdkafka writes its log to stderr; what matters comes through `ErrorLog`. A log callback would be called inside of
# poll(), where an interrupt then gets lost (SystemError instead of KeyboardInterrupt).
LOG_CRITICAL: Final = 2

T = TypeVar("T")


class ClientKind(Enum):
    PRODUCER = "producer"
    CONSUMER = "consumer"
    ADMIN = "admin"

    @property
    def with_article(self) -> str:
        return f"an {self.value}" if self is ClientKind.ADMIN else f"a {self.value}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The options of one client, complete: what librdkafka is given, and what the SDK does itself."""

    kind: ClientKind
    kafka: Mapping[str, object]  # by Kafka's names, defaults included
    librdkafka: Mapping[str, object]

    def integer(self, name: str) -> int:
        return as_integer(name, self.kafka[name])

    def with_options(self, **options: object) -> "Settings":
        changed = {dotted(name): value for name, value in options.items()}
        return settings(self.kind, {**self.kafka, **changed})


@dataclass(frozen=True, slots=True)
class Option:
    default: object = None  # None: librdkafka's own default is Kafka's, or there is none
    librdkafka: str | None = ""  # "" the same name, None not librdkafka's business
    convert: Callable[[str, Any], object] | None = None


def dotted(name: str) -> str:
    return name if name in UNDERSCORED else name.replace("_", ".")


def as_integer(name: str, value: object) -> int:
    try:
        return int(str(value))
    except ValueError:
        raise ConfigError(f"{name}={value!r} is not a whole number") from None


def as_list(name: str, value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def bytes_as_kilobytes(name: str, value: object) -> int:
    return max(1, as_integer(name, value) // 1024)


def at_least_one(name: str, value: object) -> int:
    return max(1, as_integer(name, value))


def as_acks(name: str, value: object) -> str:
    acks = {"0": "0", "1": "1", "-1": ACKS_ALL, "all": ACKS_ALL}.get(str(value))
    if acks is None:
        raise ConfigError(
            f"{name}={value!r}: give 0 (nobody confirms), 1 (the leader) or 'all' (every in-sync replica)"
        )
    return acks


def as_offset_reset(name: str, value: object) -> str:
    reset = {"earliest": "earliest", "latest": "latest", "none": "error"}.get(str(value))
    if reset is None:
        raise ConfigError(f"{name}={value!r}: give earliest, latest or none")
    return reset


ASSIGNORS: Final = {
    "RangeAssignor": "range",
    "RoundRobinAssignor": "roundrobin",
    "CooperativeStickyAssignor": "cooperative-sticky",
}


def as_assignors(name: str, value: object) -> str:
    given = [part.strip().rpartition(".")[2] for part in as_list(name, value).split(",")]
    chosen = [ASSIGNORS.get(part, part) for part in given]
    unknown = [part for part in chosen if part not in ASSIGNORS.values()]
    if unknown:
        raise ConfigError(f"{name}: {unknown[0]!r} is not known; there are {', '.join(ASSIGNORS)}")
    if "cooperative-sticky" in chosen and len(chosen) > 1:
        raise ConfigError(f"{name}={value!r}: a member rebalances either eagerly or cooperatively; name one family")
    return ",".join(chosen)


COMMON: Final = {
    "bootstrap.servers": Option(convert=as_list),
    "client.id": Option("ottla"),
    "client.rack": Option(),
    "client.dns.lookup": Option(),
    "request.timeout.ms": Option(),
    "default.api.timeout.ms": Option(60_000, librdkafka=None),
    "metadata.max.age.ms": Option(300_000),
    "connections.max.idle.ms": Option(540_000),
    "reconnect.backoff.ms": Option(50),
    "reconnect.backoff.max.ms": Option(1_000),
    "retry.backoff.ms": Option(100),
    "retry.backoff.max.ms": Option(1_000),
    "send.buffer.bytes": Option(librdkafka="socket.send.buffer.bytes"),
    "receive.buffer.bytes": Option(librdkafka="socket.receive.buffer.bytes"),
    "socket.connection.setup.timeout.ms": Option(),
    "security.protocol": Option(),
    "sasl.mechanism": Option(),
    "sasl.username": Option(),
    "sasl.password": Option(),
    "ssl.ca.location": Option(),
    "ssl.certificate.location": Option(),
    "ssl.key.location": Option(),
}

PRODUCER: Final = COMMON | {
    "acks": Option(ACKS_ALL, convert=as_acks),
    "batch.size": Option(16_384, convert=at_least_one),
    "linger.ms": Option(5),
    "compression.type": Option("none"),
    "compression.gzip.level": Option(librdkafka="compression.level"),
    "compression.lz4.level": Option(librdkafka="compression.level"),
    "compression.zstd.level": Option(librdkafka="compression.level"),
    "buffer.memory": Option(33_554_432, "queue.buffering.max.kbytes", bytes_as_kilobytes),
    "enable.idempotence": Option(True),
    "transactional.id": Option(),
    "transaction.timeout.ms": Option(60_000),
    "retries": Option(2_147_483_647),
    "max.in.flight.requests.per.connection": Option(IN_FLIGHT_WITH_IDEMPOTENCE_MAX),
    "delivery.timeout.ms": Option(120_000),
    "request.timeout.ms": Option(30_000),
    "max.request.size": Option(1_048_576, "message.max.bytes"),
    "max.block.ms": Option(60_000, librdkafka=None),
    "partitioner": Option("murmur2_random"),
}

CONSUMER: Final = COMMON | {
    "group.id": Option(),
    "group.instance.id": Option(),
    "group.protocol": Option(),
    "group.remote.assignor": Option(),
    "session.timeout.ms": Option(45_000),
    "heartbeat.interval.ms": Option(3_000),
    "max.poll.interval.ms": Option(300_000),
    "max.poll.records": Option(500, librdkafka=None),
    "fetch.min.bytes": Option(1),
    "fetch.max.bytes": Option(52_428_800),
    "fetch.max.wait.ms": Option(500, "fetch.wait.max.ms"),
    "max.partition.fetch.bytes": Option(1_048_576),
    "partition.assignment.strategy": Option("cooperative-sticky", convert=as_assignors),
    "isolation.level": Option("read_uncommitted"),
    "enable.auto.commit": Option(False),
    "auto.commit.interval.ms": Option(5_000),
    "auto.offset.reset": Option("latest", convert=as_offset_reset),
    "allow.auto.create.topics": Option(True),
    "check.crcs": Option(True),
}

TABLES: Final = {ClientKind.PRODUCER: PRODUCER, ClientKind.CONSUMER: CONSUMER, ClientKind.ADMIN: COMMON}


def settings(kind: ClientKind, config: Mapping[str, object] | None, /, **options: object) -> Settings:
    """Options of a mapping and of keyword arguments (these win) over the defaults; contradictions are refused."""
    given = dict(config or {}) | {dotted(name): value for name, value in options.items()}
    given = {name: value for name, value in given.items() if value is not None}
    table = TABLES[kind]
    for name, value in given.items():
        refuse_what_is_no_text(name, value)
        refuse_of_other_kind(kind, name)
    if not given.get("bootstrap.servers") and MOCK_CLUSTER not in given:
        raise ConfigError(f"{kind.with_article} needs bootstrap.servers, such as bootstrap_servers='localhost:9092'")
    kafka = {name: option.default for name, option in table.items() if option.default is not None} | given
    if kind is ClientKind.PRODUCER:
        settle_producer(kafka, given)
    elif kind is ClientKind.CONSUMER:
        settle_consumer(kafka)
    return Settings(kind=kind, kafka=kafka, librdkafka=translated(table, kafka))


def other_owner(kind: ClientKind, name: str) -> ClientKind | None:
    """The kind of client that an option belongs to, where that is not this one."""
    owners = [other for other, table in TABLES.items() if name in table]
    return owners[0] if owners and kind not in owners else None


def refuse_of_other_kind(kind: ClientKind, name: str) -> None:
    owner = other_owner(kind, name)
    if owner is not None:
        raise ConfigError(f"{name} is an option of {owner.with_article}, this is {kind.with_article}")


def refuse_what_is_no_text(name: str, value: object) -> None:
    try:
        c_text(name, "the option")
        c_text(str(value), name)
    except ValueError as error:
        raise ConfigError(str(error)) from None


def settle_producer(kafka: dict[str, object], given: Mapping[str, object]) -> None:
    """Idempotence is on unless what was asked for rules it out; asked for together, the two are refused."""
    if "transactional.id" in kafka and libversion()[1] >= REBOOTSTRAPS_FROM:
        # With its default librdkafka 2.16 stands still in send_offsets_to_transaction() after all brokers were away at once.
        kafka.setdefault("metadata.recovery.strategy", "none")
    kafka["acks"] = as_acks("acks", kafka["acks"])
    obstacles = [
        (kafka["acks"] != ACKS_ALL, f"acks={kafka['acks']}"),
        (str(kafka["retries"]) == "0", "retries=0"),
        (
            as_integer("max.in.flight…", kafka["max.in.flight.requests.per.connection"])
            > IN_FLIGHT_WITH_IDEMPOTENCE_MAX,
            "more than five requests in flight",
        ),
    ]
    found = [text for is_one, text in obstacles if is_one]
    if found and (is_true(given.get("enable.idempotence")) or "transactional.id" in given):
        raise ConfigError(f"{found[0]} rules out enable.idempotence and transactional.id: drop one of them")
    if found:
        kafka["enable.idempotence"] = False
    if "transactional.id" in given and "delivery.timeout.ms" not in given:
        # librdkafka refuses a delivery that outlives its transaction; left alone, it derives the one from the other.
        del kafka["delivery.timeout.ms"]


def settle_consumer(kafka: dict[str, object]) -> None:
    # The SDK stores positions itself, once poll() is called again: only then are the records before it processed.
    kafka["enable.auto.offset.store"] = False
    if kafka.get("group.protocol") == "consumer":
        # KIP-848: the coordinator assigns and decides on these; librdkafka refuses them from a member.
        for name in ("partition.assignment.strategy", "session.timeout.ms", "heartbeat.interval.ms"):
            kafka.pop(name, None)


def is_true(value: object) -> bool:
    return value is True or str(value).lower() == "true"


def translated(table: Mapping[str, Option], kafka: Mapping[str, object]) -> dict[str, object]:
    result: dict[str, object] = {}
    for name, value in kafka.items():
        option = table.get(name, Option())
        if option.librdkafka is None:
            continue
        converted = option.convert(name, value) if option.convert else value
        result[option.librdkafka or name] = str(converted).lower() if isinstance(converted, bool) else converted
    return result


def opened(factory: Callable[[dict[str, Any]], T], chosen: Settings, /, **defaults: object) -> T:
    """librdkafka's client of these settings; what it refuses is told by Kafka's name."""
    try:
        return factory({"log_level": LOG_CRITICAL, "error_cb": ErrorLog().hear, **defaults, **chosen.librdkafka})
    except KafkaException as error:
        text = refusal_text(
            error.args[0].str(), client=chosen.kind.with_article, values=chosen.kafka, known=TABLES[chosen.kind]
        )
        raise ConfigError(text) from None
