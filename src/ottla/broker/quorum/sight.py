"""Whether this node can know what is decided: not while a full disk keeps it from following, nor until it has caught up.

Meanwhile others may lead what this node led, and it does not learn of it.
"""

from ottla.base.types import Offset
from ottla.metadata.image import MetadataImage


class Sight:
    def __init__(self, image: MetadataImage) -> None:
        self._image = image
        self._wait_count = 0
        self._known_end: Offset | None = 0
        """What was committed when the leader was first heard after a wait; None: it was not heard yet."""

    @property
    def is_lost(self) -> bool:
        return self._known_end is None or self._image.offset + 1 < self._known_end

    def on_wait(self) -> None:
        """For room on the disk. `on_room` follows."""
        self._known_end = None
        self._wait_count += 1

    def on_room(self) -> None:
        self._wait_count -= 1

    def on_leader_heard(self, high_watermark: Offset) -> None:
        if self._known_end is None and not self._wait_count and high_watermark >= 0:
            self._known_end = high_watermark
