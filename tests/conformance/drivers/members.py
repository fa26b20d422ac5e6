"""Members of groups inside a driver: what every Python driver's members share.

A member polls all the time, as a real application does, and writes down what it reads and what it is told in its journal;
`watch` hands over what is new. Clients that are not safe between threads are called by the member's own thread alone: what
the test asks for meanwhile (a commit, leaving) waits in a queue until the next poll is over.
"""

import queue
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Any

from tests.conformance.drivers.loop import Answer, refusal, to_text

POLL_S = 0.05
ANSWER_WAIT_S = 40
FENCED_INSTANCE_ID = 82
Partition = tuple[str, int]


def now_ms() -> float:
    """Wall clock: what members in several processes tell is put in one order."""
    return time.time() * 1000


def state_name(state: str) -> str:
    """A group's state as the Java client spells it: PreparingRebalance is PREPARING_REBALANCE."""
    return "".join(f"_{letter}" if letter.isupper() and at else letter for at, letter in enumerate(state)).upper()


class Journal:
    def __init__(self, code_of: Callable[[BaseException], int]) -> None:
        self._code_of = code_of
        self._records: list[Answer] = []
        self._events: list[Answer] = []
        self._errors: list[Answer] = []
        self.is_fenced = False  # Who goes on polling then takes the name back, and fences the other in turn.

    def read(self, topic: str, partition: int, offset: int, value: bytes | None) -> None:
        where = {"topic": topic, "partition": partition, "offset": offset}
        self._records.append({**where, "value": to_text(value), "at_ms": now_ms()})

    def told(self, kind: str, partitions: Iterable[Partition]) -> None:
        """`kind` is "assigned", "revoked" or "lost"."""
        self._events.append({"kind": kind, "partitions": sorted(partitions), "at_ms": now_ms()})

    def failed(self, error: BaseException) -> None:
        described = refusal(error, self._code_of)["error"]
        self._errors.append(described)
        self.is_fenced |= described["code"] == FENCED_INSTANCE_ID

    def news(self) -> Answer:
        """All since the last time."""
        records, self._records = self._records, []
        events, self._events = self._events, []
        errors, self._errors = self._errors, []
        return {"records": records, "events": events, "errors": errors}


class ThreadedMember(ABC, threading.Thread):
    """A member with a thread of its own; a driver says how its client polls, commits and leaves."""

    def __init__(self, code_of: Callable[[BaseException], int]) -> None:
        super().__init__(daemon=True)
        self.journal = Journal(code_of)
        self._asked: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = queue.SimpleQueue()
        self._left = False

    @abstractmethod
    def poll(self) -> None:
        """One poll of at most POLL_S; what it yields goes into the journal."""

    @abstractmethod
    def close(self) -> None: ...

    @abstractmethod
    def owned(self) -> list[Partition]: ...

    @abstractmethod
    def generation(self) -> int: ...

    def run(self) -> None:
        while not self._left:
            self._do_what_was_asked()
            if self._left:
                return
            try:
                time.sleep(POLL_S) if self.journal.is_fenced else self.poll()
            except Exception as error:  # Whatever the client raises is what the test wants to know.
                self.journal.failed(error)
                time.sleep(POLL_S)

    def _do_what_was_asked(self) -> None:
        while True:
            try:
                action, answer = self._asked.get_nowait()
            except queue.Empty:
                return
            try:
                answer.set_result(action())
            except Exception as error:
                answer.set_exception(error)

    def ask(self, action: Callable[[], Any]) -> Any:
        return self._later(action).result(ANSWER_WAIT_S)

    def _later(self, action: Callable[[], Any]) -> Future[Any]:
        answer: Future[Any] = Future()
        self._asked.put((action, answer))
        return answer

    def hold(self, ms: int) -> None:
        """No poll for so long, as if a record took that much work; nobody waits for it."""
        self._later(lambda: time.sleep(ms / 1000))

    def leave(self) -> None:
        def close() -> None:
            self._left = True
            self.close()

        self.ask(close)

    def watch(self) -> Any:
        """Between two polls, so that the events explain what is owned."""
        return self.ask(lambda: {**self.journal.news(), "owned": self.owned(), "generation": self.generation()})
