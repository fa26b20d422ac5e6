"""PostgreSQL's texts as JSON."""

from typing import Any

import pytest

from ottla.cdc.column_types import DerivedType, converter

ANY_MODIFIER = -1
INTEGER, TEXT, TIMESTAMP = 23, 25, 1114
DERIVED = {
    1007: DerivedType(element_oid=INTEGER),
    1009: DerivedType(element_oid=TEXT),
    50_001: DerivedType(base_oid=INTEGER),
    50_002: DerivedType(base_oid=TIMESTAMP, base_modifier=3),
    50_003: DerivedType(element_oid=50_001),
}


@pytest.mark.parametrize(
    ("oid", "modifier", "text", "value"),
    [
        (16, ANY_MODIFIER, "t", True),
        (16, ANY_MODIFIER, "f", False),
        (20, ANY_MODIFIER, "-9223372036854775808", -(2**63)),
        (21, ANY_MODIFIER, "7", 7),
        (26, ANY_MODIFIER, "4294967295", 2**32 - 1),
        (700, ANY_MODIFIER, "1.5", 1.5),
        (701, ANY_MODIFIER, "1e-07", 1e-07),
        (701, ANY_MODIFIER, "NaN", "NaN"),
        (701, ANY_MODIFIER, "-Infinity", "-Infinity"),
        (1700, 655366, "12345678901234567890.10", "12345678901234567890.10"),
        (790, ANY_MODIFIER, "-$1,234.50", "-1234.50"),
        (17, ANY_MODIFIER, "\\xdeadbeef", "3q2+7w=="),
        (17, ANY_MODIFIER, "\\x", ""),
        (2950, ANY_MODIFIER, "5f2b", "5f2b"),
        (3802, ANY_MODIFIER, '{"a": 1}', '{"a": 1}'),
        (1082, ANY_MODIFIER, "1970-01-02", 1),
        (1082, ANY_MODIFIER, "1969-12-31", -1),
        (1082, ANY_MODIFIER, "infinity", "infinity"),
        (1082, ANY_MODIFIER, "0044-03-15 BC", "0044-03-15 BC"),
        (1083, ANY_MODIFIER, "00:00:01.5", 1_500_000),
        (1083, 3, "24:00:00", 86_400_000),
        (TIMESTAMP, ANY_MODIFIER, "1970-01-01 00:00:01.000002", 1_000_002),
        (TIMESTAMP, ANY_MODIFIER, "1970-01-01 00:00:01.1", 1_100_000),
        (TIMESTAMP, 6, "1969-12-31 23:59:59.999999", -1),
        (TIMESTAMP, 3, "1970-01-01 00:00:01.234", 1234),
        (TIMESTAMP, ANY_MODIFIER, "-infinity", "-infinity"),
        (1184, ANY_MODIFIER, "2026-11-15 09:30:00.25+00", "2026-11-15T09:30:00.25Z"),
        (1184, ANY_MODIFIER, "infinity", "infinity"),
        (1186, ANY_MODIFIER, "P1Y2M3DT4H5M6S", "P1Y2M3DT4H5M6S"),
        (1560, 1, "1", True),
        (1560, 4, "1010", "1010"),
        (99_999, ANY_MODIFIER, "happy", "happy"),
        (50_001, ANY_MODIFIER, "5", 5),
        (50_002, ANY_MODIFIER, "1970-01-01 00:00:01", 1000),
    ],
)
def test_a_value_becomes_json(oid: int, modifier: int, text: str, value: Any) -> None:
    converted = converter(oid, modifier, DERIVED)(text)
    assert (converted, type(converted)) == (value, type(value))


@pytest.mark.parametrize(
    ("oid", "text", "value"),
    [
        (1007, "{}", []),
        (1007, "{1,NULL,3}", [1, None, 3]),
        (1007, "{{1,2},{3,4}}", [[1, 2], [3, 4]]),
        (1007, "[0:1]={7,8}", [7, 8]),
        (1009, '{a,"",NULL,"NULL","a b","say \\"hi\\"","back\\\\slash","{1,2}"}', None),
        (50_003, "{5,6}", [5, 6]),
    ],
)
def test_an_array_becomes_a_list(oid: int, text: str, value: Any) -> None:
    expected = ["a", "", None, "NULL", "a b", 'say "hi"', "back\\slash", "{1,2}"] if value is None else value
    assert converter(oid, ANY_MODIFIER, DERIVED)(text) == expected
