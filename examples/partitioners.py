"""Nine records of ten have one key: what each partitioner makes of it, and one of your own for tenants.

    python examples/partitioners.py

It needs no broker: partitioners are plain callables.
"""

import random
from collections import Counter
from collections.abc import Mapping, Sequence

from ottla.client.murmur2 import partition_of_key
from ottla.client.partitioners import FallThrough, KeyHash, Partitioner, RoundRobin, Salting, Sticky

PARTITIONS = 12
HOT = b"acme:celebrity"


class ByTenant:
    """Keys are `tenant:entity`. A big tenant has partitions of its own, so that nobody waits behind it.

    Within a tenant's partitions the key decides, so each entity keeps its order.
    """

    def __init__(self, own: Mapping[str, Sequence[int]]) -> None:
        self._own = own
        self._taken = {partition for partitions in own.values() for partition in partitions}

    def __call__(self, topic: str, key: bytes | None, value: bytes | None, partition_count: int, /) -> int:
        tenant = (key or b"").partition(b":")[0].decode()
        shared = [partition for partition in range(partition_count) if partition not in self._taken]
        choice = self._own.get(tenant, shared)
        return choice[partition_of_key(key or b"", len(choice))]


def traffic(count: int) -> list[bytes]:
    chance = random.Random(1)
    return [HOT if chance.random() < 0.9 else b"small:user-%d" % chance.randrange(1_000) for _ in range(count)]


def main() -> None:
    strategies: dict[str, Partitioner] = {
        "key hash": KeyHash(),
        "round robin": RoundRobin(),
        "sticky": Sticky(batch_bytes=1_000),
        "salting": Salting([HOT]),
        "fall-through": FallThrough(threshold=1_000, window_s=60),
        "by tenant": ByTenant({"acme": [0, 1, 2, 3]}),
    }
    print(f"{'records per partition':>22}  " + " ".join(f"{partition:>5}" for partition in range(PARTITIONS)))
    for name, partitioner in strategies.items():
        counts = Counter(partitioner("events", key, b"x" * 100, PARTITIONS) for key in traffic(10_000))
        print(f"{name:>22}  " + " ".join(f"{counts[partition]:>5}" for partition in range(PARTITIONS)))


if __name__ == "__main__":
    main()
