"""Spark's types in Arrow, as far as a record's key or value can have them.

PySpark has such a function of its own, but it is not part of its interface and changed between 4.2 and 4.3.
"""

from typing import Final

import pyarrow as pa
from pyspark.sql import types as spark

from ottla.spark.options import OptionError

_SIMPLE: Final[dict[type[spark.DataType], pa.DataType]] = {
    spark.BooleanType: pa.bool_(),
    spark.ByteType: pa.int8(),
    spark.ShortType: pa.int16(),
    spark.IntegerType: pa.int32(),
    spark.LongType: pa.int64(),
    spark.FloatType: pa.float32(),
    spark.DoubleType: pa.float64(),
    spark.StringType: pa.string(),
    spark.BinaryType: pa.binary(),
    spark.DateType: pa.date32(),
    spark.TimestampType: pa.timestamp("us", "UTC"),
    spark.TimestampNTZType: pa.timestamp("us"),
}


def arrow_type_of(data_type: spark.DataType) -> pa.DataType:
    match data_type:
        case spark.StructType():
            return pa.struct([_field(one) for one in data_type.fields])
        case spark.ArrayType():
            return pa.list_(arrow_type_of(data_type.elementType))
        case spark.MapType():
            return pa.map_(arrow_type_of(data_type.keyType), arrow_type_of(data_type.valueType))
        case spark.DecimalType():
            return pa.decimal128(data_type.precision, data_type.scale)
        case _ if type(data_type) in _SIMPLE:
            return _SIMPLE[type(data_type)]
        case _:
            raise OptionError(f"a schema with the type {data_type.simpleString()} cannot be read")


def _field(field: spark.StructField) -> pa.Field:
    if not field.nullable:
        raise OptionError(f"{field.name} is NOT NULL in the schema: any field may be missing in a record, leave it out")
    return pa.field(field.name, arrow_type_of(field.dataType))
