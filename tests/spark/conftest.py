"""One broker and one Spark session (a JVM takes seconds to start) for all tests here.

With OTTLA_SPARK_BOOTSTRAP=host:port the tests run against that broker, with `apache-kafka` against one that is started
for them: source, sink and pipelines are clients of the Kafka protocol and nothing else. What needs our broker takes
`ottla_broker`.
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ottla.testing
from ottla.testing import Broker
from tests.spark.brokers import AnyBroker, ForeignBroker

FOREIGN_BOOTSTRAP = os.environ.get("OTTLA_SPARK_BOOTSTRAP")
APACHE_KAFKA = "apache-kafka"


@pytest.fixture(scope="session")
def ottla_broker() -> Iterator[Broker]:
    with ottla.testing.broker(config={"log.cleaner.backoff.ms": 100}) as started:
        yield started


@pytest.fixture(scope="session")
def apache_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForeignBroker]:
    from benchmarks.peers import ApacheKafka

    kafka = ApacheKafka(tmp_path_factory.mktemp("kafka"))
    kafka.heap = "512m"
    kafka.prepare()
    kafka.start()
    yield ForeignBroker(kafka.bootstrap)
    kafka.discard()


@pytest.fixture(scope="session")
def broker(request: pytest.FixtureRequest) -> AnyBroker:
    if FOREIGN_BOOTSTRAP == APACHE_KAFKA:
        foreign: ForeignBroker = request.getfixturevalue("apache_kafka")
        return foreign
    if FOREIGN_BOOTSTRAP:
        return ForeignBroker(FOREIGN_BOOTSTRAP)
    started: Broker = request.getfixturevalue("ottla_broker")
    return started


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    os.environ["PYSPARK_PYTHON"] = sys.executable  # Workers take python3 from PATH otherwise.
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.memory", "1g")
        # A short life: nothing is compiled for a long one, or the compiler would have one of two cores to itself.
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .config("spark.sql.codegen.wholeStage", "false")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    return str(tmp_path / "checkpoint")
