"""Keys and values between programs and bytes."""

import pytest

from ottla.client.serializers import from_json, from_utf8, to_bytes, to_json


@pytest.mark.parametrize(
    ("given", "expected"),
    [(None, None), ("Łódź", "Łódź".encode()), (b"raw", b"raw"), (bytearray(b"ba"), b"ba"), (memoryview(b"mv"), b"mv")],
)
def test_to_bytes(given: object, expected: bytes | None) -> None:
    assert to_bytes(given) == expected


def test_what_is_neither_text_nor_bytes_is_refused_with_a_way_out() -> None:
    with pytest.raises(TypeError, match=r"not int.*to_json"):
        to_bytes(7)


def test_json_round_trip() -> None:
    value = {"id": 7, "name": "Ottla", "tags": [None, True]}
    assert from_json(to_json(value) or b"") == value
    assert to_json(None) is None


def test_utf8() -> None:
    assert from_utf8("Łódź".encode()) == "Łódź"
