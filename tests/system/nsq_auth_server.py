"""An auth server for NSQ clients: what a client may do is told by its secret."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

ALL = [{"topic": ".*", "channels": [".*"], "permissions": ["subscribe", "publish"]}]
SOME = [
    {"topic": "^clicks", "channels": ["^archive$", "tail"], "permissions": ["subscribe"]},
    {"topic": "logs$", "channels": [".*"], "permissions": ["publish"]},
    {"topic": "nowhere", "channels": [], "permissions": ["subscribe", "publish"]},
]


def _document(authorizations: Any, **others: Any) -> dict[str, Any]:
    return {"ttl": 3600, "identity": "worker", "identity_url": "", "authorizations": authorizations, **others}


ANSWERS: dict[str, tuple[int, Any]] = {
    "all": (200, _document(ALL, identity_url="http://auth.example/worker")),
    "other": (200, _document(ALL, identity="other")),
    "some": (200, _document(SOME)),
    "nobody": (200, _document(ALL, identity="")),
    "none": (200, _document([])),
    "null": (200, {"ttl": 60, "authorizations": None}),
    "empty": (200, {}),
    "expired": (200, _document(ALL, ttl=0)),
    "past": (200, _document(ALL, ttl=-5)),
    "permission": (200, _document([{"topic": "x", "channels": ["x"], "permissions": ["own"]}])),
    "expression": (200, _document([{"topic": "(", "channels": ["x"], "permissions": ["publish"]}])),
    "channel": (200, _document([{"topic": "x", "channels": ["[a"], "permissions": ["publish"]}])),
    "refused": (403, {"message": "NOT_AUTHORIZED"}),
    "broken": (500, {}),
    "text": (200, "no document"),
    "list": (200, []),
    "a b&c=%\u00fc": (200, _document(ALL, identity="odd")),
}


class NsqAuthServer(ThreadingHTTPServer):
    """At a free port of this host. `asked` has the queries of all requests."""

    def __init__(self) -> None:
        self.asked: list[dict[str, str]] = []
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: NsqAuthServer

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(url.query, keep_blank_values=True).items()}
        self.server.asked.append(query)
        status, document = ANSWERS.get(query["secret"], (403, {})) if url.path == "/auth" else (404, {})
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        """Nothing."""


@contextmanager
def auth_server() -> Iterator[NsqAuthServer]:
    """One that answers until the block is left."""
    with NsqAuthServer() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
