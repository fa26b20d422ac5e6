"""Generated values are the same in every run, so that CI fails for a change and never for luck. Luck has a word of its
own: `make fuzz` draws others each time, and more of them; what it finds becomes an `@example`.

A test that takes `database` gets an empty one of a PostgreSQL that is started with the first such test.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import hypothesis
import pytest

if TYPE_CHECKING:
    from tests.postgres import Database, Postgres

hypothesis.settings.register_profile("same", derandomize=True, deadline=None)
hypothesis.settings.register_profile("fuzz", max_examples=2_000, deadline=None, print_blob=True)
hypothesis.settings.load_profile("same")


@pytest.fixture(scope="session")
def postgres() -> "Iterator[Postgres]":
    from tests.postgres import running_postgres

    with running_postgres() as server:
        yield server


@pytest.fixture
def database(postgres: "Postgres") -> "Database":
    return postgres.new_database()
