"""Replication throttles (KIP-73): how many bytes a second replicas that catch up may cost, so that a move leaves room.

Topics say which replicas are throttled (`leader.`/`follower.replication.throttled.replicas`), brokers how much they may
give or take (`….rate`). Only who is not in sync is held back: the watermark must not wait for a throttle. A bucket that may
go below zero keeps the rate, whatever the size of a batch: who finds it empty rests until it is not.
"""

from typing import Final

LEADER_REPLICAS: Final = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS: Final = "follower.replication.throttled.replicas"
LEADER_RATE: Final = "leader.replication.throttled.rate"
FOLLOWER_RATE: Final = "follower.replication.throttled.rate"
UNLIMITED: Final = 2**63 - 1
BURST_SECONDS: Final = 0.2  # What may go at once after a quiet time.
REST_SECONDS_MIN: Final = 0.001


def is_throttled(listed: str | None, number: int, node_id: int) -> bool:
    """Whether a topic's list names the partition's replica on that node."""
    if not listed:
        return False
    items = [item.strip() for item in listed.split(",")]
    return items == ["*"] or f"{number}:{node_id}" in items


class Throttle:
    """One direction of one broker."""

    __slots__ = ("_filled_at", "_level_bytes", "rate_bytes")

    def __init__(self) -> None:
        self.rate_bytes = UNLIMITED
        self._level_bytes = 0.0
        self._filled_at = 0.0

    def set_rate(self, rate_bytes: int) -> None:
        if rate_bytes != self.rate_bytes:
            self.rate_bytes = rate_bytes
            self._level_bytes = 0.0

    @property
    def piece_bytes_max(self) -> int:
        """What may be moved at once."""
        return max(int(self.rate_bytes * BURST_SECONDS), 1)

    def count(self, size_bytes: int, now: float) -> None:
        if self.rate_bytes < UNLIMITED:
            self._fill(now)
            self._level_bytes -= size_bytes

    def rest_seconds(self, now: float) -> float:
        """How long to wait before anything else is moved; 0 where there is no need to."""
        if self.rate_bytes >= UNLIMITED:
            return 0.0
        self._fill(now)
        seconds = -self._level_bytes / max(self.rate_bytes, 1)
        return seconds if seconds > REST_SECONDS_MIN else 0.0

    def _fill(self, now: float) -> None:
        filled = self._level_bytes + (now - self._filled_at) * self.rate_bytes
        self._level_bytes = min(filled, BURST_SECONDS * self.rate_bytes)
        self._filled_at = now
