"""The largest numbers that the protocol, or librdkafka under us, carries: a larger one is told where it is typed."""

from typing import Final

INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1
PARTITION_COUNT_MAX: Final = 100_000  # librdkafka's, as is the next.
REPLICATION_FACTOR_MAX: Final = 10_000
