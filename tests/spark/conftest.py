"""One broker and one Spark session (a JVM takes seconds to start) for all tests here."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ottla.testing
from ottla.testing import Broker


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    with ottla.testing.broker() as started:
        yield started


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
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    return str(tmp_path / "checkpoint")
