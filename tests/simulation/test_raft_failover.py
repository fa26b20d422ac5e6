"""How long a quorum with default time-outs is without a leader that commits: of three voters, at a network of up to
two milliseconds and disks of up to five. Virtual time, so that the figures are the protocol's own."""

from statistics import median

import pytest

from ottla.raft.events import ResignAsked
from ottla.raft.settings import RaftSettings
from ottla.raft.state import Leader
from sim.raft_cluster import DEFAULT, RaftCluster, replica_key, voter_set
from sim.raft_peer import RaftPeer

RUNS = 40
SETTINGS = RaftSettings(me=replica_key(1))


def committing_leader(cluster: RaftCluster) -> RaftPeer | None:
    for peer in cluster.peers.values():
        role = peer.machine.node.role
        if isinstance(role, Leader) and peer.machine.node.high_watermark > role.epoch_start_offset:
            return peer
    return None


def gap_ms(seed: int, what: str) -> int:
    """From the fault to the first commit in a new epoch."""
    cluster = RaftCluster(seed, [1, 2, 3], voter_set(1, 2, 3), DEFAULT)
    cluster.delay_ms_max = 2
    assert cluster.run_until(lambda: committing_leader(cluster) is not None, 20_000)
    cluster.run_for(cluster.chance.randint(1_000, 3_000))
    old = committing_leader(cluster)
    assert old is not None
    begin_ms, epoch = cluster.now_ms, old.machine.node.epoch
    if what == "resigns":
        cluster.step(old, ResignAsked())
    else:
        cluster.crash(old.key.node_id, is_host=what == "host dies")

    def is_replaced() -> bool:
        leader = committing_leader(cluster)
        return leader is not None and leader.machine.node.epoch > epoch

    assert cluster.run_until(is_replaced, 30_000)
    return cluster.now_ms - begin_ms


@pytest.mark.parametrize(
    ("what", "median_ms_max", "most_ms_max"),
    [
        ("process dies", 40, 100),  # A reset connection tells, and the followers do not split the votes.
        ("resigns", 20, 40),  # It names its successor.
        ("host dies", SETTINGS.fetch_timeout_ms, 2 * SETTINGS.fetch_timeout_ms),  # Silence has to last.
    ],
)
def test_a_new_leader_commits_soon_after_the_old_one(what: str, median_ms_max: int, most_ms_max: int) -> None:
    gaps = sorted(gap_ms(seed, what) for seed in range(RUNS))
    print(f"{what}: median {median(gaps)} ms, most {gaps[-1]} ms")
    assert median(gaps) <= median_ms_max, gaps
    assert gaps[-1] <= most_ms_max, gaps
