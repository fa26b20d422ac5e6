"""A server that speaks the part of Elasticsearch's HTTP that a bulk write needs, in a thread of the test.

No Elasticsearch or OpenSearch runs here; this knows their answers as their documentation has them: an outcome for each
document, 429 for those it was too busy for, 400 with a reason and its cause for those that do not fit.
"""

import base64
import json
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


@dataclass(slots=True)
class FakeSearch:
    indexes: dict[str, dict[str, Any]] = field(default_factory=dict)
    requests: list[list[str]] = field(default_factory=list)
    """The ids that each request carried."""
    statuses: list[int] = field(default_factory=list)
    """What the next requests are answered with instead; 0 breaks the connection."""
    busy_documents: dict[str, int] = field(default_factory=dict)
    """How often a document is still to be put off."""
    unfit_ids: set[str] = field(default_factory=set)
    password: str | None = None
    _server: ThreadingHTTPServer = field(init=False, repr=False)

    def __post_init__(self) -> None:
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status, answer = fake.answer(self.path, self.headers.get("Authorization"), body)
                if status == 0:
                    self.close_connection = True
                    return
                text = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, path: str, authorization: str | None, body: bytes) -> tuple[int, Any]:
        if self.statuses:
            return self.statuses.pop(0), {"error": "as the test asks"}
        if self.password is not None:
            expected = "Basic " + base64.b64encode(f"me:{self.password}".encode()).decode()
            if authorization != expected:
                return 401, {"error": {"reason": "missing or wrong credentials"}}
        if path != "/_bulk" or not body.endswith(b"\n"):
            return 400, {"error": {"reason": f"not a bulk request: {path}"}}
        lines = [json.loads(line) for line in body.splitlines()]
        pairs = [(action["index"], source) for action, source in zip(lines[::2], lines[1::2], strict=True)]
        self.requests.append([target["_id"] for target, _ in pairs])
        items = [{"index": self._store(target["_index"], target["_id"], source)} for target, source in pairs]
        return 200, {"errors": any(item["index"]["status"] >= 300 for item in items), "items": items}

    def _store(self, index: str, id: str, source: Any) -> dict[str, Any]:
        if self.busy_documents.get(id, 0) > 0:
            self.busy_documents[id] -= 1
            return {"_id": id, "status": 429, "error": {"reason": "rejected execution"}}
        if id in self.unfit_ids:
            error = {"reason": "failed to parse field [n]", "caused_by": {"reason": "For input string"}}
            return {"_id": id, "status": 400, "error": error}
        self.indexes.setdefault(index, {})[id] = source
        return {"_id": id, "status": 201}
