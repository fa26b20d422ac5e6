"""Which settings of Spark pipelines can share."""

from pathlib import Path

import pytest
from pyspark.logger import PySparkLogger

from ottla.spark.pipelines.checking import check_files
from ottla.spark.pipelines.definition import Pipeline
from ottla.spark.pipelines.session import ConflictingConf, query_errors_in, shared_conf


def pipelines(tmp_path: Path, *confs: str) -> list[Pipeline]:
    files = []
    for number, conf in enumerate(confs):
        files.append(tmp_path / f"{number}.yaml")
        files[-1].write_text(f"name: p{number}\nsource: {{topic: t}}\nsink: {{topic: u}}\nspark: {{{conf}}}\n")
    return list(check_files(files, {}).pipelines)


def test_sql_settings_are_each_pipelines_own(tmp_path: Path) -> None:
    conf = shared_conf(pipelines(tmp_path, "spark.sql.ansi.enabled: true, spark.a: 1", "spark.sql.ansi.enabled: false"))
    assert conf == {"spark.sql.ansi.enabled": "true", "spark.a": "1"}


def test_one_driver_has_one_value_of_any_other(tmp_path: Path) -> None:
    with pytest.raises(ConflictingConf, match=r"1.yaml: spark.a is 2, and 1 in another pipeline"):
        shared_conf(pipelines(tmp_path, "spark.a: 1", "spark.a: 2"))


@pytest.mark.parametrize("name", ["SQLQueryContextLogger", "DataFrameQueryContextLogger"])
def test_what_spark_says_of_a_wrong_query_is_in_its_log_and_not_on_the_terminal(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], name: str
) -> None:
    query_errors_in(tmp_path / "spark.log")
    logger = PySparkLogger.getLogger(name)
    logger.propagate = False  # As PySpark does before it logs.
    logger.error("no such field")
    assert capfd.readouterr().err == ""
    assert "no such field" in (tmp_path / "spark.log").read_text()
    for handler in list(logger.handlers):
        handler.close()
