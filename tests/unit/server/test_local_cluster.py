"""Several nodes on one machine: what they must not share."""

import pytest

from ottla.server.local_cluster import setting_for_node


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
