"""Files of a Delta table: every row in one file, its partition values in the log."""

from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from ottla.spark.pipelines.sinks import delta_files
from ottla.spark.pipelines.sinks.delta_files import split, write_files

ROWS = pa.table(
    {
        "id": pa.array([1, 2, 3, 4, 5]),
        "city": ["Brno", "a/b=c d", None, "Brno", ""],
        "day": pa.array([date(2026, 1, 1)] * 4 + [None]),
    }
)


def test_rows_are_divided_by_their_values() -> None:
    parts = {values: part.to_pydict() for values, part in split(ROWS, ["city"])}
    assert {values: part["id"] for values, part in parts.items() if values != (None,)} == {
        ("Brno",): [1, 4],
        ("a/b=c d",): [2],
    }
    assert all("city" not in part for part in parts.values())


def test_no_row_is_lost_whatever_it_is_divided_by() -> None:
    rows = pa.table({"flag": [True, None, False, True], "size": [1.5, float("nan"), float("nan"), 0.0]})
    for by in (["flag"], ["size"], ["flag", "size"]):
        assert sum(len(part) for _, part in split(rows, by)) == 4
    assert {values for values, _ in split(rows, ["flag"])} == {("true",), ("false",), (None,)}


def test_without_columns_to_divide_by_rows_stay_together() -> None:
    assert [(values, len(part)) for values, part in split(ROWS, [])] == [((), 5)]


@pytest.mark.parametrize("row_group_bytes", [1, 1 << 20])
def test_what_was_written_is_read_back_by_the_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, row_group_bytes: int
) -> None:
    """In as many row groups as the size asks for, one file for each combination of values."""
    monkeypatch.setattr(delta_files, "ROW_GROUP_BYTES", row_group_bytes)
    uri = str(tmp_path / "table")
    table = DeltaTable.create(uri, ROWS.schema, partition_by=["city", "day"])
    added = list(write_files(uri, {}, ["city", "day"], iter(ROWS.to_batches(max_chunksize=2))))
    table.create_write_transaction(added, mode="append", schema=table.schema(), partition_by=["city", "day"])
    stored = DeltaTable(uri).to_pyarrow_table().sort_by("id").to_pydict()
    assert stored["id"] == [1, 2, 3, 4, 5]
    assert stored["city"] == ["Brno", "a/b=c d", None, "Brno", None]
    assert stored["day"] == ROWS["day"].to_pylist()
    assert len(added) == 4
