"""When each broker was last heard of, by this controller. Soft state: a new controller starts with fresh sessions, but
for the controller before it, whose silence made the new one (`on_silence`).

Time is handed in. A session belongs to a broker and its epoch, so that an older incarnation keeps nobody alive. Brokers
of the image that have not been heard of yet get a session from the first look on. `on_gone` ends one at once: somebody
found that no process answers for this incarnation any more. A connection that ended says less (`on_cut`): a process
may have been started anew meanwhile, so that one which registers is believed at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from ottla.base.types import NO_OFFSET, NodeId, Offset
from ottla.metadata.image import MetadataImage
from ottla.metadata.image_parts import BrokerImage
from ottla.wire import api


@dataclass(slots=True, kw_only=True)
class Session:
    broker_epoch: int
    heard_ms: int
    metadata_offset: Offset = NO_OFFSET
    """What the broker had applied of the metadata log by its last heartbeat."""
    shutdown_offset: Offset | None = None
    """Whoever has applied this knows that the broker leads nothing any more."""
    fenced_offset: Offset | None = None
    """Whoever has applied this knows that the broker is fenced, and who leads what it led."""
    is_refusing: bool = False
    """None of the broker's directories takes writes, its disk is full as a rule."""
    offline_directories: frozenset[UUID] | None = None
    """Those that failed, by its last heartbeat; None before this controller had one."""
    is_heard: bool = False
    """By this controller, and no connection to the broker was lost since."""
    is_gone: bool = False


class BrokerSessions:
    def __init__(self, session_timeout_ms: int, now_ms: int | None = None) -> None:
        """`now_ms`: from then on a pause of the controller's own counts."""
        self._session_timeout_ms = session_timeout_ms
        self._sessions: dict[NodeId, Session] = {}
        self._looked_ms = now_ms

    def on_heartbeat(self, image: MetadataImage, request: api.BrokerHeartbeatRequest, now_ms: int) -> bool:
        """Whether it is the first that this controller has of this incarnation. Those of others are ignored.

        `image`: the controller's, before the decision about this heartbeat.
        """
        broker = image.brokers.get(request.broker_id)
        if broker is None or broker.epoch != request.broker_epoch:
            return False
        session = self._session_of(broker, now_ms)
        is_first = session.offline_directories is None
        session.heard_ms = now_ms
        session.is_heard, session.is_gone = True, False
        session.is_refusing = bool(broker.log_directories) and set(broker.log_directories) <= set(
            request.offline_log_dirs
        )
        session.offline_directories = frozenset(request.offline_log_dirs)
        session.metadata_offset = max(session.metadata_offset, request.current_metadata_offset)
        if broker.in_controlled_shutdown and session.shutdown_offset is None:
            session.shutdown_offset = image.offset
        if not broker.fenced:
            session.fenced_offset = None
        elif session.fenced_offset is None:
            session.fenced_offset = image.offset
        return is_first

    @property
    def refusing_ids(self) -> set[NodeId]:
        """Brokers that take no writes now. They need not be in an ISR, nor lead while another can."""
        return {broker_id for broker_id, session in self._sessions.items() if session.is_refusing}

    def offline_directories(self, image: MetadataImage) -> dict[NodeId, frozenset[UUID]]:
        """Of each broker that was heard of since it registered: its directories that failed."""
        return {
            broker_id: session.offline_directories
            for broker_id, session in self._sessions.items()
            if session.offline_directories is not None
            and (broker := image.brokers.get(broker_id)) is not None
            and broker.epoch == session.broker_epoch
        }

    def on_gone(self, image: MetadataImage, broker_id: NodeId, broker_epoch: int, now_ms: int) -> None:
        """A hint, checked by whoever gives it: this incarnation's process is no more."""
        broker = image.brokers.get(broker_id)
        if broker is not None and broker.epoch == broker_epoch:
            self._session_of(broker, now_ms).is_gone = True

    def on_silence(self, image: MetadataImage, broker_id: NodeId, heard_ms: int) -> None:
        """It is known not to have been heard of since, by anybody: its session began then, not with this controller."""
        broker = image.brokers.get(broker_id)
        if broker is not None:
            self._session_of(broker, heard_ms)

    def on_cut(self, broker_id: NodeId, broker_epoch: int) -> None:
        """Its connection was lost, and whoever answers there now may be another process."""
        session = self._sessions.get(broker_id)
        if session is not None and session.broker_epoch == broker_epoch:
            session.is_heard = False

    def expired(self, image: MetadataImage, now_ms: int) -> list[BrokerImage]:
        """Brokers to fence now. To be asked a few times within a session time-out."""
        self._forgive_own_pause(now_ms)
        for unregistered in self._sessions.keys() - image.brokers.keys():
            del self._sessions[unregistered]
        return [broker for broker in image.brokers.values() if not broker.fenced and not self.is_alive(broker, now_ms)]

    def is_alive(self, broker: BrokerImage, now_ms: int) -> bool:
        session = self._session_of(broker, now_ms)
        return not session.is_gone and now_ms - session.heard_ms < self._session_timeout_ms

    def is_in_contact(self, broker: BrokerImage, now_ms: int) -> bool:
        """Alive beyond doubt: who registers under its id is another one."""
        return self.is_alive(broker, now_ms) and self._session_of(broker, now_ms).is_heard

    def knows_it_is_fenced(self, broker: BrokerImage) -> bool:
        """Let serve earlier, it would serve what others lead by now."""
        session = self._sessions.get(broker.id)
        fenced_offset = None if session is None else session.fenced_offset
        return fenced_offset is None or self._metadata_offset(broker) >= fenced_offset

    def has_been_told(self, image: MetadataImage, broker_id: NodeId) -> bool:
        """Every other active broker knows by now that `broker_id`, which is shutting down, leads nothing any more."""
        session = self._sessions.get(broker_id)
        if session is None or session.shutdown_offset is None:
            return False
        told_offset = session.shutdown_offset
        return all(
            self._metadata_offset(broker) >= told_offset
            for broker in image.brokers.values()
            if broker.is_active and broker.id != broker_id
        )

    def _metadata_offset(self, broker: BrokerImage) -> Offset:
        session = self._sessions.get(broker.id)
        return NO_OFFSET if session is None or session.broker_epoch != broker.epoch else session.metadata_offset

    def _session_of(self, broker: BrokerImage, now_ms: int) -> Session:
        session = self._sessions.get(broker.id)
        if session is None or session.broker_epoch != broker.epoch:
            session = self._sessions[broker.id] = Session(broker_epoch=broker.epoch, heard_ms=now_ms)
        return session

    def _forgive_own_pause(self, now_ms: int) -> None:
        """A controller that stood still, or led nobody, heard nobody: that is no silence of theirs."""
        paused = self._looked_ms is not None and now_ms - self._looked_ms > self._session_timeout_ms // 2
        self._looked_ms = now_ms
        if paused:
            for session in self._sessions.values():
                session.heard_ms = now_ms
