"""Every fault on every role, under load: nothing acknowledged is lost, and two of three nodes go on."""

import time
from typing import Final

import pytest

from tests.cluster.conftest import Report
from tests.cluster.faults import (
    Fault,
    cut_from_one,
    cut_from_peers,
    deaf,
    isolated,
    killed,
    mute,
    paused,
    slow,
    stopped,
    wiped,
)
from tests.cluster.load import IMPATIENT, Load
from tests.cluster.site import Site

FAULTS: Final[tuple[Fault, ...]] = (
    killed,
    stopped,
    paused,
    isolated,
    cut_from_peers,
    mute,
    deaf,
    cut_from_one,
    slow,
    wiped,
)
LOUD: Final = frozenset({killed, stopped, wiped})  # Connections end: clients need no time-out to notice.
FAULT_SECONDS: Final = 5.0  # Longer than a session.


@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("role", ["leader", "follower", "controller"])
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_nothing_acknowledged_is_lost(
    fault: Fault, role: str, site: Site, topic_name: str, rounds: int, report: Report
) -> None:
    site.topics.create(topic_name)
    with Load(site.bootstrap, topic_name, settings={} if fault in LOUD else IMPATIENT) as load:
        for _ in range(rounds):
            load.wait_for(100)
            target = site.controller() if role == "controller" else getattr(site, role)(topic_name)
            with fault(site, target):
                load.wait_for(100)
                time.sleep(FAULT_SECONDS)
            load.wait_for(100)
            site.topics.wait_until(topic_name, lambda state: len(state.isr) == 3)
            site.cluster.wait_joined()
    report(load.require_clean())
