"""Lines into records."""

import pytest

from ottla.cli.record_input import OutgoingRecord, key_value_parser, parse_json_line, parse_value_line


def test_a_plain_line_is_a_value_whatever_its_bytes() -> None:
    assert parse_value_line(b"\xff\x00 a") == OutgoingRecord(value=b"\xff\x00 a")
    assert parse_value_line(b"") == OutgoingRecord(value=b"")


def test_a_key_ends_at_the_first_separator() -> None:
    parse = key_value_parser(": ")
    assert parse(b"a: b: c") == OutgoingRecord(key=b"a", value=b"b: c")
    assert parse(b": b") == OutgoingRecord(key=b"", value=b"b")


def test_a_line_without_its_separator_is_refused() -> None:
    with pytest.raises(ValueError, match="no key separator '='"):
        key_value_parser("=")(b"no equals")


def test_a_json_object_carries_everything_a_record_can() -> None:
    line = b'{"key": "k", "value": "v", "headers": {"a": "1", "b": null}, "partition": 3, "timestamp": 17, "offset": 9}'
    assert parse_json_line(line) == OutgoingRecord(
        key=b"k", value=b"v", headers=[("a", b"1"), ("b", None)], partition=3, timestamp_ms=17
    )


def test_absent_and_null_members_are_null() -> None:
    assert parse_json_line(b"{}") == OutgoingRecord(headers=[])
    assert parse_json_line(b'{"key": null, "value": null}') == OutgoingRecord(headers=[])


@pytest.mark.parametrize(
    ("value", "stored"),
    [("1", b"1"), ("true", b"true"), ('{"a": [1, 2]}', b'{"a":[1,2]}'), ('"\\u00e9"', "é".encode()), ("[]", b"[]")],
)
def test_a_value_that_is_no_string_is_stored_as_json(value: str, stored: bytes) -> None:
    assert parse_json_line(f'{{"value": {value}}}'.encode()).value == stored


def test_bytes_come_as_base64() -> None:
    record = parse_json_line(b'{"key_base64": "/w==", "value_base64": "", "headers": {"h": {"base64": "/g=="}}}')
    assert (record.key, record.value, record.headers) == (b"\xff", b"", [("h", b"\xfe")])


def test_headers_may_repeat_as_pairs() -> None:
    assert parse_json_line(b'{"headers": [["a", "1"], ["a", "2"]]}').headers == [("a", b"1"), ("a", b"2")]


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b"{", "not JSON"),
        (b"\xff", "not JSON"),
        (b"[1]", "not a JSON object"),
        (b'{"partition": "0"}', "partition is not a whole number"),
        (b'{"timestamp": true}', "timestamp is not a whole number"),
        (b'{"timestamp": 1.5}', "timestamp is not a whole number"),
        (b'{"value_base64": "*"}', "value_base64 is not base64"),
        (b'{"key_base64": 7}', "key_base64 is not base64"),
        (b'{"headers": {"h": {"base64": 1}}}', "a header is not base64"),
        (b'{"headers": "a=b"}', "headers are neither"),
        (b'{"headers": [["a"]]}', "headers are neither"),
        (b'{"headers": {"\\ud800": "1"}}', "the header name .* lone surrogate"),
        (b'{"headers": [["\\u0000", "1"]]}', "the header name .* NUL"),
        (b'{"headers": {"a": "1", "a": "2"}}', "member 'a' is given twice"),
        (b'{"key": "a", "key": "b"}', "member 'key' is given twice"),
        (b'{"value": "a", "value_base64": "YQ=="}', "value and value_base64 are both given"),
        (b'{"value": NaN}', "NaN is no JSON"),
        (b'{"value": [-Infinity]}', "-Infinity is no JSON"),
        (b'{"value": 1e999}', "a number too large"),
        (b'{"value": "\\ud800"}', "value .* lone surrogate"),
        (b'{"value": {"a": "\\ud800"}}', "value .* lone surrogate"),
        (b'{"value": ' + b"[" * 100_000 + b"}", "not JSON: too deeply nested"),
        (b'{"partition": -1}', "partition -1 is not within 0 and 2147483647"),
        (b'{"partition": 3000000000}', "partition 3000000000 is not within"),
        (b'{"timestamp": -2}', "timestamp -2 is not within 0 and"),
        (b'{"timestamp": 99999999999999999999}', "timestamp 99999999999999999999 is not within"),
    ],
)
def test_a_wrong_line_says_what_is_wrong(line: bytes, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        parse_json_line(line)


def test_a_misspelt_member_is_refused_not_lost() -> None:
    with pytest.raises(ValueError, match="unknown member 'vlaue': known are headers, key, "):
        parse_json_line(b'{"key": "k", "vlaue": "v"}')


def test_a_record_that_was_printed_without_a_timestamp_has_none_here() -> None:
    assert parse_json_line(b'{"timestamp": -1}').timestamp_ms is None
