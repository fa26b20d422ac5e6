"""A key given twice is told, not dropped."""

import pytest
import typer

from ottla.cli.options import key_values


def test_a_key_given_twice_is_a_usage_error() -> None:
    with pytest.raises(typer.BadParameter, match="given twice"):
        key_values(["cleanup.policy=compact", "cleanup.policy=delete"], "--append")
    assert key_values(["a=1", "b="], "--set") == {"a": "1", "b": ""}
