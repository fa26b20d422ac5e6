"""Clients that create and delete topics at a controller whose commits lag, fail and lose leadership.

What must hold, whatever the seed: the image that clients see is the replay of a committed prefix of the log, at every
moment; a reply is true for ever; a refusal for lack of leadership or space has changed nothing that was committed.
"""

import asyncio
from collections import Counter
from typing import Final
from uuid import UUID

from ottla.base.errors import ApiError, ErrorCode
from ottla.metadata.controller.decision import Decision
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataImage
from ottla.metadata.runtime import ControllerRuntime
from ottla.wire import api
from sim.metadata_log import SimulatedMetadataLog
from sim.world import World

CLIENT_COUNT: Final = 4
REQUESTS_PER_CLIENT: Final = 15
_NOT_NOW: Final = (ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.KAFKA_STORAGE_ERROR)


class MetadataScenario:
    def __init__(self, seed: int) -> None:
        self.world = World(seed)
        self.log = SimulatedMetadataLog(self.world.clock, self.world.stream("metadata"), self.world.trace)
        self.runtime = ControllerRuntime(self.log, MetadataImage())
        self.runtime.resume()
        self.runtime.listen(self)
        self.hits: Counter[str] = Counter()
        self._created: set[str] = set()

    def run(self) -> str:
        self.world.run(self._main())
        return self.world.digest()

    async def _main(self) -> None:
        elections = asyncio.ensure_future(self._lead_again())
        await asyncio.gather(*(self._ask(number) for number in range(CLIENT_COUNT)))
        elections.cancel()
        self._check_image(self.runtime.image)
        missing = self._created - set(self.runtime.image.topics)
        assert not missing, f"acknowledged and gone: {sorted(missing)}"

    async def _ask(self, number: int) -> None:
        for count in range(REQUESTS_PER_CLIENT):
            name = f"topic-{number}-{count}"
            await asyncio.sleep(self.world.random.random() * 0.3)
            try:
                reply = await self.runtime.submit(lambda image, name=name: self._decide_create(image, name))  # type: ignore[misc]
            except ApiError as error:
                assert error.code in _NOT_NOW, error
                self.hits[error.code.name] += 1
                continue
            assert reply in self.runtime.image.topics, "a reply before its commit"
            self._created.add(reply)
            self.hits["topic created"] += 1

    def _decide_create(self, image: MetadataImage, name: str) -> Decision[str]:
        topic_id = UUID(int=self.world.random.getrandbits(128), version=4)
        return Decision(records=[api.TopicRecord(name=name, topic_id=topic_id)], reply=name)

    async def _lead_again(self) -> None:
        while True:
            await asyncio.sleep(self.world.random.random())
            if not self.runtime.is_leading:
                self.runtime.follow(self.log.after(self.runtime.image.offset))
                self.runtime.resume()
                self.hits["leads again"] += 1

    def on_metadata(self, delta: MetadataDelta, image: MetadataImage) -> None:
        self._check_image(image)
        assert self._created <= set(image.topics)

    def _check_image(self, image: MetadataImage) -> None:
        assert image.offset <= self.log.committed_offset, "the image runs ahead of the commits"
        replayed = MetadataImage()
        for batch in self.log.batches:
            if batch.last_offset <= image.offset:
                replayed.replay_batch(batch)
        assert replayed.offset == image.offset
        assert set(replayed.topics) == set(image.topics), "the image is not the replay of the log"
