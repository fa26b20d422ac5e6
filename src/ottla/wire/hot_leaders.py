"""The tagged fields by which Produce and Fetch tell a client the leader it should have asked (KIP-951), and a replica
where its log parts from ours (KIP-595). Part of wire/hot.py, which leaves them out where there is nothing to tell."""

from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple, TypeAlias

from ottla.base.types import LeaderEpoch, NodeId, Offset

_LEADER: Final = Struct(">iiB")  # id, epoch, no tags
_DIVERGING: Final = Struct(">iqB")  # epoch, end offset, no tags
_I32: Final = Struct(">i")

DIVERGING_TAG: Final = 0
FETCH_LEADER_TAG: Final = 1
PRODUCE_LEADER_TAG: Final = 0
ENDPOINTS_TAG: Final = 0


# The largest epoch of ours that the replica may know, and where it ends.
DivergingEpoch: TypeAlias = tuple[LeaderEpoch, Offset]


class CurrentLeader(NamedTuple):
    leader_id: NodeId
    leader_epoch: LeaderEpoch


class NodeEndpoint(NamedTuple):
    node_id: NodeId
    host: str
    port: int
    rack: str | None


def put_uvarint(out: bytearray, value: int) -> None:
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def put_fetch_tags(out: bytearray, diverging: DivergingEpoch | None, leader: CurrentLeader | None) -> None:
    out.append((diverging is not None) + (leader is not None))
    if diverging is not None:
        _put_field(out, DIVERGING_TAG, _DIVERGING.pack(*diverging, 0))
    if leader is not None:
        _put_field(out, FETCH_LEADER_TAG, _LEADER.pack(*leader, 0))


def put_produce_tags(out: bytearray, leader: CurrentLeader) -> None:
    out.append(1)
    _put_field(out, PRODUCE_LEADER_TAG, _LEADER.pack(*leader, 0))


def put_endpoint_tags(out: bytearray, endpoints: Sequence[NodeEndpoint]) -> None:
    """Where the leaders are that the answer names; the same in both messages."""
    if not endpoints:
        out.append(0)
        return
    body = bytearray()
    put_uvarint(body, len(endpoints) + 1)
    for node_id, host, port, rack in endpoints:
        body += _I32.pack(node_id)
        _put_text(body, host)
        body += _I32.pack(port)
        _put_text(body, rack)
        body.append(0)
    out.append(1)
    _put_field(out, ENDPOINTS_TAG, body)


def _put_text(out: bytearray, text: str | None) -> None:
    if text is None:
        out.append(0)
        return
    encoded = text.encode()
    put_uvarint(out, len(encoded) + 1)
    out += encoded


def _put_field(out: bytearray, tag: int, body: bytes | bytearray) -> None:
    out.append(tag)
    put_uvarint(out, len(body))
    out += body
