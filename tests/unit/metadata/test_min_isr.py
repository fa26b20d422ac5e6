import pytest

from ottla.metadata.configs import BrokerLayers
from ottla.metadata.min_isr import effective_min_isr


@pytest.mark.parametrize(
    ("topic", "broker", "replication_factor", "expected"),
    [
        ({}, {}, 1, 1),
        ({}, {}, 2, 1),
        ({}, {}, 3, 2),
        ({"min.insync.replicas": "3"}, {}, 3, 3),
        ({"min.insync.replicas": "3"}, {}, 2, 2),
        ({}, {"min.insync.replicas": "3"}, 3, 3),
        ({"min.insync.replicas": "1"}, {"min.insync.replicas": "3"}, 3, 1),
    ],
)
def test_what_the_topic_or_the_brokers_demand_and_never_more_than_there_are_replicas(
    topic, broker, replication_factor, expected
):
    assert effective_min_isr(topic, BrokerLayers(static=broker), replication_factor) == expected
