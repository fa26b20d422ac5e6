import pytest

from ottla.metadata.configs import BrokerLayers
from ottla.metadata.min_isr import effective_min_isr, setting_without_effect


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
    layers = BrokerLayers(dynamic_default=broker, static={"min.insync.replicas": "1"})
    assert effective_min_isr(topic, layers, replication_factor) == expected


@pytest.mark.parametrize(("own", "cluster", "is_told"), [(None, "2", 0), ("2", "2", 0), ("2", "1", 1), ("2", None, 1)])
def test_a_node_with_another_number_is_told_that_it_does_not_count(own, cluster, is_told):
    assert (setting_without_effect(own, cluster) is not None) == is_told
