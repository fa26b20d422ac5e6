"""Everything a simulated node touches, from one seed.

Each part draws from a stream of its own, so that one more draw in the network does not change what the disk does. The
parts share one trace, whose digest is the identity of a run.
"""

from collections.abc import Coroutine
from random import Random
from typing import Any, TypeVar

from sim.clock import SimulatedClock
from sim.disk import SimulatedDisk
from sim.loop import SimulatedLoop, run
from sim.network import CALM, NetworkFaults, SimulatedNetwork
from sim.trace import Trace
from sim.workers import SimulatedWorkers

T = TypeVar("T")


class World:
    def __init__(
        self,
        seed: int,
        *,
        faults: NetworkFaults = CALM,
        capacity_bytes: int | None = None,
        shuffle: bool = True,
        worker_latency_seconds_max: float = 0.01,
    ) -> None:
        self.seed = seed
        self.trace = Trace()
        self.clock = SimulatedClock()
        # What a loop without sockets lacks raises NotImplementedError when it is called, which typeshed cannot say.
        self.loop = SimulatedLoop(self.clock, self.stream("loop"), self.trace, shuffle=shuffle)  # type: ignore[abstract]
        self.disk = SimulatedDisk(
            self.stream("disk"), self.trace, now_ms=self.clock.now_ms, capacity_bytes=capacity_bytes
        )
        self.workers = SimulatedWorkers(
            self.loop, self.stream("workers"), latency_seconds_max=worker_latency_seconds_max
        )
        self.network = SimulatedNetwork(self.loop, self.stream("network"), self.trace, faults)
        self.random = self.stream("world")  # For the scenario itself.

    def stream(self, name: str) -> Random:
        return Random(f"{self.seed}/{name}")

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        return run(self.loop, main)

    def digest(self) -> str:
        self.trace.add("end", self.clock.monotonic(), self.loop.step_count)
        return self.trace.digest()
