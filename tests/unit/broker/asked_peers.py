"""Peers that note who was asked."""

from typing import Any

from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.peers import Nobody, PeerLost


class Asked(Nobody):
    """Peers of which some are gone, and some silent."""

    def __init__(self, answers: dict[int, ApiError]) -> None:
        self.answers = answers
        self.asked: list[int] = []

    async def ask(self, node_id: int, *_: Any, **__: Any) -> None:
        self.asked.append(node_id)
        if node_id in self.answers:
            raise self.answers[node_id]


GONE = PeerLost("nobody listens")
SILENT = ApiError(ErrorCode.NETWORK_EXCEPTION, "no answer")
