"""The columns of a topic in Spark: names and types of the official Kafka connector, so that a query need not change.

`keyFormat` and `valueFormat` give `key` and `value` other types, `badRecords=column` adds `error`. A query that wants
less says so with the option `columns` or with `.schema(…)`: Spark has no way to tell a Python source what it needs.
"""

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql.types import StructField, StructType

from ottla.spark.arrow_types import arrow_type_of
from ottla.spark.options import OptionError
from ottla.spark.source_options import COLUMNS, ERROR_COLUMN, BadRecords, FieldFormat, Format, SourceOptions

# Column -> its type, as Spark writes it.
_TYPES: Final = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
    "headers": "array<struct<key:string,value:binary>>",
    ERROR_COLUMN: "string",
}


def spark_schema(options: SourceOptions) -> str:
    """What a query gets that names no schema."""
    names = list(_names(options))
    if options.bad_records is BadRecords.COLUMN:
        names.append(ERROR_COLUMN)
    return ", ".join(f"{name} {_spark_type(name, options)}" for name in names)


def _names(options: SourceOptions) -> Sequence[str]:
    if options.columns:
        return options.columns
    return [name for name in COLUMNS if name != "headers" or options.include_headers]


def _spark_type(name: str, options: SourceOptions) -> str:
    given = format_of(name, options)
    if given.kind is not Format.JSON:
        return _TYPES[name] if given.kind is Format.BINARY else "string"
    if not given.schema:
        raise OptionError(f'{name}Format=json needs a schema: .option("{name}Schema", "id bigint, city string")')
    return f"struct<{given.schema}>"


def format_of(name: str, options: SourceOptions) -> FieldFormat:
    match name:
        case "key":
            return options.key_format
        case "value":
            return options.value_format
        case _:
            return FieldFormat()


def arrow_schema(options: SourceOptions, schema: StructType) -> pa.Schema:
    """What Spark expects from a reader with this schema, and it refuses what differs in the least."""
    return pa.schema([_checked_field(field, options) for field in schema.fields])


def _checked_field(field: StructField, options: SourceOptions) -> pa.Field:
    known = [name for name in _TYPES if name != ERROR_COLUMN or options.bad_records is BadRecords.COLUMN]
    if field.name not in known:
        raise OptionError(f"there is no column {field.name}, only {', '.join(known)}")
    named = field.dataType.simpleString()
    if format_of(field.name, options).kind is not Format.JSON and named != _spark_type(field.name, options):
        raise OptionError(f"the column {field.name} is {_spark_type(field.name, options)}, not {named}")
    return pa.field(field.name, arrow_type_of(field.dataType), nullable=field.nullable)
