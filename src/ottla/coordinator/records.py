"""Coordinator records as bytes: what the record batches of `__consumer_offsets` and `__transaction_state` hold.

Kafka's frame, which its tools decode: a key is the record type's number as two bytes, then the message; a value is its
own version as two bytes, then the message; no value deletes what its key names. A record of a type that we do not know
is passed over, as Kafka does, so that a log written by a newer broker can be read.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

from ottla.base.errors import ProtocolError
from ottla.base.types import NO_OFFSET, NO_TIMESTAMP, ZERO_TOPIC_ID, LeaderEpoch, Offset, TimestampMs, TopicId
from ottla.wire import api
from ottla.wire.codec import Codec, codec_for

RecordMessage: TypeAlias = Any
"""One of the key or value types named in a `RecordTypes` table; a machine's `replay` dispatches on the key's class."""

NAME_BYTES_MAX: Final = 32_000  # What a string in a record holds is 32,767, and a member's id is a name and 37 more.

OFFSET_VERSION: Final = 4  # Of the values that commits write.
KEYS_REMEMBERED_MAX: Final = 10_000

_NUMBER: Final = struct.Struct(">h")
_OFFSET_NUMBER: Final = 1
_OFFSET_VALUE: Final = struct.Struct(">hqiBqB")  # version, offset, leader epoch, empty text, time, number of tags
_OFFSET_VALUE_WITH_ID: Final = struct.Struct(">hqiBqBBB16s")  # … and a tag with its size and the topic id
_KEY_VERSION: Final = 0


class CoordinatorRecord(NamedTuple):
    key: RecordMessage
    value: RecordMessage | None
    """None: a tombstone."""
    value_version: int = 0


class OffsetKey(NamedTuple):
    """What `OffsetCommitKey` holds, and its bytes: `offset_key` has it."""

    group: str
    topic: str
    partition: int
    encoded: bytes


@dataclass(slots=True)
class CommittedOffset:
    """What `OffsetCommitValue` holds. The value that is recorded is what the group keeps."""

    offset: Offset
    leader_epoch: LeaderEpoch
    metadata: str
    commit_timestamp: TimestampMs
    expire_timestamp: TimestampMs = NO_TIMESTAMP
    topic_id: TopicId = ZERO_TOPIC_ID
    record_offset: Offset = NO_OFFSET
    """Of the commit itself in our log, once it is replayed: of a transaction's and another's, the later one counts."""


class _RecordType:
    """One kind of record. Its codecs are looked up once: every commit of every group comes by here."""

    __slots__ = ("_key_codec", "_names", "_value_codecs", "number")

    def __init__(self, number: int, key_name: str, value_name: str) -> None:
        self.number = _NUMBER.pack(number)
        self._names = key_name, value_name
        self._key_codec: Codec[Any] | None = None
        self._value_codecs: dict[int, Codec[Any]] = {}

    @property
    def key_codec(self) -> "Codec[Any]":
        codec = self._key_codec
        if codec is None:
            codec = self._key_codec = codec_for(getattr(api, self._names[0]), _KEY_VERSION)
        return codec

    def encoded_key(self, message: RecordMessage) -> bytes:
        out = bytearray(self.number)
        self.key_codec.encode_into(message, out)
        return bytes(out)

    def value_codec(self, version: int) -> "Codec[Any]":
        codec = self._value_codecs.get(version)
        if codec is None:
            codec = self._value_codecs[version] = codec_for(getattr(api, self._names[1]), version)
        return codec


def fits_record(name: str) -> bool:
    """Newer requests may carry names that Kafka's record formats cannot."""
    return len(name) <= NAME_BYTES_MAX // 4 or len(name.encode()) <= NAME_BYTES_MAX


class RecordTypes:
    """The records of one internal topic: number on disk -> names of the key's and the value's message."""

    def __init__(self, names: Mapping[int, tuple[str, str]]) -> None:
        types = {number: _RecordType(number, *pair) for number, pair in names.items()}
        self._by_number = types
        self._by_key_name = {key_name: types[number] for number, (key_name, _) in names.items()}

    def encode(self, record: CoordinatorRecord) -> tuple[bytes, bytes | None]:
        """Key and value."""
        message, value, value_version = record
        if type(message) is OffsetKey:
            key = message.encoded
            if value is not None and value_version == OFFSET_VERSION and not value.metadata:
                return key, _plain_offset(value)
            record_type = self._by_number[_OFFSET_NUMBER]
        else:
            record_type = self._by_key_name[type(message).__name__]
            key = record_type.encoded_key(message)
        if value is None:
            return key, None
        out = bytearray(_NUMBER.pack(value_version))
        record_type.value_codec(value_version).encode_into(value, out)
        return key, bytes(out)

    def decode(self, key: bytes | None, value: bytes | None) -> CoordinatorRecord | None:
        """`None` for a record of an unknown type; `ProtocolError` for one that is not what its number says."""
        if key is None or len(key) < _NUMBER.size:
            raise ProtocolError("a coordinator record's key begins with the number of its type")
        (number,) = _NUMBER.unpack_from(key)
        record_type = self._by_number.get(number)
        if record_type is None:
            return None
        key_message, _ = record_type.key_codec.decode(memoryview(key), _NUMBER.size)
        if value is None:
            return CoordinatorRecord(key_message, None)
        if len(value) < _NUMBER.size:
            raise ProtocolError("a coordinator record's value begins with its version")
        (version,) = _NUMBER.unpack_from(value)
        value_message, _ = record_type.value_codec(version).decode(memoryview(value), _NUMBER.size)
        return CoordinatorRecord(key_message, value_message, version)


# -- commits, by hand: half of what a coordinator does -----------------------------------------------------------------


@lru_cache(KEYS_REMEMBERED_MAX)
def offset_key(group: str, topic: str, partition: int) -> OffsetKey:
    out = bytearray(_NUMBER.pack(_OFFSET_NUMBER))
    codec_for(api.OffsetCommitKey, _KEY_VERSION).encode_into(
        api.OffsetCommitKey(group=group, topic=topic, partition=partition), out
    )
    return OffsetKey(group, topic, partition, bytes(out))


def _plain_offset(value: CommittedOffset) -> bytes:
    """A value without a text, as nearly all are."""
    topic_id = value.topic_id
    start = OFFSET_VERSION, value.offset, value.leader_epoch, 1, value.commit_timestamp
    try:
        if not topic_id.int:
            return _OFFSET_VALUE.pack(*start, 0)
        return _OFFSET_VALUE_WITH_ID.pack(*start, 1, 0, 16, topic_id.bytes)
    except struct.error as error:
        raise ValueError(f"a commit that cannot be recorded: {error}") from error


GROUP_RECORDS: Final = RecordTypes(
    {
        0: ("LegacyOffsetCommitKey", "LegacyOffsetCommitValue"),
        1: ("OffsetCommitKey", "OffsetCommitValue"),
        2: ("GroupMetadataKey", "GroupMetadataValue"),
    }
)
TRANSACTION_RECORDS: Final = RecordTypes({0: ("TransactionLogKey", "TransactionLogValue")})
