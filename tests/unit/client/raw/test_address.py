"""Addresses as people write them."""

import pytest

from ottla.client.raw.address import Address, parse_address


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("localhost:9093", Address("localhost", 9093)),
        ("broker", Address("broker", 9092)),
        (" 10.0.0.1:1 ", Address("10.0.0.1", 1)),
        ("[::1]:9092", Address("::1", 9092)),
        ("[::1]", Address("::1", 9092)),
        ("SASL_SSL://kafka.example:9094", Address("kafka.example", 9094)),
    ],
)
def test_an_address_is_read(text: str, address: Address) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["", ":9092", "host:", "host:port", "host:90 92"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not host:port"):
        parse_address(text)
