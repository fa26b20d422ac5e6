"""Scene 51: six brokers on three racks, and a whole rack dies at once."""

from collections.abc import Iterator
from typing import Final

import pytest

from tests.chaos.writers import abandon_all
from tests.cluster.conftest import Report, new_site
from tests.cluster.load import Load
from tests.cluster.site import Site

RACKS: Final = {1: "a", 2: "a", 3: "b", 4: "b", 5: "c", 6: "c"}
PARTITIONS: Final = 6


@pytest.fixture
def site() -> Iterator[Site]:
    with new_site(nodes=len(RACKS), configs={node: {"broker.rack": rack} for node, rack in RACKS.items()}) as own:
        yield own
        abandon_all()


@pytest.mark.timeout(600)
def test_every_partition_outlives_each_rack_in_turn(site: Site, topic_name: str, report: Report) -> None:
    site.topics.create(topic_name, partitions=PARTITIONS)
    for state in site.topics.states(topic_name):
        assert {RACKS[node] for node in state.replicas} == {"a", "b", "c"}, state
    with Load(site.bootstrap, topic_name, partitions=PARTITIONS) as load:
        for rack in ("a", "b", "c"):
            load.wait_for(100)
            died = {node for node, place in RACKS.items() if place == rack}
            for node in died:
                site.node(node).kill()
            site.topics.wait_until(
                topic_name, lambda state, died=died: state.leader not in died and not state.isr & died
            )
            load.wait_for(300)
            for node in died:
                site.node(node).start()
            site.topics.wait_until(topic_name, lambda state: len(state.isr) == 3)
    report(load.require_clean())
