"""The position of each capture, in a compacted topic: up to where PostgreSQL's changes are in the other topics.

The record is written in the transaction of the changes before it, so a reader of committed records finds the position
that belongs to exactly what is there. Not a consumer group's offset: those expire.
"""

import json
import time
from typing import Any, Final

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException

from ottla.cdc.envelope import Record
from ottla.cdc.errors import CaptureError
from ottla.cdc.lsn import lsn_text, parse_lsn
from ottla.cdc.settings import CaptureSettings
from ottla.client.admin import Admin
from ottla.client.errors import ClientError, client_error
from ottla.client.options import ClientKind, opened, other_owner, settings
from ottla.client.raw.patience import LEADER_PASSING, patiently

READ_SECONDS_MAX: Final = 60.0
POLL_SLICE_S: Final = 0.5
POSITION_PARTITION: Final = 0


def client_options(chosen: CaptureSettings, kind: ClientKind) -> dict[str, Any]:
    """The user's options that are this client's."""
    common = {"bootstrap.servers": chosen.bootstrap_servers, "client.id": f"ottla-cdc-{chosen.name}"}
    own = {name: value for name, value in chosen.client_options.items() if other_owner(kind, name) is None}
    return {**common, **own}


def position_record(chosen: CaptureSettings, lsn: int | None) -> Record:
    """None: a tombstone."""
    value = None if lsn is None else json.dumps({"lsn": lsn_text(lsn)}).encode()
    return Record(chosen.positions_topic, chosen.name.encode(), value)


def has_positions(chosen: CaptureSettings) -> bool:
    with Admin(client_options(chosen, ClientKind.ADMIN)) as admin:
        return chosen.positions_topic in admin.list_topics()


def read_position(chosen: CaptureSettings) -> int | None:
    """None before the first snapshot is complete. For the truth, fence older captures first."""
    options = client_options(chosen, ClientKind.CONSUMER) | {
        "group.id": f"ottla-cdc-{chosen.name}",  # librdkafka insists on one; nothing is committed to it.
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
        "fetch.max.wait.ms": 10,  # The end is what this waits for.
        "enable.auto.commit": False,
        "allow.auto.create.topics": False,
    }
    consumer = opened(confluent_kafka.Consumer, settings(ClientKind.CONSUMER, options))
    try:
        start = confluent_kafka.TopicPartition(
            chosen.positions_topic, POSITION_PARTITION, confluent_kafka.OFFSET_BEGINNING
        )
        end = patiently(lambda: _end_offset(consumer, start), passing=LEADER_PASSING, timeout_s=READ_SECONDS_MAX)
        consumer.assign([start])
        return _last_position(consumer, chosen, end)
    except KafkaException as error:
        raise client_error(error, f"reading {chosen.positions_topic}") from None
    finally:
        consumer.close()


def _end_offset(consumer: confluent_kafka.Consumer, partition: confluent_kafka.TopicPartition) -> int:
    """Asked for, not taken from where a fetch ends: a new leader's fetches end before what it does not know to be committed
    yet, and an older position would capture again what is there."""
    try:
        _, end = consumer.get_watermark_offsets(partition, timeout=READ_SECONDS_MAX)
    except KafkaException as error:
        raise client_error(error, f"asking for the end of {partition.topic}") from None
    return int(end)


def _last_position(consumer: confluent_kafka.Consumer, chosen: CaptureSettings, end: int) -> int | None:
    found: bytes | None = None
    deadline = time.monotonic() + READ_SECONDS_MAX
    while time.monotonic() < deadline:
        message = consumer.poll(POLL_SLICE_S)
        if message is None:
            continue
        error = message.error()
        if error is not None:
            if error.code() == KafkaError._PARTITION_EOF:
                if (message.offset() or 0) < end:
                    continue
                return None if found is None else _parsed(found, chosen)
            raise KafkaException(error)
        if message.key() == chosen.name.encode():
            found = message.value()
    raise ClientError("_TIMED_OUT", f"{chosen.positions_topic} was not read to its end", retriable=True)


def _parsed(value: bytes, chosen: CaptureSettings) -> int:
    try:
        return parse_lsn(json.loads(value)["lsn"])
    except (ValueError, KeyError, TypeError) as error:
        raise CaptureError(f"{chosen.positions_topic} has no position that can be read: {value!r}") from error
