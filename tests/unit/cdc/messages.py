"""pgoutput messages as PostgreSQL would send them, written out by hand."""

import struct

from ottla.cdc.pgoutput import POSTGRES_EPOCH_US


def text(value: str) -> bytes:
    encoded = value.encode()
    return b"t" + struct.pack("!i", len(encoded)) + encoded


NULL = b"n"
UNCHANGED = b"u"


def row(*cells: bytes) -> bytes:
    return struct.pack("!h", len(cells)) + b"".join(cells)


def begin(final_lsn: int, committed_us: int, transaction_id: int) -> bytes:
    return b"B" + struct.pack("!QqI", final_lsn, committed_us - POSTGRES_EPOCH_US, transaction_id)


def commit(commit_lsn: int, end_lsn: int, committed_us: int) -> bytes:
    return b"C\0" + struct.pack("!QQq", commit_lsn, end_lsn, committed_us - POSTGRES_EPOCH_US)


def relation(oid: int, schema: str, table: str, identity: str, *columns: tuple[str, int, int]) -> bytes:
    head = b"R" + struct.pack("!I", oid) + schema.encode() + b"\0" + table.encode() + b"\0" + identity.encode()
    parts = [b"\1" + name.encode() + b"\0" + struct.pack("!Ii", type_oid, mod) for name, type_oid, mod in columns]
    return head + struct.pack("!h", len(columns)) + b"".join(parts)


def insert(oid: int, new: bytes) -> bytes:
    return b"I" + struct.pack("!I", oid) + b"N" + new


def update(oid: int, new: bytes, *, old: bytes = b"") -> bytes:
    """`old` with its K or O."""
    return b"U" + struct.pack("!I", oid) + old + b"N" + new


def delete(oid: int, old: bytes) -> bytes:
    return b"D" + struct.pack("!I", oid) + old


def truncate(*oids: int) -> bytes:
    return b"T" + struct.pack(f"!IB{len(oids)}I", len(oids), 1, *oids)
