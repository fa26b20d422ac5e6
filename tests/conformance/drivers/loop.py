"""The loop every driver runs: one JSON request per line on stdin, one JSON answer per line on stdout.

A driver is a small program around one unmodified client, started as its own process and told the bootstrap address
as its only argument. It says who it is first, then answers until stdin ends. Bytes travel as base64, an error as
{"code", "message"} with Kafka's own error number wherever the client knows it. What the operations mean, and their
arguments, is written once: in tests/conformance/client.py, and for members of groups in tests/conformance/groups.py.
"""

import base64
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import IO, Any

UNKNOWN_CODE = -1  # Kafka's UNKNOWN_SERVER_ERROR: the client gave no number.

Answer = dict[str, Any]
Operations = Mapping[str, Callable[..., Any]]


class KafkaRefusal(Exception):
    """An error code that a client handed over as a value, made an exception so that every driver reports it alike."""

    def __init__(self, code: int, message: str | None = None) -> None:
        super().__init__(message or "")
        self.code = code


def to_text(data: bytes | bytearray | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode("ascii")


def to_bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def open_answers() -> IO[str]:
    """Stdout for the answers alone; whatever a library prints goes to stderr."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return answers


def requests() -> Iterator[tuple[str, dict[str, Any]]]:
    for line in sys.stdin:
        request = json.loads(line)
        yield request.pop("op"), request


def introduce(answers: IO[str], client: str, version: str) -> None:
    write(answers, {"client": client, "version": version})


def write(answers: IO[str], answer: Answer) -> None:
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


def refusal(error: BaseException, code_of: Callable[[BaseException], int]) -> Answer:
    code = error.code if isinstance(error, KafkaRefusal) else code_of(error)
    return {"error": {"code": code, "message": f"{type(error).__name__}: {error}"}}


def serve(client: str, version: str, operations: Operations, code_of: Callable[[BaseException], int]) -> None:
    answers = open_answers()
    introduce(answers, client, version)
    for operation, arguments in requests():
        try:
            answer: Answer = {"ok": operations[operation](**arguments)}
        except Exception as error:  # Whatever the client raises is the answer; the test judges it.
            answer = refusal(error, code_of)
        write(answers, answer)
