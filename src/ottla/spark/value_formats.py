"""From the bytes of keys or values to typed Arrow columns: `keyFormat` and `valueFormat`.

A decoder takes a whole column and never fails as a whole: what is not what the format says is null in the result, with
the reason beside it, and bad_records.py knows what the query wants done with it. A null stays null: a tombstone is no
bad record. A further format is one more case here.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import assert_never

import pyarrow as pa

from ottla.spark.json_values import JsonColumn
from ottla.spark.source_options import Format


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    column: pa.Array
    reasons: Mapping[int, str] = field(default_factory=dict)
    """Row -> what is wrong with its bytes."""


Decoder = Callable[[pa.Array], Decoded]


def decoder_of(kind: Format, arrow_type: pa.DataType) -> Decoder:
    match kind:
        case Format.BINARY:
            return lambda column: Decoded(column=column)
        case Format.STRING:
            return _decode_strings
        case Format.JSON:
            return _json_decoder(arrow_type)
        case _:
            assert_never(kind)


def _decode_strings(column: pa.Array) -> Decoded:
    try:
        return Decoded(column=column.cast(pa.string()))
    except pa.ArrowInvalid:  # Some row is not UTF-8, and Arrow does not say which.
        return _decode_each(column, pa.string(), bytes.decode)


def _json_decoder(arrow_type: pa.DataType) -> Decoder:
    json_column = JsonColumn(arrow_type)

    def decode(column: pa.Array) -> Decoded:
        parsed = json_column.parse_all(column)
        if parsed is not None:
            return Decoded(column=parsed)
        return _decode_each(column, arrow_type, json_column.parse_one)

    return decode


def _decode_each(column: pa.Array, arrow_type: pa.DataType, decode: Callable[[bytes], object]) -> Decoded:
    rows: list[object] = []
    reasons: dict[int, str] = {}
    for row, data in enumerate(column.to_pylist()):
        try:
            rows.append(None if data is None else decode(data))
        except (ValueError, RecursionError) as error:
            rows.append(None)
            reasons[row] = str(error)
    return Decoded(column=pa.array(rows, arrow_type), reasons=reasons)
