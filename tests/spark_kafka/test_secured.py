"""Source, sink, dead letters and pipelines through TLS and SASL, with the official connector's options."""

from pathlib import Path
from typing import Any

import pytest

from ottla.client import Admin
from tests.secured_kafka import PASSWORD, USER, SecuredKafka
from tests.spark.brokers import ForeignBroker
from tests.spark.pipeline_runs import consumed, created, pipelines, ran
from tests.spark.source_topics import filled, sent, values

PIPELINE = """
name: secured
bootstrapServers: {servers}
kafka:
  security.protocol: SASL_SSL
  sasl.mechanism: SCRAM-SHA-256
  sasl.username: {user}
  sasl.password: '{password}'
  ssl.ca.location: {authority}
source: {{topic: orders, valueFormat: json, valueSchema: "id bigint"}}
sink: {{topic: copies}}
guarantee: exactly-once
errors: {{tolerance: all, deadLetterTopic: letters}}
"""


def official(kafka: SecuredKafka) -> dict[str, str]:
    """As users of Spark's official connector say it."""
    password = PASSWORD.replace('"', '\\"')
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    return {
        "kafka.bootstrap.servers": kafka.addresses["SASLTLS"],
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": f'{module} required username="{USER}" password="{password}";',
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.location": str(kafka.authority),
    }


def test_the_official_connectors_options(spark: Any, kafka: SecuredKafka) -> None:
    plain = ForeignBroker(kafka.plaintext)
    filled(plain, "numbers", 1000)
    created(plain, "again")
    options = official(kafka)
    frame = spark.read.format("ottla").options(**options).option("subscribe", "numbers").load()
    frame.write.format("ottla").mode("append").options(**options).option("topic", "again").save()
    copied = spark.read.format("ottla").options(**options).option("subscribe", "again").load()
    assert values(copied) == sorted(f"v{number}" for number in range(1000))


def test_a_pipeline(spark: Any, kafka: SecuredKafka, tmp_path: Path) -> None:
    """Exactly once, with a dead letter, and a group that sees how far it is."""
    plain = ForeignBroker(kafka.plaintext)
    created(plain, "orders", "copies", "letters")
    sent(plain, "orders", [b'{"id": 1}', b"no JSON", b'{"id": 2}'])
    servers, authority = kafka.addresses["SASLTLS"], kafka.authority
    text = PIPELINE.format(servers=servers, authority=authority, user=USER, password=PASSWORD)
    [status] = ran(spark, tmp_path, pipelines(tmp_path, plain, text))
    assert status.reason is None
    assert [value for _, value in consumed(spark, plain, "copies")] == [{"id": 1}, {"id": 2}]
    letters = spark.read.format("ottla").option("kafka.bootstrap.servers", plain.bootstrap_servers)
    assert values(letters.option("subscribe", "letters").load()) == ["no JSON"]
    with Admin(bootstrap_servers=plain.bootstrap_servers) as admin:
        assert "secured" in {group.group for group in admin.list_groups()}


def test_a_wrong_password_ends_the_query_at_once(spark: Any, kafka: SecuredKafka) -> None:
    options = {
        **official(kafka),
        "kafka.sasl.jaas.config": official(kafka)["kafka.sasl.jaas.config"].replace("s, ", ""),
    }
    with pytest.raises(Exception, match=r"SASL_AUTHENTICATION_FAILED.*Check sasl.mechanism"):
        spark.read.format("ottla").options(**options).option("subscribe", "numbers").load().count()
