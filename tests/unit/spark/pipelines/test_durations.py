"""Lengths of time as people write them."""

import pytest

from ottla.spark.pipelines.durations import duration_ms


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [("500ms", 500), ("2s", 2_000), ("5 minutes", 300_000), ("1 hour", 3_600_000), ("7d", 604_800_000), ("0s", 0)],
)
def test_short_and_long_forms(text: str, expected_ms: int) -> None:
    assert duration_ms(text) == expected_ms


@pytest.mark.parametrize("text", ["", "5", "s", "-5s", "5 parsecs", "1h30m"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no duration such as"):
        duration_ms(text)
