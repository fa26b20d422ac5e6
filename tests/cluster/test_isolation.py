"""A node that others take for dead and that lives: it must acknowledge, decide and show nothing that will not last."""

from typing import Final

import pytest
from confluent_kafka import KafkaException

from tests.chaos.writers import LEADER
from tests.cluster.conftest import Report
from tests.cluster.faults import cut_from_peers
from tests.cluster.load import IMPATIENT, Load
from tests.cluster.site import Site
from tests.cluster.topics import Topics

GHOST: Final = "ghost"
PATIENCE_SECONDS: Final = 30.0  # librdkafka's request.timeout.ms.


def others_of(site: Site, node_id: int) -> str:
    return ",".join(site.node(other).bootstrap_servers for other in site.network.others(node_id))


def test_scenes_45_and_55_an_isolated_leader_acknowledges_nothing_and_shows_nothing_that_is_lost(
    site: Site, topic_name: str, report: Report
) -> None:
    loose_topic = f"{topic_name}-loose"
    site.topics.create(topic_name)
    leader = site.leader(topic_name)
    site.topics.create_on(loose_topic, [leader, *site.network.others(leader)])
    with (
        Load(site.bootstrap, topic_name, settings=IMPATIENT) as load,
        Load(site.bootstrap, loose_topic, settings=IMPATIENT, guarantee=LEADER) as loose,
    ):
        load.wait_for(100)
        with cut_from_peers(site, leader):
            Topics(others_of(site, leader)).wait_until(topic_name, lambda state: state.leader != leader)
            load.wait_for(100)  # The old leader notices that nobody hears it, and sends its clients away.
        load.wait_for(100)
        loose.wait_for(100)
        site.topics.wait_until(topic_name, lambda state: len(state.isr) == 3)
    report(f"acks=all: {load.require_clean()}")
    loss = loose.verdict()
    assert not loss.violations["changed"], "\n".join(loss.examples)
    report(f"acks=1: {loose.figures(loss)}")


def test_who_waits_for_a_leader_that_is_cut_off_is_sent_away_and_goes_on_elsewhere(
    site: Site, topic_name: str, report: Report
) -> None:
    """Without any impatience of its own: by default a client waits half a minute for the answer to a write."""
    site.topics.create(topic_name)
    leader = site.leader(topic_name)
    with Load(site.bootstrap, topic_name) as load:
        load.wait_for(100)
        with cut_from_peers(site, leader):
            load.wait_for(100, seconds=PATIENCE_SECONDS / 2)
        site.topics.wait_until(topic_name, lambda state: len(state.isr) == 3)
    report(load.require_clean())


def test_scene_48_a_controller_that_is_cut_off_commits_nothing(site: Site, topic_name: str) -> None:
    old = site.controller()
    with cut_from_peers(site, old):
        elsewhere = Topics(others_of(site, old))
        elsewhere.create(topic_name, replicas=2)
        with pytest.raises(KafkaException):
            Topics(site.node(old).bootstrap_servers).create(GHOST, replicas=1)
    site.topics.wait_until(topic_name, lambda state: len(state.isr) == 2)
    for node in site.cluster.nodes:
        topics = Topics(node.bootstrap_servers)
        topics.wait_until(topic_name, lambda state: len(state.isr) == 2)
        with pytest.raises(KafkaException, match="Unknown topic"):
            topics.states(GHOST)
    assert site.controller() != old
