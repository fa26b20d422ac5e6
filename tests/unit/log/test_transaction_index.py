import pytest

from ottla.log.transaction_index import AbortedTransaction, decode_entries, encode_entries

# Kafka's TransactionIndex with one aborted transaction: producer 4000, offsets 250 to 260, last stable offset 261.
KAFKA_BYTES = bytes.fromhex("00000000000000000fa000000000000000fa00000000000001040000000000000105")
ABORTED = AbortedTransaction(4000, 250, 260, 261)


def test_writes_the_bytes_that_kafka_writes() -> None:
    assert encode_entries([ABORTED]) == KAFKA_BYTES
    assert list(decode_entries(KAFKA_BYTES)) == [ABORTED]


def test_a_torn_last_entry_is_passed_over() -> None:
    assert list(decode_entries(KAFKA_BYTES + KAFKA_BYTES[:20])) == [ABORTED]


def test_an_unknown_version_is_refused() -> None:
    with pytest.raises(ValueError, match="version 1"):
        list(decode_entries(b"\0\1" + KAFKA_BYTES[2:]))
