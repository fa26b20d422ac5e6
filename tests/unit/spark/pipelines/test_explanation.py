"""A pipeline in words."""

from pathlib import Path

import pytest

from ottla.spark.pipelines.checking import check_files
from ottla.spark.pipelines.explanation import explain

TEXT = """
name: explained
kafka: {security.protocol: SASL_PLAINTEXT, sasl.mechanism: PLAIN, sasl.username: me, sasl.password: hush1}
sources:
  orders: {topic: orders, watermark: {column: timestamp, delay: 90s}}
  files: {type: files, path: 's3://user:hush2@bucket/x?password=hush3', format: text, options: {api-key: hush4, a: 1}}
transform:
  - {sql: "SELECT *\\n  FROM orders", view: all_orders}
  - python: json:dumps
sink: {topic: out}
guarantee: at-least-once
errors: {tolerance: all, deadLetterTopic: letters}
trigger: {interval: 2s}
spark: {spark.a: 1}
"""


@pytest.fixture
def told(tmp_path: Path) -> dict[str, str]:
    file = tmp_path / "p.yaml"
    file.write_text(TEXT)
    [pipeline] = check_files([file], {}).pipelines
    return dict(explain(pipeline, Path("/state/explained")))


def test_everything_is_told_in_words(told: dict[str, str]) -> None:
    assert told["source orders"] == "topic (topic=orders, read=stream); events by timestamp may be 90 s late"
    assert told["step 1"] == "SELECT * FROM orders → all_orders"
    assert told["step 2"] == "Python json:dumps"
    assert told["guarantee"].startswith("at-least-once, as asked for; this sink could give exactly-once: ")
    assert told["errors"] == "records that cannot be read are sent to letters"
    assert told["trigger"] == "a micro-batch every 2 s, if there is something new"
    assert told["checkpoint"].startswith("/state/explained: ")
    assert told["spark"] == "spark.a=1"


def test_secrets_are_not(told: dict[str, str]) -> None:
    assert told["brokers"].endswith("kafka.sasl.mechanism=PLAIN, kafka.sasl.username=me, kafka.sasl.password=…)")
    assert told["source files"] == (
        "files (path=s3://user:…@bucket/x?password=…, format=text, options={api-key=…, a=1})"
    )
    assert "hush" not in str(told)
