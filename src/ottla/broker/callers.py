"""The connections over which other nodes call this one: while one of them is open, the process behind it lives.

A process that ends, however it does, loses its connections at once, and its kernel says so. Where it lives and somebody in
between refuses connections to it, or it has too many already, those that it made itself stay open. The other way round this
proves nothing: a dead machine closes nothing, and who lives may have given a connection up to make another.

Of each API the last connection counts: one that was cut off may look open here for ever. Only such APIs are noted
as are asked one at a time: behind a request that waits for its turn nobody would see the end of the connection.
"""

from ottla.base.types import NodeId
from ottla.broker.request import Lifeline, RequestContext
from ottla.metadata.image import MetadataImage


class Callers:
    def __init__(self, image: MetadataImage) -> None:
        self._image = image
        self._lifelines: dict[NodeId, dict[int, Lifeline]] = {}

    def on_call(self, node_id: NodeId, context: RequestContext) -> None:
        """A Fetch or BrokerHeartbeat of who says that it is `node_id`."""
        if node_id in self._image.brokers:
            self._lifelines.setdefault(node_id, {})[context.api_key] = context.peer.lifeline

    def is_there(self, node_id: NodeId) -> bool:
        """Whether it lives beyond doubt."""
        return self._open_lifeline(node_id) is not None

    async def wait_left(self, node_id: NodeId) -> None:
        """Until none of its connections is open."""
        while (lifeline := self._open_lifeline(node_id)) is not None:
            await lifeline.wait_cut()

    def _open_lifeline(self, node_id: NodeId) -> Lifeline | None:
        return next((one for one in self._lifelines.get(node_id, {}).values() if not one.is_cut), None)
