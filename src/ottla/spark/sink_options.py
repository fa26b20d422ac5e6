"""The options of a sink, by the official connector's names.

What only tunes Java's producer is passed over; what would weaken the guarantees (acks=1, no idempotence) is refused with
the reason.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Self

from ottla.client.raw.security import Security
from ottla.spark.options import OptionError, Options, one_of
from ottla.wire.compression import Codec

BATCH_BYTES_DEFAULT: Final = 1_000_000  # A broker takes 1,048,588 by default (message.max.bytes).

_CODECS: Final = {codec.name.lower(): codec for codec in Codec}

_PASSED_OVER: Final = frozenset(
    {
        "checkpointlocation",
        "queryname",
        "kafka.batch.size",
        "kafka.buffer.memory",
        "kafka.client.dns.lookup",
        "kafka.compression.gzip.level",
        "kafka.compression.lz4.level",
        "kafka.compression.zstd.level",
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
        "kafka.socket.connection.setup.timeout.max.ms",
        "kafka.socket.connection.setup.timeout.ms",
    }
)


class Guarantee(StrEnum):
    AT_LEAST_ONCE = "atLeastOnce"
    EXACTLY_ONCE = "exactlyOnce"


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    bootstrap_servers: str
    security: Security
    topic: str
    """Where all rows go; empty where each row names its own."""
    guarantee: Guarantee
    codec: Codec
    batch_bytes_max: int
    client_id: str
    max_block_ms: int
    request_timeout_ms: int
    delivery_timeout_ms: int
    transaction_timeout_ms: int
    """What a broker allows at most unless told otherwise. Not asked of one that has two-phase commit."""

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> Self:
        options = Options(given)
        guarantee = options.text("guarantee", Guarantee.AT_LEAST_ONCE).replace("-", "")  # As pipelines write it.
        parsed = cls(
            bootstrap_servers=options.bootstrap_servers(),
            security=options.security(),
            topic=options.text("topic"),
            guarantee=Guarantee(one_of("guarantee", guarantee, tuple(Guarantee))),
            codec=_CODECS[options.choice("kafka.compression.type", _CODECS, "none")],
            # A bound for Java's producer, so a larger one does not ask for larger batches.
            batch_bytes_max=min(options.count("kafka.max.request.size", BATCH_BYTES_DEFAULT), BATCH_BYTES_DEFAULT),
            client_id=options.text("kafka.client.id", "ottla-spark-sink"),
            max_block_ms=options.count("kafka.max.block.ms", 60_000),
            request_timeout_ms=options.count("kafka.request.timeout.ms", 30_000),
            delivery_timeout_ms=options.count("kafka.delivery.timeout.ms", 120_000),
            transaction_timeout_ms=options.count("kafka.transaction.timeout.ms", 900_000),
        )
        options.refuse_all_but("kafka.acks", "all", "-1", because="or what is acknowledged could be lost")
        options.refuse_all_but(
            "kafka.enable.idempotence", "true", because="or a repeated request writes its rows twice"
        )
        options.end(_PASSED_OVER)
        return parsed


def refuse_in_batch(options: SinkOptions, *, overwrite: bool) -> None:
    """What only a streaming query can have."""
    if overwrite:
        raise OptionError("a topic cannot be overwritten: use mode('append')")
    if options.guarantee is Guarantee.EXACTLY_ONCE:
        raise OptionError(
            "guarantee=exactlyOnce needs a streaming query, whose checkpoint tells what was written already: use "
            "writeStream with trigger(availableNow=True), or guarantee=atLeastOnce"
        )
