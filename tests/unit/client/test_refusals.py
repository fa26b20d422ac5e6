"""An option that librdkafka refuses is told with the precise reason, by the name and the value that were given."""

import pytest

from ottla.client import Admin, ConfigError, Consumer, Producer

HERE = "127.0.0.1:1"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"partitioner": "nonsense"}, "partitioner='nonsense': give murmur2_random, "),
        ({"compression_type": "brotli"}, "compression.type='brotli': give none, gzip, snappy, lz4 or zstd"),
        ({"linger_ms": "soon"}, "linger.ms='soon' is not a value of this option"),
        ({"linger_ms": -1}, "linger.ms=-1 is outside of 0 to 900000"),
        ({"enable_idempotence": "maybe"}, "enable.idempotence='maybe': give true or false"),
        (
            {"transactional_id": "a", "delivery_timeout_ms": 9_000, "transaction_timeout_ms": 1_000},
            "options of a producer do not go together: .*delivery.timeout.ms must be set <= transaction.timeout.ms",
        ),
        ({"batch_sise": 1}, r"batch.sise is no option of a producer: did you mean batch.size\?"),
    ],
)
def test_a_producer_says_what_is_wrong(options: dict[str, object], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        Producer(bootstrap_servers=HERE, **options)  # type: ignore[arg-type]


def test_so_does_a_consumer() -> None:
    with pytest.raises(ConfigError, match=r"isolation.level='dirty': give read_uncommitted or read_committed"):
        Consumer(bootstrap_servers=HERE, isolation_level="dirty")
    with pytest.raises(ConfigError, match=r"fetch.max.wait.ms=-1 is outside of 0 to"):
        Consumer(bootstrap_servers=HERE, fetch_max_wait_ms=-1)


def test_articles_are_right() -> None:
    with pytest.raises(ConfigError, match=r"an admin needs bootstrap.servers"):
        Admin()
    with pytest.raises(ConfigError, match=r"linger.ms is an option of a producer, this is an admin"):
        Admin(bootstrap_servers=HERE, linger_ms=5)
