"""Metadata records as bytes: the values of the record batches in `__cluster_metadata-0` and in snapshots.

Kafka's frame: unsigned varints for the frame version (1), the record type's number and the record's version, then the
message. Versions written are those of the metadata.version levels we support (`features.py`): they do not differ
between these levels. A committed record that we cannot decode stops the controller: skipping it would silently give
this node another history than its peers have.
"""

from typing import Any, Final, TypeAlias

from ottla.base.errors import ProtocolError, invariant, violated
from ottla.wire import api
from ottla.wire.codec import Codec, codec_for

MetadataRecord: TypeAlias = Any
"""One of the record types named below; `image.py` dispatches on its class."""

FRAME_VERSION: Final = 1

# Number on disk -> (type's name, version written).
_RECORD_TYPES: Final[dict[int, tuple[str, int]]] = {
    0: ("RegisterBrokerRecord", 3),
    1: ("UnregisterBrokerRecord", 0),
    2: ("TopicRecord", 0),
    3: ("PartitionRecord", 2),
    4: ("ConfigRecord", 0),
    5: ("PartitionChangeRecord", 2),
    7: ("FenceBrokerRecord", 0),
    8: ("UnfenceBrokerRecord", 0),
    9: ("RemoveTopicRecord", 0),
    11: ("UserScramCredentialRecord", 0),
    12: ("FeatureLevelRecord", 0),
    15: ("ProducerIdsRecord", 0),
    17: ("BrokerRegistrationChangeRecord", 2),
    20: ("NoOpRecord", 0),
    21: ("ZkMigrationStateRecord", 0),
    22: ("RemoveUserScramCredentialRecord", 0),
    27: ("RegisterControllerRecord", 0),
    28: ("ClearElrRecord", 0),
}
_CODECS: Final[dict[bytes, Codec[Any]]] = {}
_NUMBERS: Final = {name: (number, version) for number, (name, version) in _RECORD_TYPES.items()}


def encode_record(record: MetadataRecord) -> bytes:
    name = type(record).__name__
    invariant(name in _NUMBERS, "only known metadata records are written", name=name)
    number, version = _NUMBERS[name]
    out = bytearray()
    for part in (FRAME_VERSION, number, version):
        _append_unsigned_varint(out, part)
    codec_for(type(record), version).encode_into(record, out)
    return bytes(out)


def decode_record(value: bytes | None) -> MetadataRecord:
    """The record in a batch's value. Whatever is wrong with it is an `InvariantViolation`."""
    if value is None:
        violated("a metadata record has a value")
    try:
        # Version, type and version are one byte each as yet: a start-up with 10,000 topics looks them up at once.
        known = _CODECS.get(value[:3])
        codec, position = (known, 3) if known is not None else _codec_of(value)
        record, end = codec.decode(memoryview(value), position)
        if end != len(value):
            raise ProtocolError(f"{len(value) - end} bytes left after a {type(record).__name__}")
        return record
    except (ProtocolError, IndexError) as error:
        violated("a committed metadata record cannot be decoded", reason=str(error), value=value[:64].hex())


def _codec_of(value: bytes) -> tuple[Codec[Any], int]:
    """How to decode what follows the frame, and where that begins."""
    view = memoryview(value)
    frame_version, position = _read_unsigned_varint(view, 0)
    if frame_version != FRAME_VERSION:
        raise ProtocolError(f"frame version {frame_version}")
    number, position = _read_unsigned_varint(view, position)
    version, position = _read_unsigned_varint(view, position)
    if number not in _RECORD_TYPES:
        raise ProtocolError(f"record type {number} is not one this version of Ottla knows")
    codec: Codec[Any] = codec_for(getattr(api, _RECORD_TYPES[number][0]), version)
    if position == 3:
        _CODECS[value[:3]] = codec
    return codec, position


def _append_unsigned_varint(out: bytearray, value: int) -> None:
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def _read_unsigned_varint(view: memoryview, position: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 35:
        byte = view[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    raise ProtocolError("a varint longer than five bytes")
