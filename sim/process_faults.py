"""Processes and machines that end, stand still, or are told another date."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Final

from sim.disk_nodes import Kept
from sim.fault_targets import Fault, FaultTargets
from sim.node import SimulatedNode

CHANGES_BEFORE_DEATH_MAX: Final = 30
BUSY_SECONDS_MAX: Final = 1.0
CLOCK_SKEW_MS_MAX: Final = 1_800_000  # Of two brokers less than what a broker takes for a false date.


class ProcessFaults:
    def __init__(self, targets: FaultTargets) -> None:
        self._targets = targets
        self._cluster = targets.cluster
        self._chance = targets.chance
        self._hits = targets.hits
        self.kinds: Mapping[str, Fault] = {
            "process": self.kill_process,
            "machine": self.kill_machine,
            "restart": self.restart,
            "pause": self.pause,
            "clock": self.jump_clock,
        }

    async def kill_process(self) -> None:
        """All it wrote is still in the page cache."""
        with self._targets.claimed() as node:
            if node is not None:
                await self._kill(node, Kept.EVERYTHING, is_silent=False)

    async def kill_machine(self) -> None:
        with self._targets.claimed() as node:
            if node is not None and (self._targets.is_power_safe or self._targets.may_lose_bytes(node)):
                kept = self._chance.choice((Kept.NOTHING, Kept.PART))
                await self._kill(node, kept, is_silent=self._chance.random() < 0.5)

    async def _kill(self, node: SimulatedNode, kept: Kept, *, is_silent: bool) -> None:
        if self._chance.random() < 0.5:
            node.die_at(self._chance.randint(0, CHANGES_BEFORE_DEATH_MAX))
            await asyncio.sleep(self._chance.random())
            self._hits["died inside a disk call"] += not node.is_alive
        self._cluster.kill(node.node_id, kept, is_silent=is_silent)
        await self._targets.be_away()
        if self._chance.random() < 0.3:
            node.die_at(self._chance.randint(0, CHANGES_BEFORE_DEATH_MAX))
            await node.start()
            self._hits["died while starting"] += not node.is_alive
            if node.is_alive:
                node.live()
                return
            self._cluster.kill(node.node_id, kept)
        await node.start()

    async def lose_power(self) -> None:
        """All machines at once, where nothing that counts may be lost by that; often while all disks have much to do."""
        with self._targets.all_claimed() as nodes:
            self._hits["power lost everywhere at once"] += 1
            if self._chance.random() < 0.5:
                await self._be_busy(nodes)
            for node in nodes:
                kept = self._chance.choice((Kept.NOTHING, Kept.PART))
                self._cluster.kill(node.node_id, kept, is_silent=True)
            await asyncio.gather(*(self._start_later(node) for node in nodes))

    async def _be_busy(self, nodes: Sequence[SimulatedNode]) -> None:
        with ExitStack() as busy:
            for node in nodes:
                busy.enter_context(node.slow_disk())
            await asyncio.sleep(self._chance.random() * BUSY_SECONDS_MAX)

    async def _start_later(self, node: SimulatedNode) -> None:
        await self._targets.be_away()
        await node.start()

    async def restart(self) -> None:
        with self._targets.claimed() as node:
            if node is not None:
                self._hits["clean restart"] += 1
                await node.stop()
                self._hits["power lost after a clean stop"] += node.maybe_lose_power()
                await self._targets.be_away()
                await node.start()

    async def pause(self) -> None:
        with self._targets.claimed() as node:
            if node is not None:
                self._hits["process paused"] += 1
                node.pause()
                await self._targets.be_away()
                node.resume()

    async def jump_clock(self) -> None:
        """The date, forwards or back; the time that goes by is not touched."""
        node = self._targets.anyone()
        if node is not None:
            skew_ms = node.machine.clock.now_ms() - self._cluster.world.clock.now_ms()
            jump_ms = self._chance.randint(-CLOCK_SKEW_MS_MAX, CLOCK_SKEW_MS_MAX) - skew_ms
            node.machine.clock.jump_wall(jump_ms)
            self._hits[f"clock set {'forward' if jump_ms > 0 else 'back'}"] += 1
