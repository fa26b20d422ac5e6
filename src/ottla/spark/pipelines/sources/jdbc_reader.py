"""The JDBC source as Spark sees it: a Python data source, registered in the session under a name of its own.

The driver asks for positions (`increments`), each task reads its part through a cursor on the server, so that memory
holds a few thousand rows, and hands them on in Arrow.
"""

import re
from collections.abc import Iterator, MutableMapping
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from ottla.spark.pipelines.postgres import Server, identifier
from ottla.spark.pipelines.sources.increments import Cut, IncrementTable, Position
from ottla.spark.pipelines.sources.jdbc import FORMAT

if TYPE_CHECKING:
    import pyarrow as pa

FETCH_ROWS: Final = 10_000
DECIMAL_DIGITS_MAX: Final = 38

_SPARK_TYPES: Final[dict[str, DataType]] = {
    "boolean": BooleanType(),
    "smallint": ShortType(),
    "integer": IntegerType(),
    "bigint": LongType(),
    "real": FloatType(),
    "double precision": DoubleType(),
    "numeric": DecimalType(DECIMAL_DIGITS_MAX, 18),
    "bytea": BinaryType(),
    "date": DateType(),
    "timestamp with time zone": TimestampType(),
    "timestamp without time zone": TimestampNTZType(),
}
_TEXTS: Final = ("text", "character varying")


def spark_type(postgres_type: str) -> DataType:
    """By the name that PostgreSQL's `format_type` gives. What has no counterpart is read as text."""
    plain = re.sub(r"\(.*?\)", "", postgres_type)
    element = plain.removesuffix("[]")
    if element != plain:
        return ArrayType(spark_type(element)) if element in _SPARK_TYPES or element in _TEXTS else StringType()
    digits = re.fullmatch(r"numeric\((\d+),(\d+)\)", postgres_type)
    if digits and int(digits[1]) <= DECIMAL_DIGITS_MAX:
        return DecimalType(int(digits[1]), int(digits[2]))
    return _SPARK_TYPES.get(plain, StringType())


class JdbcDataSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        given = _Options(self.options)
        query = (
            "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute"
            " WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum"
        )
        with closing(given.server.connect()) as connection, connection.cursor() as cursor:
            cursor.execute(query, (identifier(given.table.name).as_string(cursor),))
            columns = {name: spark_type(kind) for name, kind in cursor.fetchall()}
        if given.table.column not in columns:
            raise ValueError(f"{given.table.name} has no column {given.table.column}, only {', '.join(columns)}")
        schema = StructType()
        for name, kind in columns.items():
            schema = schema.add(name, kind)
        return schema

    def streamReader(self, schema: StructType) -> "JdbcStreamReader":
        return JdbcStreamReader(_Options(self.options), schema)


class _Options:
    """The settings again, as Spark carries them: texts, under names without regard to case."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        self.server = Server(url=options["url"], user=options.get("user"), password=options.get("password"))
        self.table = IncrementTable(name=options["table"], column=options["incrementColumn"])
        self.start_at = options.get("startAt")
        self.rows_max = int(options["maxRowsPerTrigger"]) if "maxRowsPerTrigger" in options else None
        self.partition_count = int(options["partitions"])


@dataclass
class CutPartition(InputPartition):
    start: Position
    end: Position
    cut: Cut


class JdbcStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: _Options, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._has_target = False
        self._target: str | None = None
        """With the trigger availableNow: the greatest value when the query began, None in a table without rows."""

    def initialOffset(self) -> dict[str, Any]:
        return Position(value=self._options.start_at).to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        rows_max = self._options.rows_max
        return ReadAllAvailable() if rows_max is None else ReadMaxRows(rows_max)

    def prepareForTriggerAvailableNow(self) -> None:
        with closing(self._options.server.connect()) as connection, connection.cursor() as cursor:
            self._target = self._options.table.newest(cursor)
        self._has_target = True

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        if self._has_target and self._target is None:
            return start
        rows_max = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        with closing(self._options.server.connect()) as connection, connection.cursor() as cursor:
            position = self._options.table.next_position(
                cursor, Position.from_json(start), to=self._target, rows_max=rows_max
            )
        return position.to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        first, last = Position.from_json(start), Position.from_json(end)
        with closing(self._options.server.connect()) as connection, connection.cursor() as cursor:
            cuts = self._options.table.cuts(cursor, first, last, self._options.partition_count)
        return [CutPartition(first, last, cut) for cut in cuts]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        from psycopg2.sql import SQL, Identifier

        assert isinstance(partition, CutPartition)
        table = self._options.table
        columns = [
            SQL("{}::text" if isinstance(field.dataType, StringType) else "{}").format(Identifier(field.name))
            for field in self._schema.fields
        ]
        query = SQL("SELECT {} FROM {} WHERE ").format(SQL(", ").join(columns), identifier(table.name))
        with closing(self._options.server.connect()) as connection, connection.cursor("ottla") as cursor:
            cursor.execute(query + table.between(partition.start, partition.end, partition.cut))
            while rows := cursor.fetchmany(FETCH_ROWS):
                yield self._record_batch(rows)

    def _record_batch(self, rows: list[tuple[Any, ...]]) -> "pa.RecordBatch":
        import pyarrow as pa

        from ottla.spark.arrow_types import arrow_type_of

        fields = [pa.field(field.name, arrow_type_of(field.dataType)) for field in self._schema.fields]
        columns = [
            pa.array([bytes(value) if isinstance(value, memoryview) else value for value in column], field.type)
            for field, column in zip(fields, zip(*rows, strict=True), strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))
