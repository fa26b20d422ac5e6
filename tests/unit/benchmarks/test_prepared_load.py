"""The load of prepared requests sends each as often as asked, keeps its window, and notices an answer that differs."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from benchmarks.prepared_load import Prepared, answer_to, requests_per_second
from ottla.client.bulk import LoadError

REQUEST, ANSWER = b"\0\0\0\4ping", b"\0\0\0\4pong"


@dataclass(slots=True)
class Server:
    """Answers every request; `answer_for` is asked with how many came before on the connection."""

    port: int
    request_counts: list[int] = field(default_factory=list)


@contextmanager
def serving(answer_for: Callable[[int], bytes]) -> Iterator[Server]:
    listener = socket.create_server(("127.0.0.1", 0))
    server = Server(listener.getsockname()[1])
    threads: list[threading.Thread] = []

    def serve(connection: socket.socket) -> None:
        count, rest = 0, b""
        with connection:
            while received := connection.recv(1 << 16):
                rest += received
                while len(rest) >= len(REQUEST):
                    assert rest.startswith(REQUEST)
                    rest = rest[len(REQUEST) :]
                    connection.sendall(answer_for(count))
                    count += 1
        server.request_counts.append(count)

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threads.append(threading.Thread(target=serve, args=[connection]))
            threads[-1].start()

    acceptor = threading.Thread(target=accept)
    acceptor.start()
    try:
        yield server
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        acceptor.join()
        for thread in threads:
            thread.join()


@pytest.mark.parametrize("in_flight", [1, 7, 1_000])
def test_every_connection_sends_its_share(in_flight: int) -> None:
    with serving(lambda count: ANSWER) as server:
        rate = requests_per_second(server.port, [Prepared(REQUEST, ANSWER)] * 3, count=300, in_flight=in_flight)
    assert rate > 0
    assert server.request_counts == [100, 100, 100]


def test_answers_may_come_in_pieces() -> None:
    pieces = [ANSWER[:3], ANSWER[3:] + ANSWER[:5], ANSWER[5:] + ANSWER]
    with serving(lambda count: pieces[count]) as server:
        requests_per_second(server.port, [Prepared(REQUEST, ANSWER)], count=3, in_flight=3)
    assert server.request_counts == [3]


def test_an_answer_that_differs_ends_the_load() -> None:
    with (
        serving(lambda count: ANSWER if count < 5 else b"\0\0\0\4none") as server,
        pytest.raises(LoadError, match="differs"),
    ):
        requests_per_second(server.port, [Prepared(REQUEST, ANSWER)], count=100, in_flight=3)


def test_an_answer_is_kept_with_its_size() -> None:
    with serving(lambda count: ANSWER) as server:
        assert answer_to(server.port, REQUEST) == ANSWER
