"""Coordinator records as bytes: what the record batches of `__consumer_offsets` and `__transaction_state` hold.

Kafka's frame, which its tools decode: a key is the record type's number as two bytes, then the message; a value is its
own version as two bytes, then the message; no value deletes what its key names. A record of a type that we do not know
is passed over, as Kafka does, so that a log written by a newer broker can be read.
"""

import struct
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from ottla.base.errors import ProtocolError
from ottla.wire import api
from ottla.wire.codec import codec_for

RecordMessage: TypeAlias = Any
"""One of the key or value types named in a `RecordTypes` table; a machine's `replay` dispatches on the key's class."""

_NUMBER: Final = struct.Struct(">h")
_KEY_VERSION: Final = 0


class CoordinatorRecord(NamedTuple):
    key: RecordMessage
    value: RecordMessage | None
    """None: a tombstone."""
    value_version: int = 0


class RecordTypes:
    """The records of one internal topic: number on disk -> names of the key's and the value's message."""

    def __init__(self, names: Mapping[int, tuple[str, str]]) -> None:
        self._names = names
        self._numbers = {key_name: _NUMBER.pack(number) for number, (key_name, _) in names.items()}

    def encode(self, record: CoordinatorRecord) -> tuple[bytes, bytes | None]:
        """Key and value."""
        key = bytearray(self._numbers[type(record.key).__name__])
        codec_for(type(record.key), _KEY_VERSION).encode_into(record.key, key)
        if record.value is None:
            return bytes(key), None
        value = bytearray(_NUMBER.pack(record.value_version))
        codec_for(type(record.value), record.value_version).encode_into(record.value, value)
        return bytes(key), bytes(value)

    def decode(self, key: bytes | None, value: bytes | None) -> CoordinatorRecord | None:
        """`None` for a record of an unknown type; `ProtocolError` for one that is not what its number says."""
        if key is None or len(key) < _NUMBER.size:
            raise ProtocolError("a coordinator record's key begins with the number of its type")
        (number,) = _NUMBER.unpack_from(key)
        names = self._names.get(number)
        if names is None:
            return None
        key_message, _ = codec_for(getattr(api, names[0]), _KEY_VERSION).decode(memoryview(key), _NUMBER.size)
        if value is None:
            return CoordinatorRecord(key_message, None)
        if len(value) < _NUMBER.size:
            raise ProtocolError("a coordinator record's value begins with its version")
        (version,) = _NUMBER.unpack_from(value)
        value_message, _ = codec_for(getattr(api, names[1]), version).decode(memoryview(value), _NUMBER.size)
        return CoordinatorRecord(key_message, value_message, version)


GROUP_RECORDS: Final = RecordTypes(
    {
        0: ("LegacyOffsetCommitKey", "LegacyOffsetCommitValue"),
        1: ("OffsetCommitKey", "OffsetCommitValue"),
        2: ("GroupMetadataKey", "GroupMetadataValue"),
    }
)
TRANSACTION_RECORDS: Final = RecordTypes({0: ("TransactionLogKey", "TransactionLogValue")})
