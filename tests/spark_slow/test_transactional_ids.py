"""A query that runs for long is no burden to its broker: the ids it uses are the same after 10,000 micro-batches."""

from ottla.client import Admin
from ottla.spark.decisions import transactional_prefix
from ottla.testing import Broker
from tests.unit.spark.query_runs import PARTITIONS, TASKS, Driver, Query

MICRO_BATCHES = 10_000
RUNS = 10


def ids_of(query: Query) -> set[str]:
    with Admin(bootstrap_servers=query.broker.bootstrap_servers) as admin:
        listed = {one.transactional_id for one in admin.list_transactions()}
    return {one for one in listed if one.startswith(transactional_prefix(query.query_id))}


def test_transactional_ids_are_the_same_after_ten_thousand_micro_batches(
    ottla_broker: Broker, ottla_topic: str
) -> None:
    with Admin(bootstrap_servers=ottla_broker.bootstrap_servers) as admin:
        admin.create_topic(ottla_topic, PARTITIONS)
    query = Query(ottla_broker, ottla_topic)
    batch_ids = iter(range(MICRO_BATCHES))
    used = []
    for _ in range(RUNS):
        driver = Driver(query)
        for _ in range(MICRO_BATCHES // RUNS):
            driver.batch(next(batch_ids))
        used.append(ids_of(query))
    assert all(ids == used[0] for ids in used)
    assert len(used[0]) == TASKS + 1
