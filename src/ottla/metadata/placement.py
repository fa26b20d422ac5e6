"""Where the replicas of new partitions go: a pure function of the brokers, the counts and a starting point.

Replicas of one partition spread over racks first, then over hosts, then over brokers; no two on one host while another
is free. Leaders go round the brokers, and each further round shifts the followers, so that no pair of brokers shares
all its partitions. Fenced brokers are taken only when there are too few others.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from ottla.base.types import NodeId


class Candidate(NamedTuple):
    id: NodeId
    rack: str | None
    host: str
    usable: bool = True


def place_replicas(
    candidates: Sequence[Candidate],
    *,
    partition_count: int,
    replication_factor: int,
    start: int,
    first_partition: int = 0,
) -> list[tuple[NodeId, ...]]:
    """Replicas per partition, the preferred leader first. The caller has checked `replication_factor <= brokers`."""
    ring = _interleaved(candidates)
    if len(ring) == 1:
        return [(ring[0].id,)] * partition_count
    return [
        _place_one(ring, start + partition, replication_factor)
        for partition in range(first_partition, first_partition + partition_count)
    ]


def _place_one(ring: list[Candidate], turn: int, replication_factor: int) -> tuple[NodeId, ...]:
    size = len(ring)
    leader_at = turn % size
    shift = (turn // size) % (size - 1)
    others = ring[leader_at + 1 :] + ring[:leader_at]
    waiting = [ring[leader_at], *others[shift:], *others[:shift]]
    racks: Counter[str | None] = Counter()
    hosts: Counter[str] = Counter()
    chosen: list[NodeId] = []
    while len(chosen) < replication_factor:
        best = _best(waiting, racks, hosts)
        waiting.remove(best)
        chosen.append(best.id)
        racks[best.rack] += 1
        hosts[best.host] += 1
    return tuple(chosen)


def _best(waiting: list[Candidate], racks: Counter[str | None], hosts: Counter[str]) -> Candidate:
    """The first of those that spread the replicas farthest. With many brokers it is among the first few."""
    for item in waiting:
        if item.usable and not racks[item.rack] and not hosts[item.host]:
            return item
    return min(waiting, key=lambda item: (not item.usable, racks[item.rack], hosts[item.host]))


def _interleaved(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Brokers in an order whose neighbours differ in rack and, within a rack, in host wherever possible."""
    seen_in_host: Counter[tuple[str | None, str]] = Counter()
    seen_in_rack: Counter[str | None] = Counter()

    def turn_in_host(item: Candidate) -> int:
        seen_in_host[item.rack, item.host] += 1
        return seen_in_host[item.rack, item.host]

    def turn_in_rack(item: Candidate) -> int:
        seen_in_rack[item.rack] += 1
        return seen_in_rack[item.rack]

    by_host = sorted((turn_in_host(item), item.host, item.id, item) for item in sorted(candidates, key=_by_id))
    by_rack = sorted(((turn_in_rack(item), item.rack or "", item.id, item) for *_, item in by_host))
    return [item for *_, item in by_rack]


def _by_id(item: Candidate) -> NodeId:
    return item.id
