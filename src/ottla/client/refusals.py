"""What librdkafka says of an option that it refuses, in Kafka's names and with what would be right."""

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Final

UNKNOWN: Final = re.compile(r'No such configuration property: "(.+)"')
NAMED: Final = re.compile(r'(?:property|value for) "([^"]+)"')
RANGE: Final = re.compile(r"outside allowed range (\S+)\.\.(\S+)")
# librdkafka's first names of options that it also knows by Kafka's.
KAFKA_NAMES: Final[Mapping[str, str]] = {
    "queue.buffering.max.ms": "linger.ms",
    "queue.buffering.max.kbytes": "buffer.memory",
    "compression.codec": "compression.type",
    "message.timeout.ms": "delivery.timeout.ms",
    "message.send.max.retries": "retries",
    "message.max.bytes": "max.request.size",
    "max.in.flight": "max.in.flight.requests.per.connection",
    "request.required.acks": "acks",
    "fetch.wait.max.ms": "fetch.max.wait.ms",
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
    "socket.send.buffer.bytes": "send.buffer.bytes",
    "socket.receive.buffer.bytes": "receive.buffer.bytes",
}
CHOICES: Final[Mapping[str, str]] = {
    "compression.type": "none, gzip, snappy, lz4 or zstd",
    "partitioner": "murmur2_random, murmur2, consistent_random, consistent, fnv1a_random, fnv1a, random, round_robin, "
    "sticky, or a callable",
    "isolation.level": "read_uncommitted or read_committed",
    "security.protocol": "plaintext, ssl, sasl_plaintext or sasl_ssl",
    "group.protocol": "classic or consumer",
}


def refusal_text(reason: str, *, client: str, values: Mapping[str, object], known: Iterable[str]) -> str:
    """`client` with its article, `values` as they were given, `known` the names that may be meant instead."""
    if unknown := UNKNOWN.search(reason):
        near = difflib.get_close_matches(unknown[1], list(known), n=2)
        hint = f"did you mean {' or '.join(near)}?" if near else "docs/CLIENT.md lists the options"
        return f"{unknown[1]} is no option of {client}: {hint}"
    named = NAMED.search(reason)
    if named is None:
        return f"the options of {client} do not go together: {in_kafka_names(reason.strip())}"
    name = KAFKA_NAMES.get(named[1], named[1])
    told = f"{name}={values.get(name)!r}"
    if allowed := RANGE.search(reason):
        return f"{told} is outside of {allowed[1]} to {allowed[2]}"
    if "bool" in reason:
        return f"{told}: give true or false"
    if name in CHOICES:
        return f"{told}: give {CHOICES[name]}"
    return f"{told} is not a value of this option (librdkafka: {reason.strip()})"


def in_kafka_names(reason: str) -> str:
    return re.sub(r"`([^`]+)`", lambda quoted: KAFKA_NAMES.get(quoted[1], quoted[1]), reason)
