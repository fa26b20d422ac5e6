"""Time that stands still until someone moves it: the event loop in a simulated world, the test itself elsewhere."""

from typing import Final

EPOCH_MS: Final = 1_750_000_000_000  # Simulations begin here: a plausible date, and the same one in every run.


class SimulatedClock:
    """Implements `base.clock.Clock`."""

    def __init__(self, wall_ms: int = EPOCH_MS) -> None:
        self._seconds = 0.0
        self._wall_offset_ms = wall_ms

    def now_ms(self) -> int:
        return self._wall_offset_ms + round(self._seconds * 1_000)

    def monotonic(self) -> float:
        return self._seconds

    def advance(self, seconds: float) -> None:
        if seconds < 0:
            raise ValueError("monotonic time does not go back")
        self._seconds += seconds

    def advance_to(self, seconds: float) -> None:
        self._seconds = max(self._seconds, seconds)

    def jump_wall(self, milliseconds: int) -> None:
        """Somebody set the wall clock; monotonic time does not notice."""
        self._wall_offset_ms += milliseconds


class SkewedClock(SimulatedClock):
    """Another machine's clock: the same time goes by, and it is called another date."""

    def __init__(self, world: SimulatedClock, skew_ms: int) -> None:
        super().__init__()
        self._world = world
        self._skew_ms = skew_ms

    def now_ms(self) -> int:
        return self._world.now_ms() + self._skew_ms

    def monotonic(self) -> float:
        return self._world.monotonic()

    def jump_wall(self, milliseconds: int) -> None:
        self._skew_ms += milliseconds
