"""The options of a sink, by the official connector's names; keys are read without regard to case, as Spark does.

As in `source_options`, an unknown option is refused. What only tunes Java's producer is passed over; what would weaken
the guarantees (acks=1, no idempotence) is refused with the reason.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Self

from ottla.spark.source_options import OptionError
from ottla.wire.compression import Codec

BATCH_BYTES_DEFAULT: Final = 1_000_000  # A broker takes 1,048,588 by default (message.max.bytes).
CLIENT_ID_DEFAULT: Final = "ottla-spark-sink"

_IGNORED: Final = frozenset(
    {
        "checkpointlocation",
        "queryname",
        "kafka.batch.size",
        "kafka.buffer.memory",
        "kafka.client.dns.lookup",
        "kafka.connections.max.idle.ms",
        "kafka.linger.ms",
        "kafka.max.in.flight.requests.per.connection",
        "kafka.metadata.max.age.ms",
        "kafka.receive.buffer.bytes",
        "kafka.reconnect.backoff.max.ms",
        "kafka.reconnect.backoff.ms",
        "kafka.retries",
        "kafka.retry.backoff.max.ms",
        "kafka.retry.backoff.ms",
        "kafka.send.buffer.bytes",
    }
)


class Guarantee(StrEnum):
    AT_LEAST_ONCE = "atLeastOnce"
    EXACTLY_ONCE = "exactlyOnce"


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    bootstrap_servers: str
    topic: str = ""
    """Where all rows go; empty where each row names its own."""
    guarantee: Guarantee = Guarantee.AT_LEAST_ONCE
    codec: Codec = Codec.NONE
    batch_bytes_max: int = BATCH_BYTES_DEFAULT
    client_id: str = CLIENT_ID_DEFAULT
    max_block_ms: int = 60_000
    request_timeout_ms: int = 30_000
    delivery_timeout_ms: int = 120_000
    transaction_timeout_ms: int = 900_000
    """What a broker allows at most unless told otherwise. Not asked of one that has two-phase commit."""

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> Self:
        fields: dict[str, Any] = {}
        unknown: list[str] = []
        for key, value in options.items():
            if key.lower() in _READERS:
                name, read = _READERS[key.lower()]
                fields[name] = read(key, value)
            elif key.lower() in _CHECKS:
                _CHECKS[key.lower()](key, value)
            elif key.lower() not in _IGNORED:
                unknown.append(key.lower())
        if unknown:
            raise OptionError(f"unknown options: {', '.join(sorted(unknown))}")
        if not fields.get("bootstrap_servers"):
            name = "kafka.bootstrap.servers"
            raise OptionError(f"the option {name} is missing: .option({name!r}, 'host:port')")
        return cls(**fields)


def refuse_in_batch(options: SinkOptions, *, overwrite: bool) -> None:
    """What only a streaming query can have."""
    if overwrite:
        raise OptionError("a topic cannot be overwritten: use mode('append')")
    if options.guarantee is Guarantee.EXACTLY_ONCE:
        raise OptionError(
            "guarantee=exactlyOnce needs a streaming query, whose checkpoint tells what was written already: use "
            "writeStream with trigger(availableNow=True), or guarantee=atLeastOnce"
        )


def _text(key: str, value: str) -> str:
    return value


def _count(key: str, value: str) -> int:
    if not value.isdigit() or int(value) == 0:
        raise OptionError(f"{key}={value}: a positive whole number is needed")
    return int(value)


def _batch_bytes(key: str, value: str) -> int:
    """A bound for Java's producer, so a larger one does not ask for larger batches."""
    return min(_count(key, value), BATCH_BYTES_DEFAULT)


def _guarantee(key: str, value: str) -> Guarantee:
    for guarantee in Guarantee:
        if guarantee.lower() == value.replace("-", "").lower():
            return guarantee
    raise OptionError(f"{key}={value}: one of {', '.join(Guarantee)}")


def _codec(key: str, value: str) -> Codec:
    names = {codec.name.lower(): codec for codec in Codec}
    if value.lower() not in names:
        raise OptionError(f"{key}={value}: one of {', '.join(names)}")
    return names[value.lower()]


def _check_one_of(*allowed: str, because: str) -> Callable[[str, str], None]:
    def check(key: str, value: str) -> None:
        if value.lower() not in allowed:
            raise OptionError(f"{key}={value}: only {' or '.join(allowed)}, {because}")

    return check


_READERS: Final[dict[str, tuple[str, Callable[[str, str], Any]]]] = {
    "kafka.bootstrap.servers": ("bootstrap_servers", _text),
    "topic": ("topic", _text),
    "guarantee": ("guarantee", _guarantee),
    "deliveryguarantee": ("guarantee", _guarantee),
    "kafka.compression.type": ("codec", _codec),
    "kafka.max.request.size": ("batch_bytes_max", _batch_bytes),
    "kafka.client.id": ("client_id", _text),
    "kafka.max.block.ms": ("max_block_ms", _count),
    "kafka.request.timeout.ms": ("request_timeout_ms", _count),
    "kafka.delivery.timeout.ms": ("delivery_timeout_ms", _count),
    "kafka.transaction.timeout.ms": ("transaction_timeout_ms", _count),
}
_CHECKS: Final[dict[str, Callable[[str, str], None]]] = {
    "kafka.acks": _check_one_of("all", "-1", because="or what is acknowledged could be lost"),
    "kafka.enable.idempotence": _check_one_of("true", because="or a repeated request would write its rows twice"),
    "kafka.security.protocol": _check_one_of("plaintext", because="as yet nothing else is spoken here"),
}
