"""Records into lines. The JSON form must come back through `record_input` as it was."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.cli.record_format import ConsumedRecord, formatter_of, line_for_people, moment, visible
from ottla.cli.record_input import OutgoingRecord, parse_json_line

RECORD = ConsumedRecord("orders", 2, 41, 1_700_000_000_123, b"k", b"v%", [("a", b"1"), ("b", None)])
NULLS = ConsumedRecord("orders", 0, 0, None, None, None, [])

anything = st.none() | st.binary(max_size=20) | st.text(max_size=10).map(str.encode)
header_names = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=5)


@given(
    key=anything,
    value=anything,
    headers=st.lists(st.tuples(header_names, anything), max_size=4),
    partition=st.integers(0, 100),
    timestamp_ms=st.none() | st.integers(0, 2**50),
)
def test_json_is_read_back_as_it_was(
    key: bytes | None,
    value: bytes | None,
    headers: list[tuple[str, bytes | None]],
    partition: int,
    timestamp_ms: int | None,
) -> None:
    line = formatter_of("json")(ConsumedRecord("t", partition, 7, timestamp_ms, key, value, headers))
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert parse_json_line(line) == OutgoingRecord(key, value, headers, partition, timestamp_ms)


def test_json_names_where_a_record_is() -> None:
    document = json.loads(formatter_of("json")(RECORD))
    assert document == {
        "topic": "orders",
        "partition": 2,
        "offset": 41,
        "timestamp": 1_700_000_000_123,
        "key": "k",
        "value": "v%",
        "headers": {"a": "1", "b": None},
    }


def test_text_is_the_value_alone_byte_for_byte() -> None:
    assert formatter_of("text")(RECORD._replace(value=b"\xff\x00")) == b"\xff\x00\n"
    assert formatter_of("text")(NULLS) == b"\n"


@pytest.mark.parametrize(
    ("template", "line"),
    [
        ("%k %v %o %p %t", b"k v% 41 2 1700000000123\n"),
        ("%n|%s|%h|%%", b"orders|2|a=1,b=|%\n"),
        (r"%k\t%v\n", b"k\tv%\n"),
        (r"a\\t%o", b"a\\t41\n"),
    ],
)
def test_a_template_is_filled(template: str, line: bytes) -> None:
    assert formatter_of(template)(RECORD) == line


def test_a_template_shows_nulls_as_nothing() -> None:
    assert formatter_of("[%k][%v][%t][%h]")(NULLS) == b"[][][-1][]\n"


@pytest.mark.parametrize("name", ["yaml", "", "%x", "100%", "%k %"])
def test_an_unknown_format_or_field_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="template"):
        formatter_of(name)


def test_hex_shows_offsets_bytes_and_text() -> None:
    shown = formatter_of("hex")(RECORD._replace(value=bytes(range(60, 78)), headers=[])).decode().splitlines()
    assert shown[0].startswith("── orders-2 @ 41  ")
    assert shown[1:4] == ["key: 1 bytes", "  00000000  6b" + " " * 45 + "  k", "value: 18 bytes"]
    assert shown[4] == "  00000000  3c 3d 3e 3f 40 41 42 43 44 45 46 47 48 49 4a 4b  <=>?@ABCDEFGHIJK"
    assert shown[5] == "  00000010  4c 4d" + " " * 42 + "  LM"
    assert "value: null" in formatter_of("hex")(NULLS).decode()


def test_a_record_cannot_drive_the_terminal() -> None:
    assert visible(b"\x1b[31mred\n") == "\\x1b[31mred\\n"
    assert visible(b"\xff\x01") == "0xff01"
    assert visible("zażółć 😀".encode()) == "zażółć 😀"
    assert "\x1b" not in line_for_people(RECORD._replace(key=b"\x1b]0;pwned\x07", value=b"[bold]x")).plain


def test_a_line_for_people_has_place_key_value_and_headers() -> None:
    line = line_for_people(RECORD).plain
    assert line.startswith("2:41  ")
    assert line.endswith("k → v%  a=1  b=null")
    assert line_for_people(NULLS).plain == "0:0  –  null"


@pytest.mark.parametrize(("timestamp_ms", "text"), [(None, "–"), (-1, "–"), (2**62, str(2**62))])
def test_a_timestamp_is_whatever_the_producer_wrote(timestamp_ms: int | None, text: str) -> None:
    assert moment(timestamp_ms) == text
