"""Clusters to plan for: drawn by Hypothesis, or written down."""

from collections.abc import Sequence

from hypothesis import strategies as st

from ottla.base.types import TopicPartition
from ottla.cli.balancing.model import Broker, Model, PartitionLoad


def load(
    index: int,
    replicas: Sequence[int],
    *,
    leader: int | None = None,
    size_bytes: int = 0,
    bytes_per_second: float = 0.0,
    in_sync: Sequence[int] | None = None,
) -> PartitionLoad:
    """A partition of the topic t that its first replica leads, unless said otherwise."""
    return PartitionLoad(
        partition=TopicPartition("t", index),
        replicas=tuple(replicas),
        leader=replicas[0] if leader is None else leader,
        in_sync=frozenset(replicas if in_sync is None else in_sync),
        size_bytes=size_bytes,
        bytes_per_second=bytes_per_second,
    )


def model(racks: Sequence[str | None], *partitions: PartitionLoad) -> Model:
    """Brokers 1, 2, … with these racks."""
    brokers = tuple(Broker(id=number, rack=rack) for number, rack in enumerate(racks, start=1))
    return Model(brokers=brokers, partitions=partitions)


@st.composite
def models(draw: st.DrawFn) -> Model:
    """Up to six brokers, some without racks; partitions unevenly placed, some led by a follower, some not settled."""
    count = draw(st.integers(1, 6))
    racks = draw(st.lists(st.sampled_from(["a", "b", "c"]), min_size=count, max_size=count))
    partitions = []
    for index in range(draw(st.integers(0, 14))):
        replicas = draw(st.permutations(range(1, count + 1)))[: draw(st.integers(1, min(count, 3)))]
        partitions.append(
            load(
                index,
                replicas,
                leader=draw(st.sampled_from(replicas)),
                size_bytes=draw(st.sampled_from([0, 1 << 20, 1 << 30, 40 << 30])),
                bytes_per_second=draw(st.sampled_from([0.0, 1e3, 1e6, 5e7])),
                in_sync=replicas if draw(st.integers(0, 9)) else replicas[:1],
            )
        )
    return model(draw(st.sampled_from([racks, [None] * count])), *partitions)
