"""Connections to PostgreSQL whose texts mean the same everywhere, and its refusals with what to do about them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import psycopg2
import psycopg2.errors
from psycopg2.extensions import connection as PostgresConnection
from psycopg2.extensions import make_dsn, parse_dsn
from psycopg2.extras import LogicalReplicationConnection

from ottla.cdc.errors import CaptureError

if TYPE_CHECKING:
    from psycopg2._psycopg import ReplicationConnection

APPLICATION_NAME: Final = "ottla-cdc"
CONNECT_TIMEOUT_S: Final = 10

# How values are written, for snapshots and changes alike, whatever the role or the database prefers; a snapshot may
# last for as long as it takes.
SESSION: Final = (
    "-c datestyle=ISO -c intervalstyle=iso_8601 -c timezone=UTC -c bytea_output=hex -c extra_float_digits=1"
    " -c lc_monetary=C -c statement_timeout=0 -c idle_in_transaction_session_timeout=0"
)
_NO_REPLICATION: Final = ("permission denied to start WAL sender", "must be superuser or replication role")


def connect(dsn: str) -> PostgresConnection:
    """For queries; each is a transaction of its own."""
    with explained("connecting"):
        connection = psycopg2.connect(_session_dsn(dsn))
    connection.autocommit = True
    return connection


def connect_replication(dsn: str) -> "ReplicationConnection":
    with explained("connecting for replication"):
        return psycopg2.connect(_session_dsn(dsn), connection_factory=LogicalReplicationConnection)


def _session_dsn(dsn: str) -> str:
    try:
        given: dict[str, Any] = parse_dsn(dsn)
    except psycopg2.ProgrammingError:  # Its text may quote the password.
        raise CaptureError("postgres.dsn cannot be read: give host=… dbname=… user=…, or postgresql://…") from None
    defaults = {"connect_timeout": CONNECT_TIMEOUT_S, "application_name": APPLICATION_NAME}
    session = {"options": f"{given.get('options', '')} {SESSION}", "client_encoding": "UTF8"}
    complete: str = make_dsn(**{**defaults, **given, **session})
    return complete


@contextmanager
def explained(doing: str) -> Iterator[None]:
    """What PostgreSQL refuses for good becomes a `CaptureError`; what may pass by itself stays psycopg2's."""
    try:
        yield
    except psycopg2.errors.InsufficientPrivilege as error:
        raise CaptureError(f"{doing}: {_text(error)}. Grant it, or connect as a role that may") from error
    except psycopg2.ProgrammingError as error:
        raise CaptureError(f"{doing}: {_text(error)}") from error
    except psycopg2.OperationalError as error:
        if any(text in str(error) for text in _NO_REPLICATION):
            raise CaptureError(f"{doing}: the role may not replicate: ALTER ROLE … REPLICATION") from error
        raise


def _text(error: psycopg2.Error) -> str:
    """One line: PostgreSQL's sentence and, where it has one, its hint."""
    parts = [error.diag.message_primary or str(error).strip(), error.diag.message_hint]
    return ". ".join(part.rstrip(".") for part in parts if part)
