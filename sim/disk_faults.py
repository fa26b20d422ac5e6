"""Disks that are slow, full, that fail a call, or that are gone with all that they held."""

import asyncio
import errno
from collections.abc import Mapping
from typing import Final

from sim.disk_nodes import Kept
from sim.fault_targets import Fault, FaultTargets

CALLS_BEFORE_ERROR_MAX: Final = 60
ERROR_SECONDS_MAX: Final = 3.0  # How long a process may live on with a disk that failed.


class DiskFaults:
    def __init__(self, targets: FaultTargets) -> None:
        self._targets = targets
        self._cluster = targets.cluster
        self._chance = targets.chance
        self._hits = targets.hits
        self._has_wiped = False
        self.kinds: Mapping[str, Fault] = {
            "slow disk": self.slow_disk,
            "full disk": self.fill_disk,
            "disk error": self.fail_call,
            "wiped": self.wipe,
        }

    async def slow_disk(self) -> None:
        node = self._targets.anyone()
        if node is not None:
            self._hits["disk slow"] += 1
            with node.slow_disk():
                await self._targets.be_away()

    async def fill_disk(self) -> None:
        """Somebody else filled it, and makes room later."""
        node = self._targets.anyone()
        if node is not None:
            disk = node.machine.disk
            disk.capacity_bytes = disk.used_bytes()
            await self._targets.be_away()
            disk.capacity_bytes = None
            self._hits["disk full"] += 1

    async def fail_call(self) -> None:
        """One call fails; a while later somebody starts the process again, as after every broken disk."""
        with self._targets.claimed() as node:
            if node is None:
                return
            disk = node.machine.disk
            disk.fail_at(self._chance.randint(0, CALLS_BEFORE_ERROR_MAX), errno.EIO)
            await asyncio.sleep(self._chance.random() * ERROR_SECONDS_MAX)
            self._hits["disk call failed"] += not disk.is_to_fail
            self._cluster.kill(node.node_id, Kept.EVERYTHING)
            await self._targets.be_away()
            await node.start()

    async def wipe(self) -> None:
        """Once: until the new directory has the old one's vote, the loss of another would be that of the quorum."""
        with self._targets.claimed() as node:
            if node is None or self._has_wiped:
                return
            voters = self._targets.settled_voters()
            if voters is None or len(voters) < len(self._cluster.nodes) or not self._targets.may_lose_bytes(node):
                return
            self._has_wiped = True
            self._hits["directory wiped"] += 1
            self._cluster.kill(node.node_id, Kept.NOTHING)
            self._cluster.wipe(node.node_id)
            await self._targets.be_away()
            await node.start()
