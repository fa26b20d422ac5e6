"""Spark on Apache Kafka with TLS and SASL, which our broker does not have yet: `make conformance-spark-kafka`."""

from collections.abc import Iterator

import pytest

from tests.secured_kafka import SecuredKafka, secured_kafka
from tests.spark.conftest import spark

__all__ = ["spark"]


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    with secured_kafka(tmp_path_factory.mktemp("secured")) as started:
        yield started
