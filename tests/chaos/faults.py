"""Faults at random moments, to the broker and to its clients' processes."""

import random
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

from tests.chaos.crew import Crew
from tests.chaos.subject import Subject

CALM_SECONDS: Final = (0.3, 4.0)  # Between two faults: long enough that some work gets done.
DOWN_SECONDS: Final = (0.0, 1.0)


class Faults:
    def __init__(self, subject: Subject, crew: Crew, chance: random.Random) -> None:
        self._subject = subject
        self._crew = crew
        self._chance = chance
        self.done: Counter[str] = Counter()
        self._weights: Mapping[Callable[[], None], int] = {
            self._kill_broker: 3,
            self._stop_broker: 2,
            self._kill_client: 4,
            self._stop_client: 2,
            self._suspend_client: 2,
            self._resume_clients: 2,
        }

    def go_on_for(self, seconds: float) -> None:
        """Ends with a running broker; clients that were suspended stay so until `Crew.resume_all`."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            time.sleep(self._chance.uniform(*CALM_SECONDS))
            [fault] = self._chance.choices(list(self._weights), list(self._weights.values()))
            fault()
            self.done[fault.__name__.strip("_").replace("_", " ")] += 1
            self._crew.tend()

    @property
    def summary(self) -> str:
        return ", ".join(f"{name} × {count}" for name, count in sorted(self.done.items()))

    def _kill_broker(self) -> None:
        self._subject.kill()
        self._start_broker()

    def _stop_broker(self) -> None:
        self._subject.stop()
        self._start_broker()

    def _start_broker(self) -> None:
        time.sleep(self._chance.uniform(*DOWN_SECONDS))
        self._subject.start()

    def _kill_client(self) -> None:
        self._crew.kill_one(self._chance)

    def _stop_client(self) -> None:
        self._crew.stop_one(self._chance)

    def _suspend_client(self) -> None:
        self._crew.suspend_one(self._chance)

    def _resume_clients(self) -> None:
        self._crew.resume_all()
