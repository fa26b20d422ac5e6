"""JSON to Arrow: all rows at once in C++ where Arrow knows the types, otherwise, and when a row is odd, one by one.

For Arrow the rows become lines {"value": <row>, "row": <its number>}. The numbers are what makes that safe: whatever a
row's bytes are, it cannot swallow the next line or pose as two without its number missing, repeated, or out of turn.
Then, or when Arrow refuses anything, Python reads row by row and finds the bad ones. Both ways give the same values.

Fields that the schema does not name are passed over, missing ones are null; of a repeated field the last counts.
"""

import json
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json as arrow_json

from ottla.spark.json_types import converter_of, is_known_to_arrow

# Arrow's parser calls itself for every level of nesting; a row with more brackets than this may be too deep for it.
BRACKETS_MAX: Final = 5_000


class JsonColumn:
    def __init__(self, arrow_type: pa.DataType) -> None:
        self._convert = converter_of(arrow_type)
        self._is_known_to_arrow = is_known_to_arrow(arrow_type)
        self._lines = arrow_json.ParseOptions(
            explicit_schema=pa.schema([("value", arrow_type), ("row", pa.int64())]),
            unexpected_field_behavior="ignore",
        )

    def parse_all(self, column: pa.Array) -> pa.Array | None:
        """None when some row has to be looked at by itself."""
        if not self._is_known_to_arrow or not len(column):
            return None
        try:
            texts = column.cast(pa.string())  # Arrow's parser takes bytes that are not UTF-8 as they are.
            if not _is_shallow(texts):
                return None
            lines = _numbered_lines(texts)
            reading = arrow_json.ReadOptions(use_threads=False, block_size=lines.size + 1)
            table = arrow_json.read_json(pa.BufferReader(lines), reading, self._lines)
            table["value"].validate(full=True)  # It takes decimals of more digits than their type has.
        except pa.ArrowException:
            return None
        is_in_turn = np.array_equal(table["row"].to_numpy(), np.arange(len(column)))
        return table["value"].combine_chunks() if is_in_turn else None

    def parse_one(self, data: bytes) -> Any:
        """ValueError with the reason, RecursionError where it is too deep."""
        return self._convert(json.loads(data.decode(), parse_float=Decimal, parse_constant=_refuse))


def _is_shallow(texts: pa.Array) -> bool:
    if (pc.max(pc.binary_length(texts)).as_py() or 0) <= BRACKETS_MAX:
        return True
    brackets = pc.add(pc.count_substring(texts, "["), pc.count_substring(texts, "{"))
    return bool(pc.max(brackets).as_py() <= BRACKETS_MAX)


def _numbered_lines(texts: pa.Array) -> pa.Buffer:
    numbers = pa.array(np.arange(len(texts))).cast(pa.string())
    lines = pc.binary_join_element_wise(
        '{"value":', texts, ',"row":', numbers, "}\n", "", null_handling="replace", null_replacement="null"
    )
    _, edges, data = lines.buffers()
    return data.slice(0, int(np.frombuffer(edges, np.int32)[len(lines)]))


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")
