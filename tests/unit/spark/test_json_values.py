"""JSON to typed columns: Arrow's fast way and Python's slow one agree, and no row's bytes can reach into another row."""

import json
import string
from datetime import datetime

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.spark.json_values import BRACKETS_MAX, JsonColumn
from ottla.spark.source_options import Format
from ottla.spark.value_formats import Decoded, decoder_of

ORDER = pa.struct(
    [
        ("id", pa.int64()),
        ("city", pa.string()),
        ("amount", pa.float64()),
        ("paid", pa.bool_()),
        ("tags", pa.list_(pa.string())),
        ("price", pa.decimal128(8, 2)),
        ("at", pa.timestamp("us", "UTC")),
        ("buyer", pa.struct([("name", pa.string()), ("age", pa.int32())])),
    ]
)
TEXT = st.text(max_size=8)
BUYERS = st.none() | st.fixed_dictionaries(
    {}, optional={"name": st.none() | TEXT, "age": st.none() | st.integers(0, 99)}
)
TIMES = st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1)).map(datetime.isoformat)
ORDERS = st.none() | st.fixed_dictionaries(
    {},
    optional={
        "id": st.none() | st.integers(-(2**63), 2**63 - 1),
        "city": st.none() | TEXT,
        "amount": st.none() | st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**70), 2**70),
        "paid": st.none() | st.booleans(),
        "tags": st.none() | st.lists(st.none() | TEXT, max_size=3),
        "price": st.none()
        | st.integers(-999_999, 999_999)
        | st.integers(-99_999_999, 99_999_999).map(lambda n: f"{n / 100}"),
        "at": st.none() | TIMES | TIMES.map(lambda time: f"{time}Z"),
        "buyer": BUYERS,
        "unknown": st.none() | TEXT | st.lists(st.integers(), max_size=2),
    },
)


def decoded(rows: list[bytes | None], arrow_type: pa.DataType = ORDER) -> Decoded:
    return decoder_of(Format.JSON, arrow_type)(pa.array(rows, pa.binary()))


@given(st.lists(st.tuples(ORDERS, st.booleans()), min_size=1, max_size=20))
def test_all_at_once_is_what_one_by_one_gives(orders: list) -> None:
    rows = [json.dumps(order, ensure_ascii=ascii_only, indent=1).encode() for order, ascii_only in orders]
    column = JsonColumn(ORDER)
    at_once = column.parse_all(pa.array(rows, pa.binary()))
    assert at_once is not None, rows
    assert at_once.to_pylist() == pa.array([column.parse_one(row) for row in rows], ORDER).to_pylist()


FRAGMENTS = st.sampled_from(
    [
        '{"id":',
        "1",
        "}",
        "{",
        ",",
        '"row":',
        '"value":',
        "0",
        "[",
        "]",
        '"',
        "\n",
        " ",
        "null",
        "{}",
        '"a"',
        ":",
        "1e400",
    ]
)


@settings(max_examples=300)
@given(st.lists(st.lists(FRAGMENTS, max_size=8).map("".join), min_size=1, max_size=4))
def test_no_row_reaches_into_another(rows: list[str]) -> None:
    """Rows made to break out of their line: each decodes as if it were alone."""
    together = decoded([row.encode() for row in rows])
    for number, row in enumerate(rows):
        alone = decoded([row.encode()])
        assert together.column[number].as_py() == alone.column[0].as_py()
        assert (number in together.reasons) == (0 in alone.reasons)


def test_bad_rows_are_null_with_the_reason_and_good_ones_stay() -> None:
    result = decoded([b'{"id": 1}', b"oops", None, b'{"id": "x"}', b'{"id": 2, "tags": ["a", 5]}', b'{"id": 3}'])
    assert [row and row["id"] for row in result.column.to_pylist()] == [1, None, None, None, None, 3]
    assert sorted(result.reasons) == [1, 3, 4]
    assert result.reasons[3] == "id: a string is no whole number of 64 bits"
    assert result.reasons[4] == "tags: 1: 5 is not a string"


