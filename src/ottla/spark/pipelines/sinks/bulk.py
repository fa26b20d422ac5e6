"""The bulk API of Elasticsearch and OpenSearch over one HTTP connection.

A request is NDJSON: a line that says where to, a line with the document. The answer has an outcome for each. What the
server is too busy for (429, 503, a gateway's 502 and 504, a lost connection) is sent again with growing pauses;
documents have ids, so sending again is harmless. Any other refusal is for good and given to the caller.
"""

import base64
import http.client
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import urlsplit

BUSY: Final = frozenset({429, 502, 503, 504})
ATTEMPTS_MAX: Final = 8
PAUSE_MIN_SECONDS: Final = 0.25  # Doubled with each attempt: about half a minute in all.
TIMEOUT_SECONDS: Final = 60


class BulkFailed(Exception):
    """The server did not take a request: not reachable, too busy for too long, or it refuses us."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkServer:
    url: str
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    api_key: str | None = field(default=None, repr=False)

    def connection(self) -> http.client.HTTPConnection:
        url = urlsplit(self.url)
        assert url.hostname is not None
        kind = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
        return kind(url.hostname, url.port or 9200, timeout=TIMEOUT_SECONDS)

    def headers(self) -> dict[str, str]:
        headers = {"Content-Type": "application/x-ndjson"}
        if self.api_key:
            headers["Authorization"] = f"ApiKey {self.api_key}"
        elif self.user:
            pair = base64.b64encode(f"{self.user}:{self.password}".encode()).decode()
            headers["Authorization"] = f"Basic {pair}"
        return headers


@dataclass(frozen=True, slots=True)
class Document:
    id: str
    source: bytes

    @classmethod
    def of(cls, id: str, row: Mapping[str, Any]) -> Self:
        return cls(id, json.dumps(row, default=_as_json, ensure_ascii=False).encode())


def _as_json(value: object) -> object:
    match value:
        case datetime() | date():
            return value.isoformat()
        case Decimal():
            return str(value)  # A number would lose digits; mappings take a text for any of their numeric types.
        case bytes():
            return base64.b64encode(value).decode()  # What the type `binary` is given as.
        case _:
            raise TypeError(f"a document cannot hold a {type(value).__name__}")


@dataclass(frozen=True, slots=True)
class Refused:
    document: Document
    reason: str


class Bulk:
    def __init__(
        self,
        server: BulkServer,
        *,
        index: str,
        bulk_bytes: int,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._server = server
        self._target = json.dumps({"index": {"_index": index, "_id": "?"}}).replace('"?"', "%s")
        self._bulk_bytes = bulk_bytes
        self._pause = pause
        self._connection = server.connection()  # It connects with the first request.
        self._path = urlsplit(server.url).path.rstrip("/") + "/_bulk"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()

    def write(self, documents: Iterable[Document]) -> Iterator[Refused]:
        """Yields what the index does not take. All others are written when this ends."""
        for waiting in self._requests(documents):
            yield from self._write_all(waiting)

    def _requests(self, documents: Iterable[Document]) -> Iterator[list[Document]]:
        waiting: list[Document] = []
        size_bytes = 0
        for document in documents:
            if waiting and size_bytes + len(document.source) > self._bulk_bytes:
                yield waiting
                waiting, size_bytes = [], 0
            waiting.append(document)
            size_bytes += len(document.source)
        if waiting:
            yield waiting

    def _write_all(self, documents: list[Document]) -> Iterator[Refused]:
        trouble = ""
        for attempt in range(ATTEMPTS_MAX):
            if attempt:
                self._pause(PAUSE_MIN_SECONDS * 2 ** (attempt - 1))
            try:
                status, answer = self._post(documents)
            except (OSError, http.client.HTTPException) as error:
                self._connection.close()  # The next request opens it again.
                trouble = f"{type(error).__name__}: {error}"
                continue
            if status in BUSY:
                trouble = f"it answers {status}"
                continue
            if status != 200:
                raise BulkFailed(f"{self._server.url} answers {status}: {answer[:500].decode(errors='replace')}")
            outcomes = [
                (one, *_outcome(item)) for one, item in zip(documents, json.loads(answer)["items"], strict=True)
            ]
            yield from (Refused(one, reason) for one, code, reason in outcomes if code >= 300 and code not in BUSY)
            documents = [one for one, code, _ in outcomes if code in BUSY]
            if not documents:
                return
            trouble = f"it is too busy for {len(documents)} documents"
        raise BulkFailed(f"{self._server.url} took no more after {ATTEMPTS_MAX} attempts: {trouble}")

    def _post(self, documents: list[Document]) -> tuple[int, bytes]:
        lines = [part for one in documents for part in ((self._target % json.dumps(one.id)).encode(), one.source)]
        self._connection.request("POST", self._path, b"\n".join([*lines, b""]), self._server.headers())
        response = self._connection.getresponse()
        return response.status, response.read()


def _outcome(item: Mapping[str, Any]) -> tuple[int, str]:
    """Status and reason."""
    (answer,) = item.values()
    error = answer.get("error") or {}
    reason = error.get("reason", "") if isinstance(error, dict) else str(error)
    cause = error.get("caused_by", {}).get("reason") if isinstance(error, dict) else None
    return answer["status"], f"{reason} ({cause})" if cause else reason
