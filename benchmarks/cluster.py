"""`python -m benchmarks.cluster`: three nodes of Ottla beside three of Apache Kafka 4.3, RF 3, min ISR 2, acks=all.

`--only cluster-kill-leader` picks scenarios, `--quick` proves that they work (tiny counts, no page-cache fill) and gives no
figure to quote, `--peers ottla` leaves Apache Kafka out. Exit code 1 when a goal was missed or a scenario failed.
"""

import sys
from typing import Final

from benchmarks.__main__ import run_benchmarks
from benchmarks.cluster_peers import KafkaCluster, OttlaCluster
from benchmarks.cluster_scenarios import SCENARIOS
from benchmarks.peers import Peer

PEERS: Final[dict[str, type[Peer]]] = {"kafka": KafkaCluster, "ottla": OttlaCluster}

if __name__ == "__main__":
    sys.exit(run_benchmarks("python -m benchmarks.cluster", __doc__ or "", SCENARIOS, PEERS, rounds=3))
