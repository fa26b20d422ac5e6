"""Asking again what passes by itself: a broker restarts, a leader or coordinator moves, markers are still being written."""

import time
from collections.abc import Callable, Set
from typing import Final, TypeVar

from ottla.base.errors import ErrorCode
from ottla.client.errors import ClientError
from ottla.client.raw.connection import NO_CONNECTION

T = TypeVar("T")

RETRY_SECONDS: Final = 0.05

COORDINATOR_PASSING: Final = frozenset(
    {
        NO_CONNECTION,
        ErrorCode.COORDINATOR_NOT_AVAILABLE.name,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS.name,
        ErrorCode.NOT_COORDINATOR.name,
        ErrorCode.CONCURRENT_TRANSACTIONS.name,
        ErrorCode.REQUEST_TIMED_OUT.name,
        ErrorCode.NETWORK_EXCEPTION.name,
    }
)

LEADER_PASSING: Final = frozenset(
    {
        NO_CONNECTION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER.name,
        ErrorCode.LEADER_NOT_AVAILABLE.name,
        ErrorCode.FENCED_LEADER_EPOCH.name,
        ErrorCode.UNKNOWN_LEADER_EPOCH.name,
        ErrorCode.REPLICA_NOT_AVAILABLE.name,
        ErrorCode.OFFSET_NOT_AVAILABLE.name,
        ErrorCode.KAFKA_STORAGE_ERROR.name,
    }
)


def patiently(ask: Callable[[], T], *, passing: Set[str], timeout_s: float) -> T:
    """What `ask` returns, as soon as it raises none of the codes that pass; the last of them after `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            return ask()
        except ClientError as error:
            if error.code not in passing or time.monotonic() > deadline:
                raise
        time.sleep(RETRY_SECONDS)
