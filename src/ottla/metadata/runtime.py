"""Decide, append, replay, commit: the one path on which the cluster's metadata changes.

A decision sees every record appended before it, committed or not, because they are replayed at once. Its reply waits
for the commit, and so does the image that brokers and clients see (`image`): it follows the committed offset on every
node, batch by batch in log order, and tells its listeners what changed. A leader has the batches in memory
(`on_committed`), everyone else is handed them from the log (`follow`), or a whole image instead (`replace`).

When a commit fails, everything appended and not committed is void: the controller refuses work until it leads again
(`resume`), which it may once its committed image holds all that the log held when it was elected.

No await lies between a decision and its replay: two requests cannot decide on the same state.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, Protocol, TypeVar

from ottla.base.errors import ApiError, ErrorCode, invariant
from ottla.base.types import Offset
from ottla.metadata.controller.decision import RECORDS_PER_DECISION_MAX, Decision
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataBatch, MetadataImage
from ottla.metadata.image_difference import difference
from ottla.metadata.metadata_log import CommitFailed, MetadataLog

Reply = TypeVar("Reply")
MakeRoom = Callable[[], Awaitable[bool]]

UNCOMMITTED_BATCHES_MAX: Final = 1000  # A disk that does not keep up makes callers retry; it does not grow our memory.


async def no_room() -> bool:
    return False


class MetadataListener(Protocol):
    def on_metadata(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Called in log order after a commit; must not block. `image` is live: it changes with the next commit."""
        ...


class ControllerRuntime:
    def __init__(self, log: MetadataLog, image: MetadataImage, make_room: MakeRoom = no_room) -> None:
        """`image` holds what is committed at the start, or some first part of it. `make_room`: False where there is none."""
        self._log = log
        self._make_room = make_room
        self.image: Final = image
        self._ahead = MetadataImage()
        """What decisions see, while this node leads."""
        self._uncommitted: deque[MetadataBatch] = deque()
        self._listeners: list[MetadataListener] = []
        self._leading = False
        self._term = 0
        """Grows when leadership is lost: who waited in an older term learns nothing from a newer one's commits."""

    @property
    def is_leading(self) -> bool:
        return self._leading

    def listen(self, listener: MetadataListener) -> None:
        self._listeners.append(listener)

    async def submit(self, decide: Callable[[MetadataImage], Decision[Reply]]) -> Reply:
        """Runs one decision. `ApiError` from `decide` passes through; a reply means that its records are committed."""
        try:
            return await self._submit(decide)
        except ApiError as error:
            # The change that frees a full disk must not fail for want of the few bytes that record it.
            if error.code is not ErrorCode.KAFKA_STORAGE_ERROR or not await self._make_room():
                raise
        return await self._submit(decide)

    async def _submit(self, decide: Callable[[MetadataImage], Decision[Reply]]) -> Reply:
        self._check_ready()
        term = self._term
        decision = decide(self._ahead)
        for start in range(0, len(decision.records), RECORDS_PER_DECISION_MAX):
            self._append(decision.records[start : start + RECORDS_PER_DECISION_MAX])
        # Without records, too: the reply may tell of what others have appended and nobody has committed yet.
        await self._commit(self._ahead.offset, term)
        return decision.reply

    def resume(self) -> None:
        """Leads again. The committed image holds all of the log, but for control records of the quorum's own."""
        invariant(not self._leading, "only who does not lead begins to")
        self._ahead = self.image.copy()
        self._leading = True

    def resign(self) -> None:
        """This node leads no more: whatever is not committed is void to it."""
        self._leading = False
        self._term += 1
        self._uncommitted.clear()
        self._ahead = MetadataImage()

    # ---- the committed image ----

    def on_committed(self, offset: Offset) -> None:
        """Of a leader: moves the committed image up to `offset`."""
        while self._uncommitted and self._uncommitted[0].last_offset <= offset:
            self.image.replay_batch(self._uncommitted.popleft())
        if self.image.offset < offset:  # What is not of ours in our epoch is the quorum's: it changes no image.
            self.image.replay_batch(MetadataBatch((), offset, self.image.epoch, self.image.timestamp_ms))
        self._tell(self.image.take_delta())

    def follow(self, committed: Iterable[MetadataBatch]) -> None:
        """Of everyone else: the next committed batches of the log."""
        invariant(not self._leading, "a leader does not follow")
        for batch in committed:
            self.image.replay_batch(batch)
        self._tell(self.image.take_delta())

    def replace(self, image: MetadataImage) -> None:
        """A snapshot of another node's stands for all that this one has missed."""
        invariant(not self._leading, "a leader does not follow")
        invariant(image.offset >= self.image.offset, "metadata goes forward", new=image.offset, old=self.image.offset)
        delta = difference(self.image, image)
        self.image.become(image)
        self._tell(delta)

    def _tell(self, delta: MetadataDelta) -> None:
        if not delta.is_empty:
            for listener in self._listeners:
                listener.on_metadata(delta, self.image)

    # ---- one decision ----

    def _check_ready(self) -> None:
        if not self._leading:
            raise ApiError(ErrorCode.NOT_CONTROLLER, "This node is not the active controller.")
        if len(self._uncommitted) >= UNCOMMITTED_BATCHES_MAX:
            raise ApiError(ErrorCode.REQUEST_TIMED_OUT, "Too many metadata changes await their commit; try again.")

    def _append(self, records: list[object]) -> None:
        try:
            batch = self._log.append(records)
        except OSError as error:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"The metadata log cannot be written: {error}") from error
        if not self._leading:  # It was found out with this very record.
            raise _undecided("leadership was lost")
        self._ahead.replay_batch(batch)
        self._ahead.take_delta()
        self._uncommitted.append(batch)

    async def _commit(self, offset: Offset, term: int) -> None:
        try:
            await self._log.committed(offset)
        except CommitFailed as error:
            if self._term == term:
                self.resign()
            raise _undecided(str(error)) from error
        if self._term != term:
            raise _undecided("leadership was lost meanwhile")
        self.on_committed(offset)


def _undecided(reason: str) -> ApiError:
    """The change may still come to be: a time-out says so, a refusal would claim the contrary."""
    return ApiError(ErrorCode.REQUEST_TIMED_OUT, f"The change is not known to be committed: {reason}.")
