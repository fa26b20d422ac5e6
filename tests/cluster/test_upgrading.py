"""A rolling upgrade: nodes of two versions side by side, and a feature level that is raised when the last one is new.

There is one version of Ottla so far. An older one is this one with a smaller highest metadata.version, which is all that
others see of a version; installing the new one is taking that away.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

import ottla.testing
from ottla.testing import BrokerFailed, Machine
from tests.chaos.writers import abandon_all
from tests.cluster.conftest import CONFIG, Report
from tests.cluster.group_reader import GroupReader
from tests.cluster.load import Load
from tests.cluster.site import Site
from tests.cluster.topics import Topics
from tests.conformance.commands import Commands

OLD_LEVEL: Final = 28
NEW_LEVEL: Final = 29
# Python runs it at its start wherever it finds it on its path.
OLDER: Final = f"""
from ottla.metadata.features import METADATA_VERSION, SUPPORTED_FEATURES

SUPPORTED_FEATURES[METADATA_VERSION] = SUPPORTED_FEATURES[METADATA_VERSION]._replace(
    max_version={OLD_LEVEL}, initial_level={OLD_LEVEL}
)
"""


class Installations:
    """What each node runs: older until `upgrade`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def machine(self, node_id: int) -> Machine:
        self.downgrade(node_id)
        path = os.pathsep.join([str(self._patch(node_id).parent), os.environ.get("PYTHONPATH", "")])
        return Machine(command_prefix=("env", f"PYTHONPATH={path}"))

    def upgrade(self, node_id: int) -> None:
        self._patch(node_id).unlink()

    def downgrade(self, node_id: int) -> None:
        self._patch(node_id).parent.mkdir(exist_ok=True)
        self._patch(node_id).write_text(OLDER)

    def _patch(self, node_id: int) -> Path:
        return self._directory / f"node-{node_id}" / "sitecustomize.py"


@pytest.fixture
def installed(tmp_path: Path) -> Installations:
    return Installations(tmp_path)


@pytest.fixture
def site(installed: Installations) -> Iterator[Site]:
    machines = {node_id: installed.machine(node_id) for node_id in (1, 2, 3)}
    with ottla.testing.cluster(nodes=3, config=CONFIG, machines=machines) as cluster:
        yield Site(cluster=cluster, topics=Topics(cluster.bootstrap_servers), maybe_network=None)
        abandon_all()


def level_of(ops: Commands) -> int:
    described = ops.json("features", "describe")["features"]
    return next(int(each["finalized"]) for each in described if each["name"] == "metadata.version")


@pytest.mark.timeout(300)
def test_a_rolling_upgrade_is_not_noticed_and_ends_with_a_level_that_no_older_node_joins(
    site: Site, installed: Installations, topic_name: str, report: Report
) -> None:
    ops = Commands(site.bootstrap)
    site.topics.create(topic_name, partitions=3)
    with (
        Load(site.bootstrap, topic_name, partitions=3) as load,
        GroupReader(site.bootstrap, topic_name, group="readers") as group,
    ):
        for node in site.cluster.nodes:
            refused = ops.run("features", "upgrade", f"metadata.version={NEW_LEVEL}", exit_code=1)
            assert f"only supports versions 25-{OLD_LEVEL}" in refused.stderr
            node.stop()
            installed.upgrade(node.id)
            node.start()
            site.topics.wait_until(topic_name, lambda state: len(state.isr) == 3)
            load.wait_for(100)
        assert level_of(ops) == OLD_LEVEL
        ops.run("features", "upgrade")
        assert level_of(ops) == NEW_LEVEL
        load.wait_for(100)
        group.wait_for(100)
        require_refused(site, installed, 3)
    group.require_undisturbed()
    report(load.require_clean())


def require_refused(site: Site, installed: Installations, node_id: int) -> None:
    """An older version cannot come back; the newer one can."""
    node = site.node(node_id)
    node.stop()
    installed.downgrade(node_id)
    with pytest.raises(BrokerFailed, match=f"metadata.version is {NEW_LEVEL}"):
        node.start()
    installed.upgrade(node_id)
    node.start()
