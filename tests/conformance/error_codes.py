"""Kafka's error numbers by the names that its users look for; those that the suite expects."""

from typing import Final

UNKNOWN_SERVER_ERROR: Final = -1
LIBRDKAFKA_RESET_REFUSED: Final = -140  # How librdkafka reports OFFSET_OUT_OF_RANGE where it may not reset.
OFFSET_OUT_OF_RANGE: Final = 1
UNKNOWN_TOPIC_OR_PARTITION: Final = 3
LEADER_NOT_AVAILABLE: Final = 5
MESSAGE_TOO_LARGE: Final = 10
INVALID_TOPIC_EXCEPTION: Final = 17
INVALID_TIMESTAMP: Final = 32
TOPIC_ALREADY_EXISTS: Final = 36
INVALID_PARTITIONS: Final = 37
INVALID_REPLICATION_FACTOR: Final = 38
INVALID_CONFIG: Final = 40
INVALID_RECORD: Final = 87
