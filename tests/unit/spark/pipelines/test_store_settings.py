"""What the stores' sinks and the JDBC source say about settings, without connecting to anything."""

from collections.abc import Mapping
from typing import Any

import pytest

from ottla.spark.pipelines.contract import Guarantee, Sink, Source
from ottla.spark.pipelines.sinks.delta import DeltaSink
from ottla.spark.pipelines.sinks.elasticsearch import ElasticsearchSink
from ottla.spark.pipelines.sinks.iceberg import IcebergSink
from ottla.spark.pipelines.sinks.jdbc import JdbcSink
from ottla.spark.pipelines.sources.jdbc import JdbcSource

POSTGRES = {"url": "jdbc:postgresql://db/shop", "table": "orders"}
RIGHT: Mapping[type[Sink] | type[Source], dict[str, Any]] = {
    DeltaSink: {"table": "lake/orders"},
    IcebergSink: {"table": "shop.orders", "warehouse": "lake"},
    JdbcSink: POSTGRES,
    ElasticsearchSink: {"url": "https://search:9200", "index": "orders"},
    JdbcSource: {**POSTGRES, "incrementColumn": "id"},
}


def filled(kind: type[Sink] | type[Source], **settings: object) -> dict[str, Any]:
    return {one.name: one.default for one in kind.settings} | RIGHT[kind] | settings


@pytest.mark.parametrize("kind", RIGHT)
def test_the_least_settings_are_enough(kind: type[Sink] | type[Source]) -> None:
    assert {one.name for one in kind.settings if one.is_required} <= set(RIGHT[kind])
    assert not list(kind.check(filled(kind)))


@pytest.mark.parametrize(
    ("kind", "settings", "setting", "reason"),
    [
        (DeltaSink, {"partitionBy": [1]}, "partitionBy", "column names"),
        (IcebergSink, {"table": "orders"}, "table", "namespace.table"),
        (IcebergSink, {"catalog": {"type": "rest"}}, "warehouse", "exactly one"),
        (IcebergSink, {"warehouse": None}, "warehouse", "exactly one"),
        (JdbcSink, {"url": "jdbc:mysql://db/shop"}, "url", "only PostgreSQL"),
        (JdbcSink, {"deletes": True}, "deletes", "needs keys"),
        (JdbcSink, {"orderBy": "at"}, "orderBy", "needs keys"),
        (ElasticsearchSink, {"url": "search:9200"}, "url", "http://host:port"),
        (ElasticsearchSink, {"user": "me"}, "user", "belong together"),
        (ElasticsearchSink, {"user": "me", "password": "x", "apiKey": "y"}, "apiKey", "one of them"),
        (ElasticsearchSink, {"bulkBytes": 0}, "bulkBytes", "positive"),
        (JdbcSource, {"url": "db:5432"}, "url", "only PostgreSQL"),
        (JdbcSource, {"partitions": 0}, "partitions", "positive"),
        (JdbcSource, {"maxRowsPerTrigger": -1}, "maxRowsPerTrigger", "positive"),
    ],
)
def test_what_is_wrong_is_told(
    kind: type[Sink] | type[Source], settings: dict[str, object], setting: str, reason: str
) -> None:
    (wrong,) = kind.check(filled(kind, **settings))
    assert wrong.setting == setting
    assert reason in wrong.reason


@pytest.mark.parametrize(
    ("kind", "settings", "because"),
    [
        (DeltaSink, {}, "carries the batch's number"),
        (IcebergSink, {}, "as a table property"),
        (JdbcSink, {"keys": ["id"]}, "upserted by its key"),
        (JdbcSink, {}, "ottla_batches"),
        (ElasticsearchSink, {}, "topic, partition and offset"),
        (ElasticsearchSink, {"id": "order_id"}, "the column order_id"),
    ],
)
def test_every_store_gives_exactly_once_and_says_how(
    kind: type[Sink], settings: dict[str, object], because: str
) -> None:
    promise = kind.strongest(filled(kind, **settings))
    assert promise.guarantee is Guarantee.EXACTLY_ONCE
    assert because in promise.because
