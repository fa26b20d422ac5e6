"""Faults that strike at the worst moment rather than at any: when the metadata has just changed who counts.

A replica that enters the ISR, an ISR that falls below its minimum, a move that is done: the leader is gone right then,
before it or the others may know. What goes wrong there takes milliseconds that no clock would hit.
"""

import asyncio
from collections.abc import Mapping
from typing import Final

from ottla.base.types import NodeId
from ottla.metadata.image_parts import PartitionImage
from sim.disk_nodes import Kept
from sim.fault_targets import Fault, FaultTargets

LOOK_EVERY_SECONDS: Final = 0.001
WATCH_SECONDS_MAX: Final = 3.0
LATE_SECONDS: Final = (0.0, 0.0, 0.005, 0.05)

States = dict[tuple[str, int], PartitionImage]


class Moments:
    def __init__(self, targets: FaultTargets, *, min_isr: int) -> None:
        self._targets = targets
        self._cluster = targets.cluster
        self._chance = targets.chance
        self._min_isr = min_isr
        self.kinds: Mapping[str, Fault] = {"moment": self.strike_leader}

    async def strike_leader(self) -> None:
        leader_id = await self._leader_of_a_moment()
        if leader_id is None:
            return
        await asyncio.sleep(self._chance.choice(LATE_SECONDS))
        with self._targets.claimed(leader_id) as node:
            if node is None:
                return
            is_machine = self._targets.is_power_safe or self._targets.may_lose_bytes(node)
            kept = self._chance.choice((Kept.NOTHING, Kept.EVERYTHING)) if is_machine else Kept.EVERYTHING
            self._targets.hits["leader killed at a bad moment"] += 1
            self._cluster.kill(leader_id, kept, is_silent=kept is Kept.NOTHING and self._chance.random() < 0.5)
            await self._targets.be_away()
            await node.start()

    async def _leader_of_a_moment(self) -> NodeId | None:
        clock = self._cluster.world.clock
        end = clock.monotonic() + WATCH_SECONDS_MAX
        known_offset, before = self._newest()
        while clock.monotonic() < end:
            await asyncio.sleep(LOOK_EVERY_SECONDS)
            offset, states = self._newest(known_offset)
            if offset == known_offset:
                continue
            for place, after in states.items():
                if after.leader >= 0 and place in before and self._is_moment(before[place], after):
                    return after.leader
            known_offset, before = offset, states
        return None

    def _newest(self, known_offset: int = -1) -> tuple[int, States]:
        """Nothing where nothing has changed."""
        image = self._cluster.image()
        if image is None or image.offset == known_offset:
            return known_offset, {}
        return image.offset, {(topic, index): state for topic, index, state in self._cluster.named_partitions()}

    def _is_moment(self, before: PartitionImage, after: PartitionImage) -> bool:
        for what, happened in (
            ("a replica entered the ISR", not set(after.isr) <= set(before.isr)),
            ("the ISR fell below its minimum", len(after.isr) < self._min_isr <= len(before.isr)),
            ("a move was done", before.is_moving and not after.is_moving),
        ):
            if happened:
                self._targets.hits[f"moment: {what}"] += 1
                return True
        return False
