"""A node dies under load: others take over by themselves, and nothing acknowledged is lost."""

import time

import pytest

import ottla.testing
from tests.cluster.conftest import Report
from tests.cluster.faults import wiped
from tests.cluster.load import DAY_SECONDS_UNAVAILABLE, Load
from tests.cluster.site import Site
from tests.cluster.topics import Topics


def test_three_nodes_form_a_quorum_and_a_topic_has_three_replicas(
    cluster: ottla.testing.Cluster, topics: Topics, topic_name: str
) -> None:
    topics.create(topic_name, partitions=6)
    states = topics.states(topic_name)
    assert {frozenset(state.replicas) for state in states} == {frozenset({1, 2, 3})}
    assert sorted(state.leader for state in states) == [1, 1, 2, 2, 3, 3]
    with Load(cluster.bootstrap_servers, topic_name, partitions=6) as load:
        load.wait_for(600)
    load.require_clean()


def test_scene_46_the_leader_is_killed_and_clients_go_on_by_themselves(
    cluster: ottla.testing.Cluster, topics: Topics, topic_name: str, report: Report
) -> None:
    topics.create(topic_name)
    with Load(cluster.bootstrap_servers, topic_name) as load:
        load.wait_for(100)
        leader = topics.leader(topic_name)
        cluster.node(leader).kill()
        load.wait_for(300)
        assert topics.leader(topic_name) != leader
        cluster.node(leader).start()
        topics.wait_until(topic_name, lambda state: len(state.isr) == 3)
    report(load.require_clean())


def test_the_active_controller_is_killed(
    cluster: ottla.testing.Cluster, topics: Topics, topic_name: str, report: Report
) -> None:
    topics.create(topic_name, partitions=3)
    with Load(cluster.bootstrap_servers, topic_name, partitions=3) as load:
        load.wait_for(100)
        controller = cluster.controller
        controller.kill()
        load.wait_for(300)
        assert cluster.controller.id != controller.id
        topics.create(f"{topic_name}-after", replicas=2)  # And the new one decides.
        controller.start()
        topics.wait_until(topic_name, lambda state: len(state.isr) == 3)
    report(load.require_clean())


@pytest.mark.parametrize("role", ["leader", "controller"])
def test_scene_59_a_day_on_which_a_process_dies_has_four_nines(
    site: Site, topic_name: str, report: Report, role: str
) -> None:
    site.topics.create(topic_name)
    with Load(site.bootstrap, topic_name) as load:
        load.wait_for(100)
        died = site.node(site.leader(topic_name) if role == "leader" else site.controller())
        died.kill()
        load.wait_for(300)
    died.start()
    site.topics.wait_until(topic_name, lambda state: len(state.isr) == 3)
    report(load.require_clean())
    assert load.writer.longest_gap_seconds < DAY_SECONDS_UNAVAILABLE


def test_scene_40_a_follower_that_stops_leaves_the_isr_and_comes_back(
    cluster: ottla.testing.Cluster, topics: Topics, topic_name: str
) -> None:
    topics.create(topic_name)
    leader = topics.leader(topic_name)
    follower = next(node for node in cluster.nodes if node.id != leader and node is not cluster.controller)
    with Load(cluster.bootstrap_servers, topic_name) as load:
        follower.kill()
        topics.wait_until(topic_name, lambda state: follower.id not in state.isr)
        load.wait_for(200)
        follower.start()
        topics.wait_until(topic_name, lambda state: len(state.isr) == 3)
    load.require_clean()


def test_a_topic_deleted_and_created_again_while_a_node_is_down_is_copied_anew(
    cluster: ottla.testing.Cluster, topics: Topics, topic_name: str
) -> None:
    gone = f"{topic_name}-gone"
    for name in (topic_name, gone):
        topics.create(name)
        with Load(cluster.bootstrap_servers, name) as load:
            load.wait_for(50)
        load.require_clean()
    away = next(node for node in cluster.nodes if node is not cluster.controller)
    away.kill()
    for name in (topic_name, gone):
        topics.delete(name)
    topics.create(topic_name, live=2)
    with Load(cluster.bootstrap_servers, topic_name) as load:
        load.wait_for(100)
        away.start()
        topics.wait_until(topic_name, lambda state: len(state.isr) == 3)
        load.wait_for(200)
    load.require_clean()
    assert sorted(path.name.rpartition(".")[0] for path in away.data_dir.glob(f"{topic_name}*-stray")) == [
        f"{topic_name}-0",
        f"{gone}-0",
    ]
    assert not (away.data_dir / f"{gone}-0").exists()


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_scene_52_every_node_in_turn_is_killed_or_stopped_and_no_client_is_told_of_an_error(
    cluster: ottla.testing.Cluster, topics: Topics, topic_name: str, report: Report, how: str
) -> None:
    topics.create(topic_name, partitions=3)
    with Load(cluster.bootstrap_servers, topic_name, partitions=3) as load:
        for node in cluster.nodes:
            load.wait_for(200)
            getattr(node, how)()
            load.wait_for(200)
            node.start()
            topics.wait_until(topic_name, lambda state: len(state.isr) == 3)
            time.sleep(0.2)
    report(load.require_clean())


def test_scene_54_a_disk_is_lost_and_its_replacement_is_filled_again(
    site: Site, topic_name: str, report: Report
) -> None:
    site.topics.create(topic_name, partitions=3)
    lost = site.follower(topic_name)
    with Load(site.bootstrap, topic_name, partitions=3) as load:
        load.wait_for(300)
        with wiped(site, lost):
            load.wait_for(300)
        site.topics.wait_until(topic_name, lambda state: len(state.isr) == 3)
        for keeper in [node for node in site.cluster.nodes if node.id != lost]:  # What is there now is its own copy.
            keeper.stop()
            site.topics.wait_until(topic_name, lambda state, keeper=keeper: keeper.id not in state.isr)
            load.wait_for(100)
            keeper.start()
            site.topics.wait_until(topic_name, lambda state: len(state.isr) == 3)
    report(load.require_clean())
