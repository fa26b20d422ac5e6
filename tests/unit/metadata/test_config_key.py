"""Texts become typed values, or one sentence that says why not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.metadata.config_key import (
    InvalidConfigValue,
    between,
    between_or,
    double,
    flag,
    int16,
    int32,
    int64,
    names,
    one_of,
    parse,
    render,
    secret,
    text,
)

ANY = [make("a.key", None, "Says something.") for make in (flag, int16, int32, int64, double, names, text, secret)]


@pytest.mark.parametrize(
    ("key", "given_text", "value"),
    [
        (flag("a", False, "."), " TRUE ", True),
        (int32("a", 0, "."), " 12 ", 12),
        (int32("a", 0, "."), "+12", 12),
        (int64("a", 0, "."), "-9223372036854775808", -(2**63)),
        (double("a", 0.0, "."), "0.25", 0.25),
        (names("a", (), "."), "compact, delete", ("compact", "delete")),
        (names("a", (), "."), "", ()),
        (text("a", None, "."), " x ", "x"),
    ],
)
def test_text_becomes_a_typed_value(key, given_text, value):
    assert parse(key, given_text) == value


@pytest.mark.parametrize(
    ("key", "given_text", "reason"),
    [
        (flag("a", False, "."), "yes", "expected true or false"),
        (int32("a", 0, "."), "1_000", "not a whole number of type INT"),
        (int32("a", 0, "."), "١٢", "not a whole number of type INT"),
        (int32("a", 0, "."), "", "not a whole number of type INT"),
        (int32("a", 0, "."), "2147483648", "outside the range of type INT"),
        (int16("a", 0, "."), "-32769", "outside the range of type SHORT"),
        (int64("a", 0, "."), "1e3", "not a whole number of type LONG"),
        (double("a", 0.0, "."), "nan", "not a number"),
        (int32("a", 0, ".", minimum=1), "0", "must be at least 1"),
        (int32("a", 0, ".", check=between(1, 9)), "10", "must be between 1 and 9 (inclusive)"),
        (int32("a", 0, ".", check=between_or(1, 9, -1)), "0", "must be between 1 and 9 (inclusive) or -1"),
        (text("a", None, ".", check=one_of("x", "y")), "z", "'z' is none of x, y"),
        (names("a", (), ".", check=one_of("x", "y")), "x,x", "an item is named twice"),
    ],
)
def test_a_wrong_value_is_refused_with_the_reason(key, given_text, reason):
    with pytest.raises(InvalidConfigValue) as refused:
        parse(key, given_text)
    assert str(refused.value) == f"Invalid value {given_text} for configuration a: {reason}"


def test_the_exception_beside_a_range_is_allowed():
    assert parse(int32("a", 0, ".", check=between_or(1, 9, -1)), "-1") == -1


def test_a_secret_is_never_repeated_in_a_refusal():
    key = secret("a.password", None, ".", check=lambda value: "too short")
    with pytest.raises(InvalidConfigValue) as refused:
        parse(key, "hunter2")
    assert str(refused.value) == "Invalid value [hidden] for configuration a.password: too short"


@given(st.sampled_from(ANY), st.text())
def test_any_text_ends_in_a_value_or_a_refusal(key, given_text):
    try:
        value = parse(key, given_text)
    except InvalidConfigValue:
        return
    assert parse(key, render(value) or "") == value
