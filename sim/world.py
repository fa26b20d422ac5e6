"""Everything a simulated node touches, from one seed.

Each part draws from a stream of its own, so that one more draw in the network does not change what the disk does. The
parts share one trace, whose digest is the identity of a run. A world is a machine with its time; further machines may join
it, each with a disk, workers, a way for clients and a wall clock of its own.
"""

from collections.abc import Coroutine
from random import Random
from typing import Any, TypeVar

from sim.clock import SimulatedClock, SkewedClock
from sim.disk import SimulatedDisk
from sim.loop import SimulatedLoop, run
from sim.network import CALM, NetworkFaults, SimulatedNetwork
from sim.trace import Trace
from sim.workers import SimulatedWorkers

T = TypeVar("T")


class Machine:
    """What one node touches."""

    def __init__(
        self,
        seed: int | str,
        trace: Trace,
        clock: SimulatedClock,
        loop: SimulatedLoop,
        *,
        faults: NetworkFaults = CALM,
        capacity_bytes: int | None = None,
        worker_latency_seconds_max: float = 0.01,
    ) -> None:
        self.seed = seed
        self.trace = trace
        self.clock = clock
        self.loop = loop
        self.disk = SimulatedDisk(self.stream("disk"), trace, now_ms=clock.now_ms, capacity_bytes=capacity_bytes)
        self.workers = SimulatedWorkers(loop, self.stream("workers"), latency_seconds_max=worker_latency_seconds_max)
        self.network = SimulatedNetwork(loop, self.stream("network"), trace, faults)

    def stream(self, name: str) -> Random:
        return Random(f"{self.seed}/{name}")


class World(Machine):
    def __init__(
        self,
        seed: int,
        *,
        faults: NetworkFaults = CALM,
        capacity_bytes: int | None = None,
        shuffle: bool = True,
        worker_latency_seconds_max: float = 0.01,
    ) -> None:
        trace, clock = Trace(), SimulatedClock()
        # What a loop without sockets lacks raises NotImplementedError when it is called, which typeshed cannot say.
        loop = SimulatedLoop(clock, Random(f"{seed}/loop"), trace, shuffle=shuffle)  # type: ignore[abstract]
        super().__init__(
            seed,
            trace,
            clock,
            loop,
            faults=faults,
            capacity_bytes=capacity_bytes,
            worker_latency_seconds_max=worker_latency_seconds_max,
        )
        self.random = self.stream("world")  # For the scenario itself.

    def new_machine(self, name: str, *, clock_skew_ms: int = 0, faults: NetworkFaults = CALM) -> Machine:
        """Another machine in the same time, by a wall clock of its own."""
        clock = SkewedClock(self.clock, clock_skew_ms)
        return Machine(f"{self.seed}/{name}", self.trace, clock, self.loop, faults=faults)

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        return run(self.loop, main)

    def digest(self) -> str:
        self.trace.add("end", self.clock.monotonic(), self.loop.step_count)
        return self.trace.digest()
