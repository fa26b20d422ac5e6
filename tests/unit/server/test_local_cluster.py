"""Several nodes on one machine: what they must not share."""

from pathlib import Path

import pytest

from ottla.server.local_cluster import servers_to_join, setting_for_node


@pytest.mark.parametrize(
    ("setting", "of_the_third"),
    [
        ("ottla.metrics.port=9404", "ottla.metrics.port=9406"),
        ("ottla.metrics.port=0", "ottla.metrics.port=0"),
        ("ottla.metrics.port=many", "ottla.metrics.port=many"),
        ("num.partitions=3", "num.partitions=3"),
    ],
)
def test_each_node_takes_a_metrics_port_of_its_own(setting: str, of_the_third: str) -> None:
    assert setting_for_node(setting, 2) == of_the_third


def test_the_first_founds_the_cluster_and_the_others_join_it(tmp_path: Path) -> None:
    assert [servers_to_join(number, 3, str(tmp_path), "h", 9092) for number in range(3)] == [None, "h:9092", "h:9092"]


def test_a_first_node_whose_disk_was_lost_joins_those_that_are_there(tmp_path: Path) -> None:
    for name in ("node-2", "node-3"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "meta.properties").touch()
    assert servers_to_join(0, 3, str(tmp_path), "h", 9092) == "h:9093,h:9094"
    assert servers_to_join(1, 3, str(tmp_path), "h", 9092) == "h:9094"
