"""The committed image follows the metadata log; and when a leader has caught up with the log it was elected on, it leads.

One task moves the image of a node that does not lead: it reads what is committed, in a worker where it may wait for the
disk, and replays it in portions, so that the loop gets its turns. A leader needs no such task: it has what it appended.
A newly elected one does, up to the record that begins its epoch: with that one everything before it is committed.
"""

import asyncio
from collections.abc import Callable, Iterator
from typing import Final

from ottla.base.types import Offset
from ottla.broker.quorum.log_reading import READ_BYTES, metadata_batches
from ottla.broker.quorum.store import QuorumStore
from ottla.metadata.image import MetadataBatch
from ottla.metadata.runtime import ControllerRuntime
from ottla.metadata.snapshot import Snapshot

RECORDS_PER_TURN: Final = 1000
BYTES_PER_TURN: Final = 64 << 10  # More is read and decoded in a worker.


class ImageFollowing:
    def __init__(
        self,
        store: QuorumStore,
        runtime: ControllerRuntime,
        on_caught_up: Callable[[], None],
        on_failed: Callable[[OSError], None],
    ) -> None:
        """`on_caught_up`: the image holds the log up to the epoch that this node leads. `on_failed`: it cannot be read."""
        self._store = store
        self._runtime = runtime
        self._image = runtime.image
        self._on_caught_up = on_caught_up
        self._on_failed = on_failed
        self._high_watermark: Offset = self._image.offset + 1
        self._leads_from: Offset | None = None
        self._has_news = asyncio.Event()

    def on_committed(self, high_watermark: Offset) -> None:
        self._high_watermark = high_watermark
        if self._runtime.is_leading:
            self._runtime.on_committed(high_watermark - 1)
        else:
            self._has_news.set()

    def on_elected(self, epoch_start_offset: Offset) -> None:
        self._leads_from = epoch_start_offset
        self._has_news.set()

    def on_deposed(self) -> None:
        self._leads_from = None
        if self._runtime.is_leading:
            self._runtime.resign()
        self._has_news.set()

    def replace(self, snapshot: Snapshot) -> None:
        """The log begins behind this snapshot now."""
        self._high_watermark = max(self._high_watermark, snapshot.id.end_offset)
        self._runtime.replace(snapshot.image)

    async def run(self) -> None:
        try:
            await self._run()
        except OSError as error:
            self._on_failed(error)  # A node that does not learn what is decided must not go on as if nothing was.

    async def _run(self) -> None:
        while True:
            await self._has_news.wait()
            self._has_news.clear()
            while not self._runtime.is_leading and self._image.offset + 1 < self._high_watermark:
                for portion in _portions(await self._read()):
                    self._follow(portion)
                    await asyncio.sleep(0)
            if not self._runtime.is_leading and self._leads_from is not None and self._image.offset >= self._leads_from:
                self._on_caught_up()

    async def _read(self) -> list[MetadataBatch]:
        offset, store = self._image.offset + 1, self._store
        data = store.read_now(offset, self._high_watermark, BYTES_PER_TURN)
        if data is not None:
            return metadata_batches(data, offset)
        async with store.upkeep:
            offset = self._image.offset + 1  # A snapshot may have come in between.
            if offset >= self._high_watermark:
                return []
            return await store.workers.run(self._read_and_decode, offset, self._high_watermark)

    def _read_and_decode(self, offset: Offset, up_to_offset: Offset) -> list[MetadataBatch]:
        return metadata_batches(self._store.read(offset, up_to_offset, READ_BYTES), offset)

    def _follow(self, portion: list[MetadataBatch]) -> None:
        self._runtime.follow(batch for batch in portion if batch.last_offset > self._image.offset)


def _portions(batches: list[MetadataBatch]) -> Iterator[list[MetadataBatch]]:
    portion: list[MetadataBatch] = []
    record_count = 0
    for batch in batches:
        portion.append(batch)
        record_count += len(batch.records)
        if record_count >= RECORDS_PER_TURN:
            yield portion
            portion, record_count = [], 0
    if portion:
        yield portion
