import pytest

from ottla.cli.output import counted, rate_text, size_text


@pytest.mark.parametrize(
    ("value_bytes", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (1 << 20, "1.0 MiB"),
        (3 << 30, "3.0 GiB"),
        (5 << 40, "5.0 TiB"),
        (5 << 50, "5120.0 TiB"),
    ],
)
def test_sizes_are_told_in_the_unit_that_fits(value_bytes: int, text: str) -> None:
    assert size_text(value_bytes) == text


def test_counts_have_their_plural() -> None:
    assert [counted(n, "record") for n in (0, 1, 2000)] == ["0 records", "1 record", "2,000 records"]
    assert counted(2, "batch", "batches") == "2 batches"


def test_a_rate_of_no_time_is_unknown() -> None:
    assert rate_text(1000, 0.5) == "2,000/s"
    assert rate_text(1000, 0) == "–"
