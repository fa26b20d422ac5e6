"""Whether this node can know what is decided: not while a full disk keeps it from following, nor until it has caught up.

Meanwhile others may lead what this node led, and it does not learn of it.
"""

from ottla.base.types import Offset
from ottla.metadata.image import MetadataImage


class Sight:
    def __init__(self, image: MetadataImage) -> None:
        self._image = image
        self._is_lost = False
        self._wait_count = 0
        self._known_end: Offset | None = None
        """What was committed when the leader was first heard after it."""

    @property
    def is_lost(self) -> bool:
        if self._is_lost and self._known_end is not None and self._image.offset + 1 >= self._known_end:
            self._is_lost = False
        return self._is_lost

    def on_wait(self) -> None:
        """For room on the disk. `on_room` follows."""
        self._is_lost, self._known_end = True, None
        self._wait_count += 1

    def on_room(self) -> None:
        self._wait_count -= 1

    def on_leader_heard(self, high_watermark: Offset) -> None:
        if self._is_lost and not self._wait_count and self._known_end is None and high_watermark >= 0:
            self._known_end = high_watermark
