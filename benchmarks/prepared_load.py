"""One request sent again and again over many connections, as fast as the broker answers.

The request is encoded once, and every answer must equal the first one, which was decoded and found good: the client's
work is two system calls and a comparison of bytes, so that it is the broker that is measured. One thread serves all
connections.
"""

import select
import time
from collections.abc import Sequence
from typing import Final, NamedTuple

from benchmarks.probe import SIZE, connect, receive_frame
from ottla.client.bulk import LoadError

RECEIVE_BYTES: Final = 1 << 16
SILENCE_SECONDS_MAX: Final = 30.0


class Prepared(NamedTuple):
    """A whole request frame, and the whole frame of its answer."""

    request: bytes
    answer: bytes


def answer_to(port: int, request: bytes) -> bytes:
    """The whole frame of a broker's answer to `request`."""
    with connect(port) as connection:
        connection.sendall(request)
        body = receive_frame(connection)
    return SIZE.pack(len(body)) + body


def requests_per_second(port: int, prepared: Sequence[Prepared], *, count: int, in_flight: int) -> float:
    """Each connection sends its own prepared request, `count` in all, with up to `in_flight` unanswered on each."""
    lanes = {}
    poller = select.epoll()
    try:
        for each in prepared:
            lane = _Lane(port, each, count=count // len(prepared), in_flight=in_flight)
            lanes[lane.fileno] = lane
            poller.register(lane.fileno, select.EPOLLIN)
        started = time.perf_counter()
        for lane in lanes.values():
            lane.begin()
        unfinished = len(lanes)
        while unfinished:
            ready = poller.poll(SILENCE_SECONDS_MAX)
            if not ready:
                raise LoadError(f"no answer for {SILENCE_SECONDS_MAX:g} s")
            unfinished -= sum(lanes[fileno].take_answers() for fileno, _ in ready)
        return sum(lane.count for lane in lanes.values()) / (time.perf_counter() - started)
    finally:
        poller.close()
        for lane in lanes.values():
            lane.close()


class _Lane:
    """One connection and what is under way on it."""

    def __init__(self, port: int, prepared: Prepared, *, count: int, in_flight: int) -> None:
        self._connection = connect(port)
        self.fileno = self._connection.fileno()
        self.count = count
        self._window = min(in_flight, count)
        self._requests = prepared.request * self._window
        self._request_bytes = len(prepared.request)
        self._answer = prepared.answer
        self._partial = b""
        self._unsent_count = count
        self._unanswered_count = count

    def begin(self) -> None:
        self._send(self._window)

    def take_answers(self) -> bool:
        """Checks what arrived and sends as many again; whether that was the last."""
        received = self._partial + self._connection.recv(RECEIVE_BYTES)
        arrived, rest = divmod(len(received), len(self._answer))
        if received[: len(received) - rest] != self._answer * arrived or not received:
            raise LoadError("an answer differs from the first: an error, or a closed connection")
        self._partial = received[len(received) - rest :]
        self._unanswered_count -= arrived
        self._send(min(arrived, self._unsent_count))
        return self._unanswered_count == 0 and arrived > 0

    def _send(self, count: int) -> None:
        self._unsent_count -= count
        if count:
            self._connection.sendall(self._requests[: count * self._request_bytes])

    def close(self) -> None:
        self._connection.close()