@pytest.mark.parametrize(
    "row",
    [
        b"",
        b" ",
        b'{"id": 1}{"id": 2}',
        b'{"id": 1}, "row": 7',
        b'{"id": 1',
        b'{"id": NaN}',
        b'{"amount": 1e999}',
        b'{"city": "\xff"}',
        b'{"city": "\\ud800"}',
        b'{"city": "a\nb"}',
        b"[1]",
        b"5",
        '{"id": 1}'.encode("utf-16"),
        b"[" * (BRACKETS_MAX + 1) * 20,
        b'{"unknown": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ],
)
def test_what_is_not_json_of_the_schema_is_bad(row: bytes) -> None:
    result = decoded([b'{"id": 1}', row, b'{"id": 2}'])
    assert list(result.reasons) == [1]
    assert [found and found["id"] for found in result.column.to_pylist()] == [1, None, 2]


def test_null_is_no_bad_record_whoever_says_it() -> None:
    result = decoded([None, b"null"])
    assert result.column.to_pylist() == [None, None] and not result.reasons


def test_of_a_repeated_field_the_last_counts() -> None:
    assert decoded([b'{"id": 1, "id": 2}']).column[0].as_py()["id"] == 2


@pytest.mark.parametrize(
    ("arrow_type", "text", "value"),
    [
        (pa.decimal128(6, 2), "12.345", "12.35"),
        (pa.decimal128(6, 2), '"7"', "7.00"),
        (pa.date32(), '"2024-02-29"', "2024-02-29"),
        (pa.timestamp("us", "UTC"), '"2024-01-02T03:04:05.678901Z"', "2024-01-02 03:04:05.678901+00:00"),
        (pa.timestamp("us", "UTC"), '"2024-01-02T03:04:05+02:00"', "2024-01-02 01:04:05+00:00"),
        (pa.timestamp("us", "UTC"), '"2024-01-02 03:04:05"', "2024-01-02 03:04:05+00:00"),
        (pa.timestamp("us"), '"2024-01-02T03:04:05"', "2024-01-02 03:04:05"),
        (pa.binary(), '"AQI="', str(b"\x01\x02")),
        (pa.map_(pa.string(), pa.int32()), '{"a": 1}', str([("a", 1)])),
        (pa.float32(), "0.5", "0.5"),
        (pa.int8(), "-128", "-128"),
    ],
)
def test_other_types(arrow_type: pa.DataType, text: str, value: str) -> None:
    result = decoded([f'{{"it": {text}}}'.encode()], pa.struct([("it", arrow_type)]))
    assert not result.reasons
    assert str(result.column[0].as_py()["it"]) == value


@pytest.mark.parametrize(
    ("arrow_type", "text"),
    [
        (pa.int8(), "128"),
        (pa.int64(), "true"),
        (pa.int64(), "1.0"),
        (pa.float64(), '"1"'),
        (pa.decimal128(3, 1), "1000"),
        (pa.decimal128(3, 1), "100"),
        (pa.decimal128(3, 1), '"one"'),
        (pa.date32(), '"29.2.2024"'),
        (pa.timestamp("us", "UTC"), "1700000000"),
        (pa.timestamp("us"), '"2024-01-02T03:04:05Z"'),
        (pa.binary(), '"?"'),
        (pa.bool_(), "1"),
        (pa.string(), "1"),
        (pa.map_(pa.string(), pa.int32()), '{"a": "b"}'),
    ],
)
def test_what_does_not_fit_the_type_is_bad(arrow_type: pa.DataType, text: str) -> None:
    assert decoded([f'{{"it": {text}}}'.encode()], pa.struct([("it", arrow_type)])).reasons[0].startswith("it: ")


def test_strings_that_are_not_utf8_are_bad() -> None:
    result = decoder_of(Format.STRING, pa.string())(pa.array([b"caf\xc3\xa9", b"caf\xe9", None]))
    assert result.column.to_pylist() == ["café", None, None]
    assert list(result.reasons) == [1]


@given(st.lists(st.none() | st.text(string.printable)))
def test_strings_are_what_they_were(rows: list[str | None]) -> None:
    encoded = pa.array([None if row is None else row.encode() for row in rows], pa.binary())
    assert decoder_of(Format.STRING, pa.string())(encoded).column.to_pylist() == rows
