"""A key given twice is told, not dropped."""

import pytest
import typer

from ottla.cli.options import key_value_pairs, key_values


def test_a_key_given_twice_is_a_usage_error() -> None:
    with pytest.raises(typer.BadParameter, match="given twice"):
        key_values(["cleanup.policy=compact", "cleanup.policy=delete"], "--append")
    assert key_values(["a=1", "b="], "--set") == {"a": "1", "b": ""}


def test_a_header_may_repeat() -> None:
    assert key_value_pairs(["trace=1", "trace=2"], "--header") == [("trace", "1"), ("trace", "2")]
    with pytest.raises(typer.BadParameter, match="is not KEY=VALUE"):
        key_value_pairs(["trace"], "--header")
