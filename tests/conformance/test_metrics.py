"""`ottla.metrics.port`: a page that Prometheus reads, from a real broker and from several on one machine."""

import pytest

import ottla.testing
from ottla.client import Admin
from ottla.testing import BrokerFailed
from tests.conformance.ports import free_ports
from tests.conformance.scraping import scrape


def test_prometheus_reads_what_a_node_tells_of_itself() -> None:
    (port,) = free_ports(1)
    with ottla.testing.broker(config={"ottla.metrics.port": port}) as broker:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topic("orders", 3)
        told = scrape(broker.host, port)
        assert told["kafka_server_replicamanager_leadercount"] == 3
        assert told["kafka_controller_controllerstats_uncleanleaderelections_total"] == 0
        assert told["ottla_transactions_prepared_age_seconds"] == 0
        broker.restart()
        assert scrape(broker.host, port)["kafka_server_replicamanager_leadercount"] == 3


def test_a_port_that_is_taken_is_refused_with_the_reason() -> None:
    (port,) = free_ports(1)
    config = {"ottla.metrics.port": port}
    with (
        ottla.testing.broker(config=config),
        pytest.raises(BrokerFailed, match=r"choose another ottla\.metrics\.port"),
        ottla.testing.broker(config=config),
    ):
        pass
