"""Each test has a database and a capture name of its own."""

from collections.abc import Iterator

import pytest

from ottla.testing import Broker
from tests.postgres import Database
from tests.unit.cdc.captures import Source, captured_database
from tests.unit.cli.conftest import run as run


@pytest.fixture
def source(database: Database, ottla_broker: Broker) -> Iterator[Source]:
    with captured_database(database, ottla_broker.bootstrap_servers) as made:
        yield made
