"""pytest fixtures, there in every project that has Ottla installed:

    def test_orders(ottla_broker):
        producer = ottla.Producer(bootstrap_servers=ottla_broker.bootstrap_servers)

`ottla_broker` is one broker for the whole session; `ottla_topic` a topic name of the test's own (created on first use).
"""

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ottla.testing.embedded import Broker

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def ottla_broker() -> "Iterator[Broker]":
    """A real Kafka-compatible broker: `.bootstrap_servers`, `.pid`, `.data_dir`, `.kill()`, `.restart()`."""
    from ottla.testing.embedded import broker  # Here, so that other projects' pytest runs do not pay for it.

    with broker() as running:
        yield running


@pytest.fixture
def ottla_topic(request: pytest.FixtureRequest) -> str:
    """A fresh topic name, told apart by the test's own."""
    name = "".join(character if character.isalnum() else "-" for character in request.node.name)
    return f"{name[:200]}-{next(_numbers)}"
