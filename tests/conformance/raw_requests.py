"""Two requests that no client sends like this, written on a plain socket in their published layouts.

A transaction that its coordinator knows nothing of is what a bug left behind before KIP-890, and what operators must
abort: Produce version 3 with a transactional batch, to a broker that was told not to verify it
(`transaction.partition.verification.enable`). And InitProducerId version 0, over and over, until epochs run out.
"""

import socket
import struct
from typing import Final

from aiokafka.record.default_records import DefaultRecordBatchBuilder

PRODUCE, PRODUCE_VERSION = 0, 3
INIT_PRODUCER_ID, INIT_PRODUCER_ID_VERSION = 22, 0
CORRELATION_ID = 1
PIPELINED = 50
ACKS_ALL, TIMEOUT_MS = -1, 10_000
TRANSACTIONAL_ID: Final = b"nobody-knows-it"
INT16, INT32 = struct.Struct(">h"), struct.Struct(">i")
# After the correlation id: one topic with its name, one partition with its index; then the error code.
ERROR_CODE_AFTER_NAME: Final = 4 + 4


def begin_hanging_transaction(
    bootstrap: str, topic: str, value: bytes, *, producer_id: int, timestamp_ms: int, partition: int = 0
) -> None:
    """Writes one record into partition 0 as the start of a transaction that nobody will ever end."""
    batch = transactional_batch(value, producer_id=producer_id, timestamp_ms=timestamp_ms)
    header = struct.pack(">hhi", PRODUCE, PRODUCE_VERSION, CORRELATION_ID) + text(b"hanging")
    settings = text(TRANSACTIONAL_ID) + struct.pack(">hi", ACKS_ALL, TIMEOUT_MS)
    topics = INT32.pack(1) + text(topic.encode()) + INT32.pack(1) + INT32.pack(partition)
    [answer] = ask(bootstrap, header + settings + topics + INT32.pack(len(batch)) + batch)
    [error_code] = INT16.unpack_from(answer, 4 + 4 + 2 + len(topic.encode()) + ERROR_CODE_AFTER_NAME)
    assert error_code == 0, f"the broker refused the batch: {error_code}"


def transactional_batch(value: bytes, *, producer_id: int, timestamp_ms: int) -> bytes:
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=1,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        batch_size=1 << 20,
    )
    builder.append(0, timestamp_ms, None, value, [])
    return bytes(builder.build())


def text(value: bytes) -> bytes:
    return INT16.pack(len(value)) + value


def ask(bootstrap: str, request: bytes, *, count: int = 1) -> list[bytes]:
    """The answers to a request that is sent `count` times on one connection."""
    host, port = bootstrap.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=TIMEOUT_MS / 1000) as connection:
        connection.sendall((INT32.pack(len(request)) + request) * count)
        with connection.makefile("rb") as answers:
            return [answers.read(*INT32.unpack(answers.read(INT32.size))) for _ in range(count)]


def producer_epochs(bootstrap: str, transactional_id: str, *, count: int) -> list[tuple[int, int]]:
    """The producer id and epoch that each of `count` producers with one transactional id is given."""
    header = struct.pack(">hhi", INIT_PRODUCER_ID, INIT_PRODUCER_ID_VERSION, CORRELATION_ID) + text(b"epochs")
    request = header + text(transactional_id.encode()) + INT32.pack(TIMEOUT_MS)
    answers = [answer for _ in range(count // PIPELINED) for answer in ask(bootstrap, request, count=PIPELINED)]
    found = [struct.unpack(">iihqh", answer) for answer in answers]
    assert {error for _, _, error, _, _ in found} == {0}
    return [(producer_id, epoch) for _, _, _, producer_id, epoch in found]
