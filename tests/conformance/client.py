"""The test's end of a driver: a client in its own process, spoken to in JSON lines.

Every client is asked in the same words, so a test is written once and runs with each client that can do what it asks.
A driver (drivers/, java/) turns the words into calls of its client and never judges; the tests do.
"""

import base64
import json
import os
import queue
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

ANSWER_WAIT_S: Final = 60
STARTING_WAIT_S: Final = 60
STDERR_LINES_KEPT: Final = 40
FETCH_WAIT_MS: Final = 20_000

Headers = list[tuple[str, bytes | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What a test asks a client to write; the partitioner chooses where `partition` is None."""

    value: bytes | None
    key: bytes | None = None
    headers: Sequence[tuple[str, bytes | None]] = field(default_factory=list)
    partition: int | None = 0
    timestamp: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """What a producer was told of a record: offset -1 where nobody told it, as with acks=0."""

    partition: int
    offset: int
    timestamp: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    offset: int
    timestamp: int
    timestamp_type: str | None
    key: bytes | None
    value: bytes | None
    headers: Headers


@dataclass(frozen=True, slots=True, kw_only=True)
class Located:
    offset: int
    timestamp: int


class ClientError(Exception):
    """What the client itself reported; `code` is Kafka's error number, -1 where the client gave none."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


class Client:
    def __init__(self, name: str, command: Sequence[str], *, environment: Mapping[str, str], directory: Path) -> None:
        self.name = name
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=directory,
            env=dict(environment),
            start_new_session=True,  # So that `kill` takes along what the driver started, as kcat's does.
        )
        self._answers: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._complaints: deque[str] = deque(maxlen=STDERR_LINES_KEPT)
        threading.Thread(target=self._read_answers, daemon=True).start()
        threading.Thread(target=self._read_complaints, daemon=True).start()
        self.version: str = self._next_answer(STARTING_WAIT_S)["version"]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()
            self._process.wait(timeout=10)
        except (subprocess.TimeoutExpired, BrokenPipeError):
            self._process.kill()
            self._process.wait()

    def kill(self) -> None:
        """SIGKILL: a crash of the client and of everything that it holds open."""
        if self.is_running:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def pause(self) -> None:
        """SIGSTOP: a client that is alive and does nothing, as on a machine under too much load."""
        os.killpg(self._process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.killpg(self._process.pid, signal.SIGCONT)

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def _read_answers(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._answers.put(line)
        self._answers.put(None)

    def _read_complaints(self) -> None:
        assert self._process.stderr is not None
        self._complaints.extend(self._process.stderr)

    def _next_answer(self, wait_s: float) -> dict[str, Any]:
        try:
            line = self._answers.get(timeout=wait_s)
        except queue.Empty:
            self._process.kill()  # Its answer, if it came at all, would be taken for that to the next request.
            raise AssertionError(f"{self.name} gave no answer in {wait_s} s:\n{''.join(self._complaints)}") from None
        if line is None:
            raise AssertionError(f"{self.name} ended:\n{''.join(self._complaints)}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def call(self, operation: str, **arguments: Any) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"op": operation, **arguments}) + "\n")
        self._process.stdin.flush()
        answer = self._next_answer(ANSWER_WAIT_S)
        if "error" in answer:
            raise ClientError(answer["error"]["code"], answer["error"]["message"])
        return answer["ok"]

    def attempt(self, topic: str, records: Sequence[Record], **settings: Any) -> list[Stored | ClientError]:
        """Write records and answer each one's outcome.

        Settings, in the suite's own words: acks ("0", "1", "all"), compression, idempotence, linger_ms, batch_bytes,
        max_request_bytes, in_flight, request_timeout_ms, bootstrap (another address, such as a proxy's), raw (the
        client's own names), and producer: a name under which the producer stays open for later calls.
        """
        outcomes = self.call("produce", topic=topic, records=[_sendable(record) for record in records], **settings)
        return [ClientError(**outcome["error"]) if "error" in outcome else Stored(**outcome) for outcome in outcomes]

    def produce(self, topic: str, records: Sequence[Record], **settings: Any) -> list[Stored]:
        """Write records, all of which must be accepted; the settings are those of `attempt`."""
        outcomes = self.attempt(topic, records, **settings)
        for outcome in outcomes:
            if isinstance(outcome, ClientError):
                raise outcome
        return [outcome for outcome in outcomes if isinstance(outcome, Stored)]

    def fetch(
        self,
        topic: str,
        *,
        count: int,
        offset: int = 0,
        partition: int = 0,
        wait_ms: int = FETCH_WAIT_MS,
        **settings: Any,
    ) -> list[Fetched]:
        """Read up to `count` records of an assigned partition, for at most `wait_ms`.

        Settings: reset ("none", "earliest", "latest"), bootstrap, raw, and consumer: a name under which the consumer
        stays open; its later calls go on where it stood.
        """
        where = {"topic": topic, "partition": partition, "offset": offset}
        found = self.call("fetch", **where, count=count, wait_ms=wait_ms, **settings)
        return [
            Fetched(
                offset=record["offset"],
                timestamp=record["timestamp"],
                timestamp_type=record["timestamp_type"],
                key=decoded(record["key"]),
                value=decoded(record["value"]),
                headers=[(name, decoded(value)) for name, value in record["headers"]],
            )
            for record in found
        ]

    def locate(self, topic: str, at: str | int, *, partition: int = 0) -> Located:
        """ListOffsets: `at` is "earliest", "latest", "max_timestamp" or a timestamp in ms."""
        return Located(**self.call("list_offsets", topic=topic, partition=partition, at=at))

    def create_topic(
        self,
        name: str,
        *,
        partitions: int = 1,
        replication: int = 1,
        configs: Mapping[str, str] | None = None,
        validate_only: bool = False,
    ) -> None:
        shape = {"partitions": partitions, "replication": replication}
        self.call("create_topic", name=name, **shape, configs=dict(configs or {}), validate_only=validate_only)

    def topics(self) -> set[str]:
        return set(self.call("list_topics"))

    def partitions(self, topic: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.call("describe_topic", name=topic)["partitions"]
        return sorted(found, key=lambda partition: partition["index"])

    def topic_configs(self, topic: str) -> dict[str, str]:
        return {key: entry["value"] for key, entry in self.call("describe_configs", kind="topic", name=topic).items()}

    def change_topic_configs(self, topic: str, *changes: tuple[str, str, str | None]) -> None:
        """IncrementalAlterConfigs; a change is (SET | DELETE | APPEND | SUBTRACT, key, value)."""
        self.call("change_configs", kind="topic", name=topic, changes=changes)


def _sendable(record: Record) -> dict[str, Any]:
    return {
        "key": _text(record.key),
        "value": _text(record.value),
        "headers": [(name, _text(value)) for name, value in record.headers],
        "partition": record.partition,
        "timestamp": record.timestamp,
    }


def _text(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode("ascii")


def decoded(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)
