"""What the JDBC source and sink share: connections to PostgreSQL by a JDBC or libpq URL, and its types beside Spark's.

Through psycopg2, also in the tasks: neither a JAR nor a driver class is needed. Other databases are not spoken to.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Self

from ottla.spark.pipelines.contract import Setting, Settings, Wrong

if TYPE_CHECKING:
    from psycopg2.extensions import connection as Connection
    from psycopg2.sql import Identifier
    from pyspark.sql.types import DataType

SERVER_SETTINGS: Final = (
    Setting(name="url", kind=str, is_required=True, doc="jdbc:postgresql://host:port/database, or without jdbc:"),
    Setting(name="user", kind=str, doc="the user, where the URL does not say it"),
    Setting(name="password", kind=str, doc="the password; ${VARIABLE} takes it from the environment"),
)

CONNECT_TIMEOUT_SECONDS: Final = 15  # Without it, a task waits for ever for a host that does not answer.
_URL_PREFIXES: Final = ("jdbc:postgresql://", "postgresql://", "postgres://")


def wrong_url(settings: Settings) -> Iterator[Wrong]:
    if not settings["url"].startswith(_URL_PREFIXES):
        yield Wrong(setting="url", reason="only PostgreSQL is spoken: jdbc:postgresql://host:port/database")


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    url: str = field(repr=False)  # It may have the password in it.
    user: str | None = None
    password: str | None = field(default=None, repr=False)

    @classmethod
    def of(cls, settings: Settings) -> Self:
        return cls(url=settings["url"], user=settings["user"], password=settings["password"])

    def connect(self) -> "Connection":
        import psycopg2

        return psycopg2.connect(
            self.url.removeprefix("jdbc:"),
            user=self.user,
            password=self.password,
            application_name="ottla",
            connect_timeout=CONNECT_TIMEOUT_SECONDS,
            options="-c timezone=UTC -c datestyle=ISO",  # Values travel as texts, and mean the same everywhere.
        )


def identifier(table: str) -> "Identifier":
    """`schema.table` or `table`."""
    from psycopg2.sql import Identifier

    return Identifier(*table.split("."))


_POSTGRES_TYPES: Final = {
    "boolean": "boolean",
    "byte": "smallint",
    "short": "smallint",
    "integer": "integer",
    "long": "bigint",
    "float": "real",
    "double": "double precision",
    "string": "text",
    "binary": "bytea",
    "date": "date",
    "timestamp": "timestamptz",
    "timestamp_ntz": "timestamp",
}


def postgres_type(spark_type: "DataType") -> str:
    """For a table that is made; what has no counterpart there is JSON."""
    from pyspark.sql.types import ArrayType, DecimalType

    if isinstance(spark_type, DecimalType):
        return f"numeric({spark_type.precision}, {spark_type.scale})"
    if isinstance(spark_type, ArrayType):
        element = postgres_type(spark_type.elementType)
        return element if element == "jsonb" else f"{element}[]"
    return _POSTGRES_TYPES.get(spark_type.typeName(), "jsonb")
